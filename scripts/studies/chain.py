"""Nested against flat loops on a chain of solves, with equal parameters and equal layer calls.

The task is u ← tanh(2 A⁻¹ u), repeated. Two layers A and B of equal size, each with its norm: the flat loop
runs (A B) m times in a round, the nested one runs A once and then B 2m - 1 times; the clock is the flat loop
with the sinusoids of the iteration's number added. Every round has its own target. "random" draws the inner
iterations of a training step at random, for both loops from the same numbers of layer calls.

    python -m scripts.studies.chain --out results/nested --size small
    python -m scripts.studies.chain --out results/nested --size full --device cuda
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algoformer.depth import Depth
from algoformer.evaluation import Cell, Table, bootstrap, evaluation_prompts
from algoformer.evaluation.solvers import full_precision
from algoformer.model.address import inner_loops
from algoformer.model.program import Layers, Loop, Program, default_steps
from algoformer.report import markdown_table, save
from algoformer.report.canvas import panels
from algoformer.tasks import ChainOfSolves
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig
from scripts.studies.runs import StudyRun, add_options, make


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of the study.

    Attributes:
        dim: rows of the matrix.
        smallest: the smallest eigenvalue; the largest is 2.
        rounds: solves in the chain, which are outer iterations.
        pairs: pairs of layer calls in a round, m; the nested loop runs 2m - 1 inner iterations.
        width: width of the residual stream.
        heads: attention heads.
        training: further settings of the training.
    """

    dim: int
    smallest: float
    rounds: int
    pairs: int
    width: int
    heads: int
    training: dict[str, Any]


SIZES = {
    "tiny": Size(
        dim=3,
        smallest=0.4,
        rounds=3,
        pairs=3,
        width=32,
        heads=2,
        training={"steps": 2000, "batch_size": 64, "optimizer": "adamw", "lr": 3e-3, "weight_decay": 0.01},
    ),
    "small": Size(
        dim=4,
        smallest=0.4,
        rounds=4,
        pairs=4,
        width=32,
        heads=2,
        training={"steps": 2500, "batch_size": 192, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.01},
    ),
    # in trials of 1,000 steps at width 64 the loss of Muon was two thirds of that of AdamW
    "full": Size(
        dim=16,
        smallest=2 / 30,
        rounds=6,
        pairs=4,
        width=256,
        heads=8,
        training={
            "steps": 6000,
            "batch_size": 128,
            "optimizer": "muon",
            "lr": 4e-3,
            "weight_decay": 0.01,
            "init": "fan_in",
            "precision": "tf32",
        },
    ),
}
SIZES["long"] = replace(SIZES["small"], rounds=6)
for _name in ("tiny", "long"):
    SIZES[f"{_name}-fan-in"] = replace(SIZES[_name], training=SIZES[_name].training | {"init": "fan_in"})
"""Sizes for one CPU core (half a minute, three and five minutes a run), and one for a GPU."""

KINDS = ("nested", "flat", "clock", "nested-random", "flat-random")
"""The kinds of a seed; the first three run as the program says, the others at random depths."""

PAIRS = (1, 2, 3, 4, 5, 6, 8, 11, 15)
"""Pairs of layer calls in a round at which every model is measured."""

RANDOM_PAIRS = (-1, 0, 1, 2)
"""What random kinds add to the pairs of layer calls in a round, one of these at every step."""

PROMPTS = 1024
"""Held-out prompts."""


def program_of(kind: str, size: Size) -> Program:
    """Return the program of a kind; all kinds have the same parameters and the same layer calls."""
    words: dict[str, Any] = {"heads": size.heads, "causal": False}
    first, second = Layers(1, name="a", **words), Layers(1, name="b", **words)
    if kind.startswith("nested"):
        inner = Loop(Layers(1, **words), steps=2 * size.pairs - 1, name="inner")
        return Program(Loop((first, inner), steps=size.rounds, name="loop"))
    signal = "sinusoid" if kind == "clock" else "none"
    steps = size.rounds * size.pairs
    return Program(Loop((first, second), steps=steps, name="loop", step_signal=signal))


def training_of(kind: str, size: Size, seed: int, **words: Any) -> TrainConfig:
    """Return the training of one run: a target for every round, gradients through all iterations."""
    pairs = [size.pairs + more for more in RANDOM_PAIRS]
    if kind == "nested-random":
        words["inner_depth"] = Depth(kind="list", choices=tuple(2 * one - 1 for one in pairs))
    if kind == "flat-random":
        words["depth"] = Depth(kind="list", choices=tuple(size.rounds * one for one in pairs))
    usual: dict[str, Any] = {
        "loss": "stages",
        "window": size.rounds * (1 if "nested" in kind else max(pairs) if "random" in kind else size.pairs),
        "backprop": "full",
        "schedule": "cosine",
        "warmup": 0.04,
        "betas": (0.9, 0.98),
        "clip_norm": 1.0,
        "seed": seed,
    }
    return TrainConfig(**usual | size.training | words)


def study_runs(size: Size, seeds: list[int], steps: int | None = None) -> Iterator[StudyRun]:
    """Yield the runs, seed by seed, so that partial results compare all kinds."""
    task = ChainOfSolves(size=size.dim, smallest=size.smallest, rounds=size.rounds)
    for seed in seeds:
        for kind in KINDS:
            program = program_of(kind, size)
            training = training_of(kind, size, seed, **({"steps": steps} if steps else {}))
            yield StudyRun(
                name=f"{kind}/seed{seed}",
                experiment=Experiment(program, task, width=size.width, training=training),
            )


def errors_of(model: Any, run: StudyRun, pairs: int) -> np.ndarray:
    """Return the squared error of every held-out prompt after each of twice the trained rounds."""
    task = run.experiment.task
    rounds = 2 * task.rounds
    prompt = evaluation_prompts(replace(task, rounds=rounds), count=PROMPTS)
    device = next(model.parameters()).device
    if run.kind.startswith("nested"):
        unroll = Unroll(steps=rounds, inner={"inner": 2 * pairs - 1})
    else:
        unroll = Unroll(steps=rounds * pairs)
    with full_precision(model, device):
        answers: Tensor = model(prompt.to(device), unroll).predictions.cpu()
    every = answers.shape[0] // rounds
    assert prompt.stages is not None
    return (answers[every - 1 :: every] - prompt.stages).square().mean(dim=(2, 3)).double().numpy()


def measure(run: StudyRun, model: Any) -> dict[str, Any]:
    """Return errors over outer and inner iterations, with bands where the model was trained."""
    rounds = run.experiment.task.rounds
    inner = inner_loops(run.experiment.program)
    own = (inner["loop/inner"].steps + 1) // 2 if inner else default_steps(run.experiment.program) // rounds
    grid = {pairs: errors_of(model, run, pairs) for pairs in sorted({*PAIRS, own, 2 * own})}
    trained = grid[own][rounds - 1]
    band = bootstrap(trained)
    return {
        "error_by_outer_and_pairs": {
            str(pairs): [float(f"{value:.4g}") for value in errors.mean(axis=1)]
            for pairs, errors in grid.items()
        },
        "errors_of_prompts": [float(f"{value:.3g}") for value in trained],
        "summary": {
            "trained": {"outer": rounds, "pairs": own},
            "error": float(band.mean),
            "band": [float(band.low), float(band.high)],
            "twice_the_inner": float(grid[2 * own][rounds - 1].mean()),
            "twice_the_outer": float(grid[own][-1].mean()),
        },
    }


def table_of(found: Mapping[str, Any]) -> Table:
    """Return one row for every run, with the difference to the nested run of the same seed."""
    rows: list[tuple[Cell, ...]] = []
    for name, run in sorted(found.items(), key=lambda item: (item[0].rpartition("/")[2], item[0])):
        summary, (kind, _, seed) = run["summary"], name.rpartition("/")
        other = found.get(f"nested{'-random' if kind.endswith('random') else ''}/{seed}")
        gap: str = "–"
        if other is not None and other is not run:
            differences = np.array(run["errors_of_prompts"]) - np.array(other["errors_of_prompts"])
            band = bootstrap(differences)
            gap = f"{band.mean:+.2g} ({band.low:+.2g} to {band.high:+.2g})"
        low, high = summary["band"]
        rows.append(
            (
                name,
                run["parameters"],
                f"{summary['error']:.3g} ({low:.3g} to {high:.3g})",
                gap,
                summary["twice_the_inner"],
                summary["twice_the_outer"],
            )
        )
    columns = ("run", "parameters", "error", "minus nested", "twice the inner", "twice the outer")
    return Table(columns=columns, rows=tuple(rows))


def picture_of(found: Mapping[str, Any], title: str) -> Any:
    """Draw the error over outer and inner iterations for every kind, the geometric mean over seeds."""
    kinds = [kind for kind in KINDS if any(name.startswith(f"{kind}/") for name in found)]
    figure, axes = panels(len(kinds), title)
    grids = {kind: _mean_grid(found, kind) for kind in kinds}
    low = min(grid.min() for grid in grids.values())
    high = max(grid.max() for grid in grids.values())
    shown: Any = None
    for one, (kind, grid) in zip(axes, grids.items(), strict=True):
        some = next(run for name, run in found.items() if name.startswith(f"{kind}/"))
        pairs = list(some["error_by_outer_and_pairs"])
        shown = one.imshow(grid.T, origin="lower", aspect="auto", cmap="viridis", vmin=low, vmax=high)
        one.set_title(kind, fontsize=10)
        one.set_xticks(range(len(grid)), [str(outer + 1) for outer in range(len(grid))])
        one.set_yticks(range(len(pairs)), [str(2 * int(count)) for count in pairs])
        one.set_xlabel("outer iterations (rounds)")
        if one is axes[0]:
            one.set_ylabel("layer calls in a round")
        one.grid(visible=False)
        trained = some["summary"]["trained"]
        one.plot(trained["outer"] - 1, pairs.index(str(trained["pairs"])), "wx", markersize=9)
    figure.colorbar(shown, ax=axes, label="log10 of the squared error")
    return figure


def _mean_grid(found: Mapping[str, Any], kind: str) -> np.ndarray:
    grids = [
        [[math.log10(value) for value in errors] for errors in run["error_by_outer_and_pairs"].values()]
        for name, run in found.items()
        if name.startswith(f"{kind}/")
    ]
    return np.array(grids).mean(axis=0).T


def main() -> None:
    """Train, measure, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = add_options(parser, tuple(SIZES))
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    size, file = SIZES[chosen.size], Path(chosen.out) / f"chain-{chosen.size}.json"
    found = make(list(study_runs(size, chosen.seeds, chosen.steps)), measure, chosen, file)["runs"]
    if found and not chosen.list:
        print(table_of(found))
        if not chosen.steps:
            title = f"Chain of solves, d = {size.dim}: error over outer and inner iterations"
            save(picture_of(found, title), file.with_suffix(""))
            file.with_suffix(".md").write_text(markdown_table(table_of(found)) + "\n")


if __name__ == "__main__":
    main()
