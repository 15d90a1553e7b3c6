"""Measure runs and textbook solvers on held-out prompts, or models of text on their test sets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algoformer.algorithms import build_solver
from algoformer.cli.choose import with_folder
from algoformer.cli.progress import counting
from algoformer.cli.say import say
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.common.plain_data import check_count
from algoformer.evaluation import Evaluation, Table, compare, evaluation_prompts, summary_table
from algoformer.evaluation.evaluation import UNLEARNED
from algoformer.extras import require
from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps, traced_part
from algoformer.report import error_by_sample, error_by_step, save
from algoformer.shipped import load
from algoformer.tasks import PuzzleTask, Task
from algoformer.training.solver import open_solver
from algoformer.training.step import raw_model

if TYPE_CHECKING:
    from algoformer.prompt import Prompt
    from algoformer.trace import Solver
    from algoformer.training import Checkpoint

TEXTBOOK = "textbook"
"""The name under which a puzzle's own algorithm is compared with."""

MOST_PROMPTS = 10_000_000
"""No measurement has more prompts."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A trained model, its task, its label in tables, and its card."""

    label: str
    model: AlgoFormer
    task: Task
    card: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """The number of iterations that its loop was trained with."""
        return default_steps(self.model.program)


def load_weights(path: Path, *, raw: bool = False) -> Checkpoint:
    """Load a model: the best weights of a run, or with `raw` its last ones, without their average."""
    checkpoint = load(path, best=not raw)
    if not raw:
        return checkpoint
    try:
        return replace(checkpoint, model=raw_model(checkpoint), card={**checkpoint.card, "weights": "raw"})
    except ValueError as error:
        raise ValueError(f"{path}: {error}; leave out --raw") from None


def label_of(path: Path) -> str:
    """Return a model's name: that of its folder as it is, or that of its file without the ending."""
    path = Path(os.path.abspath(path))
    return path.name if path.is_dir() else path.stem


def load_contender(path: Path, *, raw: bool = False) -> Contender:
    """Load a model that answers prompts; see `load_weights`."""
    checkpoint = load_weights(path, raw=raw)
    if checkpoint.task is None:
        kind = "no data" if checkpoint.data is None else f"data of the kind {checkpoint.data.name!r}"
        raise ValueError(f"{path} has {kind}, so there are no prompts to measure it on")
    model: Any = checkpoint.model.eval()
    return Contender(label=label_of(path), model=model, task=checkpoint.task, card=checkpoint.card)


def held_out_prompts(contenders: Sequence[Contender], count: int) -> Prompt:
    """Return the fixed prompts of the task; models with full attention are asked the last question only."""
    check_count("prompts", count, most=MOST_PROMPTS)
    prompt = evaluation_prompts(contenders[0].task, count=count)
    return prompt.for_attention(causal=all(contender.model.causal for contender in contenders))


def textbook_of(task: Task) -> Solver:
    """Return the classical algorithm that a puzzle brings with it."""
    if not isinstance(task, PuzzleTask):
        raise ValueError(
            f"--against {TEXTBOOK} is for puzzles, which have an algorithm of their own; for regression "
            "choose from algoformer evaluate --solvers"
        )
    return task.textbook()


def measure_after_training(folder: Path, *, command: str, device: str) -> None:
    """Measure a finished run, print a table, and leave numbers and plots in its folder."""
    if load(folder).task is None:
        say(measure_text(folder, out=folder, command=command, device=device))
        return
    results = measure_runs([folder], out=folder, command=command, device=device)
    say(summary_table(results))
    if results[0].error > UNLEARNED:
        print(
            "the error is close to 1, the error of always answering 0: the model has not learned the task "
            "yet; train longer (--steps), or with a lower learning rate (--lr)",
            file=sys.stderr,
        )


def measure_runs(
    paths: Sequence[Path],
    *,
    out: Path | None,
    command: str,
    device: str,
    against: Sequence[str] = (),
    prompts: int = 1280,
    steps: int | None = None,
    raw: bool = False,
) -> list[Evaluation]:
    """Measure runs and solvers on the same prompts; with `out`, write `evaluation.json` and plots there.

    On CUDA the models run as captured graphs; textbook solvers stay on the CPU.
    """
    contenders = [load_contender(path, raw=raw) for path in paths]
    task = contenders[0].task
    for other in contenders[1:]:
        if other.task != task:
            raise ValueError(
                f"{contenders[0].label} and {other.label} were trained on different tasks "
                f"({task} and {other.task}); measure them one at a time"
            )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written is noticed before measuring
    names = [contender.label for contender in contenders]
    solvers: dict[str, Solver] = {
        # two runs of the same name are told apart by their paths
        str(path) if names.count(contender.label) > 1 else contender.label: contender.model
        for path, contender in zip(paths, contenders, strict=True)
    }
    depth = steps or max(contender.steps for contender in contenders)
    for name in against:
        own = name == TEXTBOOK
        solvers[name] = textbook_of(task) if own else build_solver(name, view=task.problems, noise=task.noise)
    prompt = held_out_prompts(contenders, prompts)
    origin = {"command": command, "commit": source_commit()}
    with ExitStack() as stack:
        for label, solver in solvers.items():
            if isinstance(solver, AlgoFormer) and device != "cpu":
                solvers[label] = stack.enter_context(open_solver(solver.to(device)))
        progress = stack.enter_context(counting("measuring"))
        results = compare(solvers, prompt, steps=depth, progress=progress, provenance=origin)
    for place, contender in enumerate(contenders):
        if traced_part(contender.model.program) is None:  # its layers run once, however often others iterate
            results[place] = replace(results[place], steps=1)
    if out is not None:
        write_json(out / "evaluation.json", [result.to_data() for result in results])
        if can_plot():
            from algoformer.cli.report_page import write_report

            if len(results[0].by_sample.x) > 1:
                save(error_by_sample(results), out / "error_by_sample")
            save(error_by_step(results, trained=contenders[0].steps), out / "error_by_step")
            write_report(results, contenders[0], out, command=command)
    return results


def measure_text(
    path: Path,
    *,
    out: Path | None,
    command: str,
    device: str,
    raw: bool = False,
    folder: str | None = None,
    **options: Any,
) -> Table:
    """Score a model of text on its test set, with the options of its data's `evaluate`.

    With `out`, write `scores.json` there.
    """
    checkpoint = load_text(path, raw=raw, folder=folder)
    assert checkpoint.data is not None
    found = checkpoint.data.evaluate(checkpoint.model.to(device).eval(), **options)
    scores = [one.to_data() for one in found] if isinstance(found, list) else found.to_data()
    if out is not None:
        names = ("step", "valid_loss", "valid_accuracy", "corpus", "commit")
        card = {name: checkpoint.card[name] for name in names if name in checkpoint.card}
        write_json(out / "scores.json", {"command": command, **card, "measurements": scores})
    return score_table(found)


def refuse_folder(folder: str | None) -> None:
    """Refuse a folder of corpora for a model that answers prompts of a task."""
    if folder is not None:
        raise ValueError("--data-folder is for models of text; this one answers prompts of a task")


def load_text(path: Path, *, raw: bool = False, folder: str | None = None) -> Checkpoint:
    """Load a model of text and set the folder of its corpora; see `load_weights`."""
    checkpoint = load_weights(path, raw=raw)
    return checkpoint if folder is None else replace(checkpoint, data=with_folder(checkpoint.data, folder))


def score_table(found: Any) -> Table:
    """Return the scores of a model of text as a table: one row per score, or one per iteration."""
    if isinstance(found, list):
        rows: tuple[tuple[str | int | float, ...], ...] = tuple(
            (one.split, one.rows, name, number.value, f"{number.low:.2f} – {number.high:.2f}")
            for one in found
            for name, number in one.scores.items()
        )
        taken = ", ".join(f"{one.iterations:.2f}" for one in found if one.iterations is not None)
        note = f"Mean iterations of the loop: {taken}." if taken else ""
        return Table(columns=("split", "texts", "score", "value", "95 %"), rows=rows, note=note)
    measured = found.iterations, found.cross_entropy, found.perplexity, found.bits_per_byte
    return Table(
        columns=("iterations", "cross-entropy", "perplexity", "bits per byte"),
        rows=tuple(zip(*measured, strict=True)),
        note=f"Cross-entropy in nats per token, over {found.tokens:,} tokens of the test text.",
    )


def can_plot() -> bool:
    """Return whether matplotlib is installed; without it, print what is missing."""
    try:
        require("matplotlib", extra="viz")
    except ModuleNotFoundError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return False
    return True
