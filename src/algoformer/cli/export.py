"""`algoformer export`: a trained model as one small file with its card, to keep and to share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse

if TYPE_CHECKING:
    from algoformer.cli.measure import Contender
    from algoformer.training import Checkpoint

DESCRIPTION = """Write a trained model, without the optimizer, to one file with a card of measured facts: data,
steps, errors at the trained depth and beyond it or scores on the test set, provenance.

Example: algoformer export runs/linear-algoformer-smoke-seed0 linear.safetensors
"""


@dataclass(frozen=True)
class ExportOptions:
    """Options of `algoformer export`."""

    run: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="A run folder or a checkpoint file.")
    ]
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE", help="The file to write.")]
    half: Annotated[
        bool, tyro.conf.arg(help="Store in half precision; the model is measured as it will be read.")
    ] = True
    raw: Annotated[
        bool, tyro.conf.arg(help="Use the last weights of a run that keeps a moving average of them.")
    ] = False
    depths: Annotated[
        tuple[int, ...], tyro.conf.arg(help="Further numbers of iterations to measure at.")
    ] = (200, 1000)
    prompts: Annotated[int, tyro.conf.arg(help="Number of held-out prompts.")] = 1280
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to measure.")
    ] = "auto"
    data_folder: Annotated[
        str | None, tyro.conf.arg(help="Folder with named corpora; by default $ALGOFORMER_DATA.")
    ] = None


def run_export(arguments: list[str]) -> int:
    """Measure the model as it will be stored, and write it."""
    chosen = parse(ExportOptions, arguments, command="export", description=DESCRIPTION)
    refuse_existing(chosen.file)
    from algoformer.checkpoint import Checkpoint, in_half_precision, save_checkpoint
    from algoformer.cli.measure import best_checkpoint, load_contender, open_checkpoint
    from algoformer.common.devices import pick_device
    from algoformer.training.card import exported_facts

    device = pick_device(chosen.device)
    command = shlex.join(["algoformer", "export", *arguments])
    if open_checkpoint(chosen.run).task is not None:
        contender = load_contender(chosen.run, raw=chosen.raw)
        model = in_half_precision(contender.model) if chosen.half else contender.model
        facts = _prompt_facts(contender, chosen, device)
        card, data = contender.card, open_checkpoint(chosen.run).data
    else:
        checkpoint = best_checkpoint(chosen.run, folder=chosen.data_folder)
        model = in_half_precision(checkpoint.model) if chosen.half else checkpoint.model
        facts = _text_facts(checkpoint, device)
        card, data = checkpoint.card, checkpoint.data
    kept = exported_facts(card) | facts | {"exported_by": command}
    save_checkpoint(
        chosen.file, Checkpoint(model=model.cpu().float(), data=data, card=kept), half=chosen.half
    )
    print(f"{chosen.file}: {chosen.file.stat().st_size / 1e6:.1f} MB")
    return 0


def _prompt_facts(contender: Contender, chosen: ExportOptions, device: str) -> dict[str, Any]:
    """Measure a model of prompts at its trained depth and beyond it."""
    from algoformer.cli.measure import held_out_prompts
    from algoformer.cli.progress import counting
    from algoformer.evaluation import depth_sweep, evaluate
    from algoformer.training.solver import open_solver

    prompt = held_out_prompts([contender], chosen.prompts)
    scale, depths = contender.task.scale, sorted({contender.steps, *chosen.depths})
    model = contender.model.to(device)
    with counting("measuring") as progress, open_solver(model) as solver:  # all depths from one run
        result = evaluate(solver, prompt, steps=contender.steps, scale=scale, label=contender.label, window=1)
        curve = depth_sweep(solver, prompt, depths=depths, scale=scale, progress=progress)
    for depth in depths:
        print(f"error at T = {depth}: {curve.at(depth):.3g}")
    return {
        "prompts": chosen.prompts,
        "error_by_sample": list(result.by_sample.error),
        "error_band": [result.by_sample.low[-1], result.by_sample.high[-1]],
        "error_by_depth": {str(depth): curve.at(depth) for depth in depths},
    }


def _text_facts(checkpoint: Checkpoint, device: str) -> dict[str, Any]:
    """Score a model of text on its test set."""
    from algoformer.cli.measure import score_table
    from algoformer.cli.say import say

    assert checkpoint.data is not None
    found = checkpoint.data.evaluate(checkpoint.model.to(device).eval())
    say(score_table(found))
    scores = [one.to_data() for one in found] if isinstance(found, list) else [found.to_data()]
    return {"measurements": scores}
