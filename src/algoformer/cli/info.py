"""`algoformer info`: what a model is and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from algoformer.cli.choose import read_experiment
from algoformer.cli.say import say
from algoformer.cli.text_files import open_text_model
from algoformer.evaluation import Table
from algoformer.model.cost import Cost, computation_comparison, cost
from algoformer.trace import Unroll
from algoformer.training import Experiment, load_checkpoint
from algoformer.training.schedule import unroll_at
from algoformer.training.trainer import ORIGIN

DESCRIPTION = """The outline and the cost of a model: parameters, FLOPs, memory, part by part.

Examples:
  algoformer info --scale paper --program algoformer
  algoformer info runs/linear-algoformer-smoke-seed0      a run, or a checkpoint file
  algoformer info --compare                               the paper's computation comparison
"""


def run_info(arguments: list[str]) -> int:
    """Describe a run, a checkpoint, or the model that options describe."""
    if arguments and not arguments[0].startswith("-"):
        if len(arguments) > 1:
            raise ValueError(
                f"info takes one run or checkpoint and no options beside it, got {arguments[1]!r}"
            )
        return _describe_file(Path(arguments[0]))
    extra: list[tuple[str, Any, Any]] = [("compare", bool, False)]
    experiment, settings = read_experiment(arguments, command="info", description=DESCRIPTION, extra=extra)
    if settings.compare:
        _say_comparison()
        return 0
    print(experiment.program)
    _say_cost(experiment)
    return 0


def _describe_file(path: Path) -> int:
    file = path / "checkpoint.safetensors" if path.is_dir() else path
    try:
        checkpoint = load_checkpoint(file)
    except ValueError as error:
        return _describe_text(path, error)
    print(checkpoint.model.program)
    print(f"task: {checkpoint.task if checkpoint.task is not None else 'none (built by hand)'}")
    for name, value in checkpoint.card.items():
        if name != "experiment":
            print(f"{name}: {_without_experiment(value) if name == ORIGIN else value}")
    model = checkpoint.model
    bill = cost(model.program, dim=model.dim, out=model.out, context=model.context, width=model.width)
    say(_cost_table(bill, "one prompt, one forward pass"))
    return 0


def _without_experiment(card: Any) -> Any:
    """A card in a line: the experiment, which is a page, left out, and that of what came before as well."""
    if not isinstance(card, dict):
        return card
    return {name: _without_experiment(value) for name, value in card.items() if name != "experiment"}


def _describe_text(path: Path, refused: ValueError) -> int:
    try:
        checkpoint = open_text_model(path, "cpu")
    except ValueError:
        raise refused from None
    print(checkpoint.model.program)
    print(f"parameters: {sum(weight.numel() for weight in checkpoint.model.parameters()):,}")
    for name, value in checkpoint.card.items():
        if name not in ("experiment", "program", "parameters"):
            print(f"{name}: {value}")
    return 0


def _say_cost(experiment: Experiment) -> None:
    task, training = experiment.task, experiment.training
    sizes: dict[str, Any] = {
        "dim": task.dim,
        "out": task.out,
        "context": task.context,
        "width": experiment.width,
        "batch": training.batch,
    }
    last = unroll_at(experiment, training.steps - 1)
    say(
        _cost_table(cost(experiment.program, unroll=Unroll(steps=last.steps, window=1), **sizes), "inference")
    )
    title = (
        f"a training step: batch {training.batch}, window {last.length}, gradient through {last.grad_steps}"
    )
    say(_cost_table(cost(experiment.program, unroll=last, **sizes), title, training=True))


def _cost_table(bill: Cost, title: str, *, training: bool = False) -> Table:
    lines = [(part.name, part.parameters, part.work) for part in bill.parts]
    lines.append(("total", bill.parameters, bill.work))
    columns: tuple[str, ...] = ("part", "parameters", "layer runs", "forward GFLOP")
    rows: list[tuple[str | int | float, ...]] = [
        (name, parameters, work.layers, work.forward / 1e9) for name, parameters, work in lines
    ]
    if training:
        columns += ("with backward", "kept MiB")
        rows = [
            (
                *row,
                (work.forward + work.backward + work.repeated) / 1e9,
                work.kept * bill.number_bytes / 2**20,
            )
            for row, (_, _, work) in zip(rows, lines, strict=True)
        ]
    return Table(columns=columns, rows=tuple(rows), title=title)


def _say_comparison() -> None:
    comparison = computation_comparison()
    shares = tuple(
        (share.setting, share.steps, f"{share.layers:.1%}", f"{share.flops:.1%}")
        for share in comparison.shares
    )
    say(
        Table(
            columns=("setting", "T", "of layer runs", "of FLOPs"),
            rows=shares,
            title="what the pre- and post-transformer take",
            note="The paper says about 1/10 at T = 20 and 1/100 at T = 200. It holds for inference; "
            "in training the post-transformer runs on every iteration of the window (ΔT = 15).",
        )
    )
    models = tuple(
        (name, bill.core_parameters, bill.units, bill.training / 1e12, bill.activation_bytes / 2**30)
        for name, bill in comparison.models.items()
    )
    columns = ("model", "parameters", "layer units a step", "TFLOP a step", "kept GiB")
    say(
        Table(
            columns=columns,
            rows=models,
            title="a training step at T = 20, ΔT = 15, batch 64, 41 points",
            note="Parameters without positions, read-in, read-out; back through a layer counts as two units.",
        )
    )
