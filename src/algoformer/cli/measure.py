"""Runs and textbook solvers on the same held-out prompts: numbers, table, pictures."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoformer.algorithms import build_solver
from algoformer.cli.progress import counting
from algoformer.common.files import write_json
from algoformer.common.provenance import source_commit
from algoformer.evaluation import Evaluation, compare, evaluation_prompts
from algoformer.extras import require
from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps
from algoformer.prompt import Prompt
from algoformer.report import error_by_sample, error_by_step, save
from algoformer.tasks import Task
from algoformer.trace import Solver
from algoformer.training import Checkpoint, load_checkpoint
from algoformer.training.resume import raw_model
from algoformer.training.solver import open_solver


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A trained model, what it was trained on, what it is called and what its card says."""

    label: str
    model: AlgoFormer
    task: Task
    card: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """How many iterations its loop was trained with."""
        return default_steps(self.model.program)


def open_checkpoint(path: Path) -> Checkpoint:
    """What a run folder or a checkpoint file holds.

    Raises:
        ValueError: there is no such thing, or no checkpoint in it yet.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; give a run folder or a checkpoint file")
    file = path / "checkpoint.safetensors" if path.is_dir() else path
    if not file.exists():
        raise ValueError(f"{path} holds no checkpoint.safetensors; was the run started?")
    return load_checkpoint(file)


def load_contender(path: Path, *, raw: bool = False) -> Contender:
    """A run folder or a checkpoint file as something that can be measured.

    Where a run keeps an average of its weights that is what is loaded, unless `raw` asks for the weights.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.task is None:
        raise ValueError(f"{path} was not trained on a task, so there are no prompts to measure it on")
    try:
        model = raw_model(checkpoint) if raw else checkpoint.model
    except ValueError as error:
        raise ValueError(f"{path}: {error}; leave out --raw") from None
    return Contender(
        label=path.name if path.is_dir() else path.stem,
        model=model.eval(),
        task=checkpoint.task,
        card={**checkpoint.card, "weights": "raw"} if raw else checkpoint.card,
    )


def held_out_prompts(contenders: Sequence[Contender], count: int) -> Prompt:
    """The fixed prompts of the contenders' task; full attention may be shown one question only, the last."""
    if count < 1:
        raise ValueError(f"prompts must be at least 1, got {count}")
    prompt = evaluation_prompts(contenders[0].task, count=count)
    return prompt if all(contender.model.causal for contender in contenders) else prompt.prefix()


def measure_runs(
    paths: Sequence[Path],
    *,
    against: Sequence[str],
    folder: Path,
    prompts: int,
    steps: int | None,
    command: str,
    raw: bool = False,
    device: str = "cpu",
) -> list[Evaluation]:
    """Measure runs and solvers, and leave `evaluation.json` and the pictures in `folder`.

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
    names = [contender.label for contender in contenders]
    solvers: dict[str, Solver] = {
        # two runs of the same name in different places: say where
        str(path) if names.count(contender.label) > 1 else contender.label: contender.model
        for path, contender in zip(paths, contenders, strict=True)
    }
    depth = steps or max(contender.steps for contender in contenders)
    for name in against:
        solvers[name] = build_solver(name, view=task.problems, noise=task.noise)
    prompt = held_out_prompts(contenders, prompts)
    origin = {"command": command, "commit": source_commit()}
    with ExitStack() as stack:
        for label, solver in solvers.items():
            if isinstance(solver, AlgoFormer) and device != "cpu":
                solvers[label] = stack.enter_context(open_solver(solver.to(device)))
        progress = stack.enter_context(counting("measuring"))
        results = compare(
            solvers, prompt, steps=depth, scale=task.scale, progress=progress, provenance=origin
        )
    write_json(folder / "evaluation.json", [result.to_data() for result in results])
    draw_results(results, folder, trained=contenders[0].steps)
    return results


def draw_results(results: Sequence[Evaluation], folder: Path, *, trained: int | None) -> None:
    """Both pictures of an evaluation, if matplotlib is there; otherwise a line that says what is missing."""
    try:
        require("matplotlib", extra="viz")
    except ModuleNotFoundError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        return
    if len(results[0].by_sample.x) > 1:
        save(error_by_sample(results), folder / "error_by_sample")
    save(error_by_step(results, trained=trained), folder / "error_by_step")
