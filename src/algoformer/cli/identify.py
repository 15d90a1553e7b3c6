"""`algoformer identify`: which algorithm does a trained model run?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoformer.cli.parse import ModelOption, parse

DESCRIPTION = """Find out which textbook algorithm a model runs on in-context regression.

The weights that its answers imply are measured after each pass on held-out prompts and compared with
families of algorithms: gradient descent, momentum, Newton's iteration, conjugate gradients and others. For a
series, which asks one question, the answers themselves are compared.

Examples:
  algoformer identify linear
  algoformer identify runs/linear-algoformer-smoke-seed0 --out identification
"""


@dataclass(frozen=True)
class IdentifyOptions:
    """Options of `algoformer identify`."""

    model: ModelOption
    iterations: int = 12  # Iterations of the loop to run.
    prompts: int | None = None
    """Number of held-out prompts, at least 24; by default 96, or for series as many as give 4,000 answers."""
    seed: int = 0  # Seed of the held-out prompts.
    problem: int = 0  # Regression problem inside a prompt: the layer of a chain of thought, from 0.
    by_layer: bool = False  # For a transformer without a loop: read its layers as passes.
    json: bool = False  # Print JSON instead of a table.
    store: bool = False  # Add the verdict to the model's card.
    out: Path | None = None  # Folder for identification.json and plots.


def run_identify(arguments: list[str]) -> int:
    """Identify a model's algorithm, print the verdict, and draw it if a folder is given."""
    chosen = parse(IdentifyOptions, arguments, command="identify", description=DESCRIPTION)
    from algoformer.cli.insight_results import deliver, prepare, with_provenance
    from algoformer.cli.measure import load_contender
    from algoformer.insight import identify, layers_as_passes
    from algoformer.model import AlgoFormer
    from algoformer.model.program import has_loop
    from algoformer.report.insight_plots import identification_figures
    from algoformer.shipped import load

    if not isinstance(load(chosen.model).model, AlgoFormer):
        raise ValueError(
            f"{chosen.model} is a model of text, with no regression inside its prompts; "
            "use `algoformer certify`, which needs none"
        )
    contender = load_contender(chosen.model)
    if not chosen.by_layer and not any(has_loop(part) for part in contender.model.program):
        raise ValueError(
            f"{chosen.model} has no loop, so it has no passes to compare with iterations; "
            "--by-layer reads its layers as passes"
        )
    prepare(chosen)
    start = time.monotonic()
    solver: Any = layers_as_passes(contender.model, contender.task) if chosen.by_layer else contender.model
    found = identify(
        solver,
        contender.task,
        steps=solver.layers if chosen.by_layer else chosen.iterations,
        prompts=chosen.prompts,
        seed=chosen.seed,
        problem=chosen.problem,
    )
    found = with_provenance(found, contender.label, ["identify", *arguments], start)
    deliver(found, chosen, {"identification": found.summary()}, "identification.json", identification_figures)
    return 0
