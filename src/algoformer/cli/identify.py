"""`algoformer identify`: which algorithm does a trained model run?"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from algoformer.cli.parse import parse
from algoformer.common.terminal import printable

DESCRIPTION = """Find out which textbook algorithm a model runs on in-context regression.

The weights that its answers imply are measured after each pass on held-out prompts and compared with
families of algorithms: gradient descent, momentum, Newton's iteration, conjugate gradients and others.

Examples:
  algoformer identify linear
  algoformer identify runs/linear-algoformer-smoke-seed0 --out identification --prompts 192
"""


@dataclass(frozen=True)
class IdentifyOptions:
    """Options of `algoformer identify`."""

    model: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(metavar="MODEL", help="Run folder, checkpoint file or shipped model."),
    ]
    steps: Annotated[int, tyro.conf.arg(help="Passes of the loop to run.")] = 12
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts, at least 24.")] = 96
    seed: Annotated[int, tyro.conf.arg(help="Seed of the held-out prompts.")] = 0
    problem: Annotated[
        int,
        tyro.conf.arg(help="Regression problem inside a prompt: the layer of a chain of thought, from 0."),
    ] = 0
    by_layer: Annotated[
        bool, tyro.conf.arg(help="For a transformer without a loop: read its layers as passes.")
    ] = False
    json: Annotated[bool, tyro.conf.arg(help="Print JSON instead of a table.")] = False
    store: Annotated[bool, tyro.conf.arg(help="Add the verdict to the model's card.")] = False
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for identification.json and plots.")] = None


def run_identify(arguments: list[str]) -> int:
    """Identify a model's algorithm, print the verdict, and draw it if a folder is given."""
    chosen = parse(IdentifyOptions, arguments, command="identify", description=DESCRIPTION)
    from algoformer.checkpoint import add_to_card
    from algoformer.cli.insight_results import load_in_context, provenance, write_result
    from algoformer.cli.measure import check_prompts
    from algoformer.insight import identify, layers_as_passes
    from algoformer.model.program import has_loop
    from algoformer.report.insight_plots import identification_figures
    from algoformer.shipped import checkpoint_path

    check_prompts(chosen.prompts)
    contender = load_in_context(chosen.model, instead="use `algoformer certify`, which needs none")
    solver: Any = contender.model
    steps, looped = chosen.steps, any(has_loop(part) for part in contender.model.program)
    if not looped and not chosen.by_layer:
        raise ValueError(
            f"{chosen.model} has no loop, so it has no passes to compare with iterations; "
            "--by-layer reads its layers as passes"
        )
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made is noticed at once
    start = time.monotonic()
    if chosen.by_layer:
        solver = layers_as_passes(contender.model, contender.task)
        steps = solver.layers
    found = identify(
        solver,
        contender.task,
        steps=steps,
        prompts=chosen.prompts,
        seed=chosen.seed,
        problem=chosen.problem,
    )
    command = shlex.join(["algoformer", "identify", *arguments])
    found = replace(found, setting=found.setting | provenance(contender.label, command, start))
    print(found.to_json() if chosen.json else found)
    if chosen.store:
        add_to_card(checkpoint_path(chosen.model), {"identification": found.summary()})
    if chosen.out is not None:
        write_result(found, chosen.out / "identification.json", identification_figures)
        place = printable(str(chosen.out))
        print(f"numbers and plots: {place}", file=sys.stderr if chosen.json else sys.stdout)
    return 0
