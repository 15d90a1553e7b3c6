"""`algoformer explore`: a page in which a model runs in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from algoformer import __version__
from algoformer.algorithms import GradientDescent, Newton
from algoformer.cli.explore_theorems import THEOREMS
from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse
from algoformer.cli.progress import counting
from algoformer.evaluation import compare, evaluation_prompts
from algoformer.evaluation.errors import Progress
from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps, traced_part
from algoformer.report.explorer import (
    Exploration,
    conclusion,
    explorer_page,
    is_small,
    pack_model,
    theorem_conclusion,
    verdict_of,
)
from algoformer.tasks import RegressionWithRepresentation, Task
from algoformer.trace import Solver, Unroll
from algoformer.training import Checkpoint, load_checkpoint

DESCRIPTION = f"""Write one HTML file in which a model runs in the browser, offline.

Drag the examples of a prompt, run the loop far beyond its trained depth, and see attention maps and states.

Examples:
  algoformer explore checkpoints/linear.safetensors
  algoformer explore runs/linear-algoformer-smoke-seed0 --out loop.html
  algoformer explore newton               hand-built weights; there are {", ".join(THEOREMS)}
"""

STORED_PROMPTS = 12
"""Prompts put into the page for tasks that the page cannot draw itself."""

FAR = 5
"""How many times the trained depth small models are measured at."""


@dataclass(frozen=True)
class ExploreOptions:
    """Options of `algoformer explore`."""

    model: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(help="Run folder, checkpoint file, or name of a theorem.")
    ]
    out: Annotated[Path | None, tyro.conf.arg(help="The page; by default MODEL.html.")] = None
    identification: Annotated[
        Path | None, tyro.conf.arg(help="JSON file of algoformer identify, shown in the page.")
    ] = None
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts for the conclusion.")] = 64


def run_explore(arguments: list[str]) -> int:
    """Measure, write the page, print where it is."""
    chosen = parse(ExploreOptions, arguments, command="explore", description=DESCRIPTION)
    if chosen.prompts < 1:
        raise ValueError(f"prompts must be at least 1, got {chosen.prompts}")
    out = chosen.out or Path(f"{Path(chosen.model).resolve().stem}.html")
    refuse_existing(out)
    found = None if chosen.identification is None else _read_identification(chosen.identification)
    if not Path(chosen.model).exists() and chosen.model in THEOREMS:
        model, exploration = _theorem(chosen.model, chosen.prompts)
    elif Path(chosen.model).exists():
        model, exploration = _trained(Path(chosen.model), chosen.prompts)
    else:
        raise ValueError(f"{chosen.model} does not exist, and theorems are {', '.join(THEOREMS)}")
    page = explorer_page(model, replace(exploration, identification=found))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    print(exploration.lead)
    print(f"page: {out} ({len(page) / 1e6:.1f} MB; open it in a browser)")
    return 0


def _read_identification(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not JSON ({error}); write it with algoformer identify") from None
    verdict_of(data)  # refused before anything is measured
    found: Mapping[str, Any] = data
    return found


def _theorem(name: str, prompts: int) -> tuple[AlgoFormer, Exploration]:
    theorem = THEOREMS[name]
    model, textbook = theorem.build()
    prompt = evaluation_prompts(theorem.task, count=prompts).to(torch.float64).prefix()
    unroll = Unroll(steps=default_steps(model.program))
    with torch.no_grad():
        gaps = model(prompt, unroll).predictions - textbook(prompt, unroll).predictions
    lead = theorem_conclusion(theorem.words, gaps.abs().max().item(), steps=unroll.steps, prompts=prompts)
    facts = (("statement", theorem.reference), *_facts(model))
    return model, Exploration(
        title=f"{theorem.title} as transformer weights", lead=lead, textbook=theorem.constants, facts=facts
    )


def _trained(path: Path, prompts: int) -> tuple[AlgoFormer, Exploration]:
    checkpoint = load_checkpoint(path / "checkpoint.safetensors" if path.is_dir() else path)
    model, task = checkpoint.model.eval(), checkpoint.task
    if task is None:
        raise ValueError(
            f"{path} does not say what it was trained on, so there is nothing to ask it; hand-built models "
            f"are {', '.join(THEOREMS)}"
        )
    pack_model(model)  # a model that the page cannot run is refused before anything is measured
    pairs = task.parts == 2 and task.out == 1
    exploration = Exploration(
        title=f"{path.resolve().stem}: {_title(task)}",
        pairs=pairs,
        scale=task.scale,
        noise=task.noise,
        representation=_representation(task),
        prompts=() if pairs else _stored(task, model),
        rivals=_rivals(task) if pairs else {},
        facts=(*_card(checkpoint), *_facts(model)),
    )
    if exploration.rivals:
        constants = "η = {step_size:.3g}, α = {alpha:.3g}, the same for all prompts".format(
            **exploration.rivals
        )
        exploration = replace(exploration, facts=(*exploration.facts, ("textbook constants", constants)))
    with counting("measuring") as progress:
        lead = _measured(model, task, exploration, prompts, progress)
    return model, replace(exploration, lead=lead)


def _title(task: Task) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(task).__name__)
    return f"{words.strip()}, {task.dim} dimension{'' if task.dim == 1 else 's'}"


def _representation(task: Task) -> dict[str, Any] | None:
    if not isinstance(task, RegressionWithRepresentation):
        return None
    return {"weights": [weight.tolist() for weight in task.phi.weights()], "slope": task.slope}


def _stored(task: Task, model: AlgoFormer) -> tuple[dict[str, Any], ...]:
    sampled = evaluation_prompts(task, count=STORED_PROMPTS)
    sampled = sampled if model.causal else sampled.prefix()
    return tuple(
        {
            "rows": sampled.rows[index].tolist(),
            "reads": list(sampled.reads),
            "targets": sampled.targets[index].tolist(),
            "parts": sampled.parts,
        }
        for index in range(sampled.batch)
    )


def _rivals(task: Task) -> dict[str, float]:
    """Return constants that converge on all of 1,024 prompts, where one that suits each is no contest.

    In one dimension a step size chosen for the prompt solves it at once, so both methods get one for all.
    """
    if task.dim > 1:
        return {}
    xs = evaluation_prompts(task, count=1024).part(0)[:, :-1, 0].double()
    squares, counts = xs.square().cumsum(dim=1), torch.arange(1, xs.shape[1] + 1)
    return {
        "step_size": 1 / (squares / counts)[:, 2:].max().item(),
        "alpha": 1 / squares.max().item() ** 2,
    }


def _measured(
    model: AlgoFormer, task: Task, exploration: Exploration, prompts: int, progress: Progress
) -> str:
    trained, looping = default_steps(model.program), traced_part(model.program) is not None
    small = is_small(model)
    rivals = exploration.rivals
    solvers: dict[str, Solver] = {"model": model}
    if exploration.pairs:
        solvers["gradient descent"] = GradientDescent(
            step_size=rivals.get("step_size", "practical"), view=task.problems
        )
        solvers["Newton's method"] = Newton(alpha=rivals.get("alpha"), view=task.problems)
    prompt = evaluation_prompts(task, count=prompts)
    own, *others = compare(
        solvers,
        prompt if model.causal else prompt.prefix(),
        steps=trained * (FAR if small and looping else 1),
        scale=task.scale,
        progress=progress,
    )
    return conclusion(own, others, trained=trained, looping=looping, examples=task.points - 1)


def _card(checkpoint: Checkpoint) -> tuple[tuple[str, str], ...]:
    wanted = {"step": "training steps", "device": "trained on", "command": "command", "commit": "commit"}
    card = checkpoint.card
    return tuple((label, str(card[name])) for name, label in wanted.items() if card.get(name))


def _facts(model: AlgoFormer) -> tuple[tuple[str, str], ...]:
    parameters = sum(weight.numel() for weight in model.parameters())
    dtype = str(model.read_out.weight.dtype).removeprefix("torch.")
    stored = pack_model(model)["stored"]
    return (
        ("parameters", f"{parameters:,}"),
        ("program", "; ".join(line.strip() for line in str(model.program).splitlines())),
        ("precision", f"computed in {dtype}, stored in {stored} without loss"),
        ("made by", f"algoformer {__version__}"),
    )
