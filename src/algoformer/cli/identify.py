"""`algoformer identify`: which algorithm does a trained model run?"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from algoformer.cli.measure import Contender, load_contender
from algoformer.cli.parse import parse
from algoformer.extras import require
from algoformer.insight import Identification, identify
from algoformer.model.program import has_loop
from algoformer.report import save
from algoformer.report.insight_plots import identification_figures
from algoformer.training.checkpoint import holds_text
from algoformer.training.files import write_json
from algoformer.training.provenance import source_commit

DESCRIPTION = """Find out which textbook algorithm a model runs on in-context regression.

The weights that its answers imply are measured after each pass on held-out prompts and compared with
families of algorithms: gradient descent, momentum, Newton's iteration, conjugate gradients and others.

Examples:
  algoformer identify checkpoints/linear.safetensors
  algoformer identify runs/linear-algoformer-smoke-seed0 --out identification --prompts 192
"""


@dataclass(frozen=True)
class IdentifyOptions:
    """Options of `algoformer identify`."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Run folder or checkpoint file.")]
    steps: Annotated[int, tyro.conf.arg(help="Passes of the loop to run.")] = 12
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts, at least 24.")] = 96
    seed: Annotated[int, tyro.conf.arg(help="Seed of the held-out prompts.")] = 0
    json: Annotated[bool, tyro.conf.arg(help="Print JSON instead of a table.")] = False
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for identification.json and pictures.")] = None


def run_identify(arguments: list[str]) -> int:
    """Identify a model's algorithm, print the verdict, and draw it if a folder is given."""
    chosen = parse(IdentifyOptions, arguments, command="identify", description=DESCRIPTION)
    contender = load_in_context(chosen.model, instead="`algoformer certify` judges its depth")
    if not any(has_loop(part) for part in contender.model.program):
        raise ValueError(
            f"{chosen.model} has no loop, so it has no passes to compare with iterations; "
            "`algoformer evaluate --against least-squares,ridge` compares its answers"
        )
    start = time.monotonic()
    found = identify(
        contender.model, contender.task, steps=chosen.steps, prompts=chosen.prompts, seed=chosen.seed
    )
    command = shlex.join(["algoformer", "identify", *arguments])
    found = replace(found, setting=found.setting | provenance(contender.label, command, start))
    print(found.to_json() if chosen.json else found)
    if chosen.out is not None:
        _write(found, chosen.out)
        print(f"numbers and pictures: {chosen.out}", file=sys.stderr if chosen.json else sys.stdout)
    return 0


def load_in_context(path: Path, *, instead: str) -> Contender:
    """Load a model of prompts; refuse a model of text and say what to use instead.

    Raises:
        ValueError: the file holds a model of text, or no model.
    """
    if path.is_file() and holds_text(path):
        raise ValueError(f"{path} is a model of text, with no regression inside its prompts; {instead}")
    return load_contender(path)


def provenance(label: str, command: str, start: float) -> dict[str, Any]:
    """Return what a result needs to be traced: model, command, commit, device and time."""
    return {
        "model": label,
        "command": command,
        "commit": source_commit(),
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(time.process_time(), 1),
    }


def _write(found: Identification, folder: Path) -> None:
    write_json(folder / "identification.json", found.to_data())
    draw(identification_figures, found, folder)


def draw(figures: Any, found: Any, folder: Path) -> None:
    """Save the figures of a result, if matplotlib is installed; otherwise say what is missing."""
    try:
        require("matplotlib", extra="viz")
    except ModuleNotFoundError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        return
    for name, figure in figures(found).items():
        save(figure, folder / name)
