"""Make the benchmark of loop programs: train random programs of equal FLOPs and keep their curves.

    python -m scripts.search_table table results/search/benchmark.json
    python -m scripts.search_table finals results/search/benchmark.json results/search/finals.json

`table` draws programs from `SPACE` with a seed, the hand-made 1+1+1 first, trains each with the same steps
and batches, and stores its validation error at every ninth of the run. `finals` trains the best five programs
of the table and 1+1+1 for longer on fresh seeds, and measures them on evaluation prompts. Both write after
every run, and go on where they were stopped.
"""

from __future__ import annotations

import random
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from algoformer import programs, tasks
from algoformer.common.devices import device_name, source_commit
from algoformer.common.files import read_json, write_json
from algoformer.search import Candidate, Impossible, Point, SearchSettings, SearchSpace
from algoformer.training import Experiment, Run, TrainConfig, train

PROGRAMS = 150
"""Programs in the table."""

STEPS = 180
"""Training steps of each program of the table."""

FINAL_STEPS = 900
"""Training steps of the finals."""

FINAL_SEEDS = (1, 2)
"""Seeds of the finals; the table has seed 0."""

SPACE = SearchSpace(
    kind=("algoformer", "two_loops", "nested", "parallel"),
    pre=(0, 1, 2),
    loop=(1, 2),
    post=(0, 1, 2),
    heads=(1, 2, 4, 8),
    width=(16, 24, 32),
    inject=("add", "gate", "none"),
    inner_steps=(2, 4),
    lr=(5e-3, 5e-2),
)
"""The space of the table."""


def settings(steps: int = STEPS, seed: int = 0) -> SearchSettings:
    """Return the search that the table stands for: the budget is that of 1+1+1, width 24, T = 6."""
    training = TrainConfig(
        steps=steps,
        batch_size=32,
        lr=2e-2,
        optimizer="muon",
        schedule="cosine",
        warmup=0.05,
        clip_norm=1.0,
        window=2,
        seed=seed,
    )
    task = tasks.RegressionWithRepresentation(dim=2, points=8)
    hand_made = programs.algoformer(heads=4, steps=6)
    return SearchSettings(experiment=Experiment(hand_made, task, width=24, training=training), space=SPACE)


def candidates(search: SearchSettings, seed: int = 0) -> Iterator[Candidate]:
    """Yield the hand-made program, then random ones; points that fit no budget are left out."""
    first = SPACE.hand_made(search.experiment)
    assert first is not None
    yield search.candidate(first)
    draw = random.Random(seed)
    while True:
        low, high = SPACE.lr
        params: dict[str, Any] = {
            name: draw.choice(getattr(SPACE, name)) for name in SPACE.names if name != "lr"
        }
        params["lr"] = float(f"{low * (high / low) ** draw.random():.4g}")
        try:
            yield search.candidate(SPACE.point(params))
        except Impossible:
            continue


def make_table(path: Path) -> None:
    """Train the programs that the table in `path` does not hold yet."""
    search = settings()
    table = _opened(path, {**_about(search), "programs": []})
    rows: list[dict[str, Any]] = table["programs"]
    for number, candidate in zip(range(PROGRAMS), candidates(search), strict=False):
        if number < len(rows):
            assert rows[number]["params"] == candidate.point.params, "the table was drawn from another space"
            continue
        began = time.monotonic()
        try:
            curve = _curve(train(candidate.experiment, progress=False))
        except FloatingPointError:
            curve = {}
        rows.append({**_described(candidate), "curve": curve, "seconds": round(time.monotonic() - began, 2)})
        write_json(path, table)
        print(number, candidate.point, f"T={candidate.iterations}", list(curve.values())[-1:], flush=True)


def make_finals(table_path: Path, path: Path) -> None:
    """Train the best five programs of the table and 1+1+1 for longer, on fresh seeds."""
    rows = [row for row in read_json(table_path)["programs"] if row["curve"]]
    ranked = sorted(range(len(rows)), key=lambda number: rows[number]["curve"][str(STEPS)])
    chosen = [0, *[number for number in ranked if number][:5]]
    finals = _opened(path, {**_about(settings(FINAL_STEPS)), "runs": []})
    done = {(run["program"], run["seed"]) for run in finals["runs"]}
    for seed in FINAL_SEEDS:
        for number in chosen:
            if (number, seed) in done:
                continue
            search = settings(FINAL_STEPS, seed)
            candidate = search.candidate(Point(**rows[number]["params"]))
            began = time.monotonic()
            run = train(candidate.experiment, progress=False)
            seconds = round(time.monotonic() - began, 2)
            found = candidate.experiment.data.evaluate(run.model)
            finals["runs"].append(
                {
                    "program": number,
                    "seed": seed,
                    **_described(candidate),
                    "curve": _curve(run),
                    "error": found.error,
                    "band": [found.by_sample.low[-1], found.by_sample.high[-1]],
                    "seconds": seconds,
                }
            )
            write_json(path, finals)
            print(number, seed, candidate.point, found.error, flush=True)


def _curve(run: Run) -> dict[str, float]:
    return {str(int(row["step"])): row["valid_error"] for row in run.metrics}


def _described(candidate: Candidate) -> dict[str, Any]:
    return {
        "params": candidate.point.params,
        "iterations": candidate.iterations,
        "flops": candidate.flops,
        "parameters": candidate.parameters,
    }


def _about(search: SearchSettings) -> dict[str, Any]:
    return {
        "command": shlex.join(["python", "-m", "scripts.search_table", *sys.argv[1:]]),
        "commit": source_commit(),
        "device": device_name(torch.device("cpu")),
        "torch": torch.__version__,
        "time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "settings": search.to_data(),
    }


def _opened(path: Path, fresh: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path) if path.exists() else fresh
    return found


def main(arguments: list[str]) -> int:
    """Run one of the two commands."""
    if len(arguments) == 2 and arguments[0] == "table":
        make_table(Path(arguments[1]))
    elif len(arguments) == 3 and arguments[0] == "finals":
        make_finals(Path(arguments[1]), Path(arguments[2]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
