"""The pages of `algoformer explore`: what is measured, and what is put beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from algoformer import __version__
from algoformer.algorithms import GradientDescent, Newton
from algoformer.cli.explore_puzzles import puzzle_of, stored_puzzles
from algoformer.cli.explore_theorems import THEOREMS
from algoformer.cli.measure import Contender, label_of, load_contender
from algoformer.cli.progress import counting
from algoformer.common.files import write_text
from algoformer.common.names import check_choice
from algoformer.common.terminal import short
from algoformer.evaluation import Evaluation, compare, evaluation_prompts
from algoformer.language.trunk import TextModel
from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps, traced_part
from algoformer.prompt import Prompt
from algoformer.report.explorer import (
    Exploration,
    conclusion,
    explorer_page,
    is_small,
    pack_model,
    puzzle_conclusion,
    theorem_conclusion,
    verdict_of,
)
from algoformer.shipped import load, shipped_names
from algoformer.tasks import PuzzleTask, RegressionWithRepresentation, Sudoku, Task
from algoformer.trace import Solver, Unroll

STORED_PROMPTS = 12
"""Prompts put into the page for tasks that the page cannot draw itself."""

FAR = 5
"""Multiple of the trained depth at which small models are measured."""


def make_page(
    name: str, out: Path, *, identification: Any = None, text: Sequence[str] = (), prompts: int = 64
) -> str:
    """Write the page of a model or theorem to `out` and return its conclusion in words.

    Args:
        name: a run folder, a checkpoint file, a shipped model, or a theorem of `THEOREMS`.
        out: the HTML file.
        identification: JSON data of `algoformer identify`.
        text: lines to show for a text model.
        prompts: number of held-out prompts for the conclusion.
    """
    if identification is not None:
        verdict_of(identification)  # refused before anything is measured
    path = Path(name)
    if not path.exists() and not path.suffix and len(path.parts) == 1:
        check_choice("model", name, [*THEOREMS, *shipped_names()])
    if name in THEOREMS and not path.exists():
        identification = _of_task(identification, THEOREMS[name].task, name)
        model, exploration = _theorem(name, prompts)
    elif (checkpoint := load(path)).tokenizer:
        from algoformer.cli.explore_text import page_of_text

        if identification is not None:
            raise ValueError("an identification belongs to regression; leave out --identification for text")
        return _write(out, *page_of_text(checkpoint, label_of(path), text))
    else:
        contender = load_contender(path)
        identification = _of_task(identification, contender.task, contender.label)
        model, exploration = contender.model, explore(contender)
        exploration = replace(exploration, lead=_measured(contender, exploration, prompts))
    if text:
        raise ValueError("text lines are shown for text models only; leave out --text for this one")
    page = explorer_page(model, replace(exploration, identification=identification))
    return _write(out, page, exploration.lead)


def _of_task(found: Any, task: Task, label: str) -> Any:
    """Refuse an identification on another task; one of another model says so in its verdict."""
    if found is None:
        return None
    if isinstance(task, PuzzleTask):
        raise ValueError("an identification belongs to regression; leave out --identification for a puzzle")
    setting = found.get("setting") or {}
    own = {"task": type(task).__name__, "dim": task.dim}
    if task.parts > 1:  # a series has fewer examples than states
        own["examples"] = task.points - 1
    for name, value in own.items():
        if setting.get(name, value) != value:
            raise ValueError(
                f"the identification must be of the task of {label}: {name} is {value}, there it is "
                f"{short(setting[name])}; make one with `algoformer identify {label}`"
            )
    other = setting.get("model", label)
    if other == label:
        return found
    return {**found, "sentence": f"{verdict_of(found)['verdict']} (Identified: {other}, not {label}.)"}


def _write(out: Path, page: str, lead: str) -> str:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page)
    return lead


def _theorem(name: str, prompts: int) -> tuple[AlgoFormer, Exploration]:
    theorem = THEOREMS[name]
    model, textbook = theorem.build()
    prompt = evaluation_prompts(theorem.task, count=prompts).to(torch.float64).prefix()
    unroll = Unroll(steps=default_steps(model.program))
    with torch.no_grad():
        gaps = model(prompt, unroll).predictions - textbook(prompt, unroll).predictions
    lead = theorem_conclusion(theorem.words, gaps.abs().max().item(), steps=unroll.steps, prompts=prompts)
    facts = (("statement", theorem.reference), *facts_of(model, pack_model(model)))
    title = f"{theorem.words[0].upper()}{theorem.words[1:]} as transformer weights"
    return model, Exploration(title=title, lead=lead, textbook=theorem.constants, facts=facts)


def explore(contender: Contender) -> Exploration:
    """Return what the page of a trained model shows; its conclusion is left empty.

    Raises:
        ValueError: the page cannot run the model, or would be too large.
    """
    model, task = contender.model, contender.task
    pack = pack_model(model)  # a model that the page cannot run is refused before anything is measured
    pairs = task.parts == 2 and task.out == 1
    facts = (*_card(contender), *facts_of(model, pack))
    title = f"{contender.label}: {task_title(task)}"
    common: dict[str, Any] = {"title": title, "pairs": pairs, "scale": task.scale}
    if pairs:
        rivals = textbook_constants(task)
        if rivals:
            constants = f"η = {rivals['step_size']:.3g}, α = {rivals['alpha']:.3g}, the same for all prompts"
            facts = (*facts, ("textbook constants", constants))
        return Exploration(
            noise=task.noise, representation=_representation(task), rivals=rivals, facts=facts, **common
        )
    sampled = evaluation_prompts(task, count=STORED_PROMPTS).for_attention(causal=model.causal)
    common["answers_in_rows"] = sampled.answers_in_rows
    if not sampled.classes:
        return Exploration(prompts=_stored(sampled), facts=facts, **common)
    order = f"{STORED_PROMPTS} held-out ones; those that take the model the most iterations come first"
    return Exploration(
        puzzle=puzzle_of(task),
        prompts=stored_puzzles(model, sampled),
        facts=(*facts, ("prompts", order)),
        **common,
    )


def task_title(task: Task) -> str:
    """Return the name of a task in words, with its dimension or the size of its board."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(task).__name__)
    if isinstance(task, Sudoku):
        return f"Sudoku, {task.size} × {task.size}"
    if isinstance(task, PuzzleTask):
        return words.strip()
    return f"{words.strip()}, {task.dim} dimension{'' if task.dim == 1 else 's'}"


def _representation(task: Task) -> dict[str, Any] | None:
    if not isinstance(task, RegressionWithRepresentation):
        return None
    return {"weights": [weight.tolist() for weight in task.phi.weights()], "slope": task.slope}


def _stored(sampled: Prompt) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "rows": sampled.rows[index].tolist(),
            "reads": list(sampled.reads),
            "targets": sampled.targets[index].tolist(),
            "parts": sampled.parts,
        }
        for index in range(sampled.batch)
    )


def textbook_constants(task: Task) -> dict[str, float]:
    """Return a step size and an α that converge on all of 1,024 prompts; none where each prompt has its own.

    In one dimension constants that are chosen for a prompt solve it in one step, which shows nothing.
    """
    examples = task.points - 1
    if task.dim > 1 or not examples:
        return {}
    xs = evaluation_prompts(task, count=1024).part(0)[:, :-1, 0].double()
    squares, counts = xs.square().cumsum(dim=1), torch.arange(1, xs.shape[1] + 1)
    return {
        # one or two examples, of which some prompts begin with large ones, would ask for tiny steps
        "step_size": 1 / (squares / counts)[:, min(2, examples - 1) :].max().item(),
        "alpha": 1 / squares.max().item() ** 2,
    }


def _measured(contender: Contender, exploration: Exploration, prompts: int) -> str:
    model, task, trained = contender.model, contender.task, contender.steps
    looping, rivals = traced_part(model.program) is not None, exploration.rivals
    solvers: dict[str, Solver] = {"model": model}
    if exploration.pairs:
        step_size: Any = rivals.get("step_size", "practical")
        solvers["gradient descent"] = GradientDescent(step_size=step_size, view=task.problems)
        solvers["Newton's method"] = Newton(alpha=rivals.get("alpha"), view=task.problems)
    elif isinstance(task, PuzzleTask):
        solvers["the textbook algorithm"] = task.textbook()
    with counting("measuring") as progress:
        own, *others = compare(
            solvers,
            evaluation_prompts(task, count=prompts).for_attention(causal=model.causal),
            steps=trained * (FAR if is_small(model) and looping else 1),
            progress=progress,
        )
    return concluded(own, others, contender)


def concluded(own: Evaluation, rivals: Sequence[Evaluation], contender: Contender) -> str:
    """Return what the measurements of a model and of textbook methods say, in words."""
    looping = traced_part(contender.model.program) is not None
    if own.unsolved is not None:
        return puzzle_conclusion(own, rivals, trained=contender.steps, looping=looping)
    examples = None if isinstance(contender.task, PuzzleTask) else contender.task.points - 1
    return conclusion(own, rivals, trained=contender.steps, looping=looping, examples=examples)


def _card(contender: Contender) -> tuple[tuple[str, str], ...]:
    wanted = {"step": "training steps", "device": "trained on", "command": "command", "commit": "commit"}
    card = contender.card
    return tuple((label, str(card[name])) for name, label in wanted.items() if card.get(name))


def facts_of(model: AlgoFormer | TextModel, pack: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return facts about a model for the end of its page."""
    parameters = sum(weight.numel() for weight in model.parameters())
    return (
        ("parameters", f"{parameters:,}"),
        ("program", "; ".join(line.strip() for line in str(model.program).splitlines())),
        ("precision", f"computed in {pack['dtype']}, stored in {pack['stored']} without loss"),
        ("made by", f"algoformer {__version__}"),
    )
