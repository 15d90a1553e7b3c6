"""`algoformer export`: a trained model as one small file with its card, to keep and to share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import DeviceName, parse
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from algoformer.cli.measure import Contender
    from algoformer.evaluation import Curve

DESCRIPTION = """Write a trained model, without the optimizer, to one file with a card of measured facts:
data, steps, errors at the trained depth and beyond it or scores on the test set, provenance.

Example: algoformer export runs/linear-algoformer-smoke-seed0 linear.safetensors
"""


@dataclass(frozen=True)
class ExportOptions:
    """Options of `algoformer export`."""

    run: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="A run folder or a checkpoint file.")
    ]
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE", help="The file to write.")]
    half: bool = True  # Store in half precision; the card's numbers are those of the stored weights.
    raw: bool = False  # Use the last weights of a run, not the best ones or their moving average.
    depths: tuple[int, ...] = (200, 1000)  # Further numbers of iterations to measure at.
    prompts: int = 1280  # Number of held-out prompts.
    certify: bool = True  # Store a depth certificate, measured on the CPU.
    examples: tuple[str, ...] = ()
    """Lines for a model of text; they are kept on its card with its answers."""
    device: DeviceName = "auto"  # Where to measure.
    data_folder: str | None = None  # Folder with named corpora; by default $ALGOFORMER_DATA.


def run_export(arguments: list[str]) -> int:
    """Measure the model as it will be stored, and write it."""
    chosen = parse(ExportOptions, arguments, command="export", description=DESCRIPTION)
    refuse_existing(chosen.file)
    from algoformer.common.devices import pick_device
    from algoformer.shipped import load

    device = pick_device(chosen.device)
    if any(depth < 1 for depth in chosen.depths):
        raise ValueError(f"depths must be at least 1, got {' '.join(map(str, chosen.depths))}")
    if load(chosen.run).task is None:
        _export_text(chosen, device, shlex.join(["algoformer", "export", *arguments]))
    else:
        _export_prompts(chosen, device)
    print(f"{printable(str(chosen.file))}: {chosen.file.stat().st_size / 1e6:.1f} MB")
    return 0


def _export_prompts(chosen: ExportOptions, device: str) -> None:
    from algoformer.checkpoint import Checkpoint, save_checkpoint
    from algoformer.cli.measure import load_contender, refuse_folder
    from algoformer.insight import certify
    from algoformer.insight.instrument import has_single_loop
    from algoformer.shipped import load
    from algoformer.training.export import in_half_precision
    from algoformer.training.run_folder import exported_facts

    if chosen.examples:
        raise ValueError("--examples are for models of text; this one answers prompts of a task")
    contender = load_contender(chosen.run, raw=chosen.raw)
    refuse_folder(chosen.data_folder)
    if chosen.half:
        in_half_precision(contender.model)
    card = exported_facts(contender.card) | _measured(contender, chosen, device)
    model = contender.model.cpu()
    if chosen.certify and has_single_loop(model):
        found = certify(model, contender.task)
        print(found.sentence)
        card["certificate"] = found.to_data()
    stored = Checkpoint(model=model, data=load(chosen.run).data, card=card)
    save_checkpoint(chosen.file, stored, half=chosen.half)


def _measured(contender: Contender, chosen: ExportOptions, device: str) -> dict[str, Any]:
    """Measure a model of prompts at its trained depth and beyond it."""
    from algoformer.cli.measure import held_out_prompts
    from algoformer.cli.progress import counting
    from algoformer.evaluation import errors_at, evaluate
    from algoformer.training.solver import open_solver

    prompt = held_out_prompts([contender], chosen.prompts)
    depths = sorted({contender.steps, *chosen.depths})
    model = contender.model.to(device)
    with counting("measuring") as progress, open_solver(model) as solver:  # all depths from one run
        result = evaluate(solver, prompt, steps=contender.steps, label=contender.label, window=1)
        found = errors_at(solver, prompt, depths=depths, progress=progress)["clean"]
    curve, unsolved = found.by_depth, found.unsolved
    for depth in depths:
        share = "" if unsolved is None else f", solved: {1 - unsolved.at(depth):.4g}"
        print(f"error at T = {depth}: {curve.at(depth):.3g}{share}")
    solved = {} if unsolved is None else {"solved_by_depth": _solved(unsolved)}
    return solved | {
        "prompts": chosen.prompts,
        "error_by_sample": list(result.by_sample.error),
        "error_band": [result.by_sample.low[-1], result.by_sample.high[-1]],
        "error_by_depth": {str(depth): curve.at(depth) for depth in depths},
    }


def _solved(unsolved: Curve) -> dict[str, list[float]]:
    """Return the share of solved prompts and its 5–95 % band at every depth."""
    rows = zip(unsolved.x, unsolved.error, unsolved.low, unsolved.high, strict=True)
    return {str(int(depth)): [1 - mean, 1 - high, 1 - low] for depth, mean, low, high in rows}


def _export_text(chosen: ExportOptions, device: str, command: str) -> None:
    from algoformer.cli.measure import load_text, score_table
    from algoformer.cli.say import say
    from algoformer.training.export import export_text

    for name, option in {"depths": "--depths", "prompts": "--prompts", "certify": "--no-certify"}.items():
        if getattr(chosen, name) != getattr(ExportOptions, name):
            raise ValueError(f"{option} is for models that answer prompts; this one was trained on text")
    checkpoint = load_text(chosen.run, raw=chosen.raw, folder=chosen.data_folder)
    checkpoint.model.to(device).eval()
    found = export_text(chosen.file, checkpoint, half=chosen.half, examples=chosen.examples, command=command)
    say(score_table(found))
