"""Make a benchmark of loop programs: train random programs of equal FLOPs and keep their curves.

    python -m scripts.search_table table results/search/benchmark.json
    python -m scripts.search_table finals results/search/benchmark.json results/search/finals.json
    python -m scripts.search_table --task chain table results/search/chain.json

`table` draws programs from a space with a seed, the hand-made 1+1+1 first, trains each with the same steps
and batches, and stores its validation error at every ninth of the run. `finals` trains the best five programs
of the table and 1+1+1 for longer on fresh seeds, and measures them on evaluation prompts. Both write after
every run, and go on where they were stopped.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from algoformer import programs, tasks
from algoformer.common.devices import device_name, source_commit
from algoformer.common.files import read_json, write_json
from algoformer.search import Candidate, Impossible, Point, SearchSettings, SearchSpace
from algoformer.training import Experiment, Run, TrainConfig, train

FINAL_SEEDS = (1, 2)
"""Seeds of the finals; the table has seed 0."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What a table is made of.

    Attributes:
        task: what all programs learn.
        programs: programs in the table.
        steps: training steps of each program of the table.
        final_steps: training steps of the finals.
        hand_made: settings of the hand-made program, whose FLOPs are the budget.
        training: further settings of the training.
        space: the programs to draw from.
    """

    task: Any
    programs: int
    steps: int
    final_steps: int
    hand_made: dict[str, Any]
    training: dict[str, Any]
    space: SearchSpace = field(default_factory=lambda: space((5e-3, 5e-2)))

    def settings(self, steps: int | None = None, seed: int = 0) -> SearchSettings:
        """Return the search that the table stands for: the budget is that of 1+1+1 with width 24."""
        usual: dict[str, Any] = {
            "optimizer": "muon",
            "schedule": "cosine",
            "warmup": 0.05,
            "clip_norm": 1.0,
            "seed": seed,
        }
        training = TrainConfig(**usual | self.training, steps=steps or self.steps)
        program = programs.algoformer(heads=4, **self.hand_made)
        experiment = Experiment(program, self.task, width=24, training=training)
        return SearchSettings(experiment=experiment, space=self.space)


def space(lr: tuple[float, float]) -> SearchSpace:
    """Return the space of the tables, with these learning rates."""
    return SearchSpace(
        kind=("algoformer", "two_loops", "nested", "parallel"),
        pre=(0, 1, 2),
        loop=(1, 2),
        post=(0, 1, 2),
        heads=(1, 2, 4, 8),
        width=(16, 24, 32),
        inject=("add", "gate", "none"),
        inner_steps=(2, 4),
        lr=lr,
    )


BENCHMARKS = {
    "regression": Benchmark(
        task=tasks.RegressionWithRepresentation(dim=2, points=8),
        programs=150,
        steps=180,
        final_steps=900,
        hand_made={"steps": 6},
        training={"batch_size": 32, "lr": 2e-2, "window": 2},
    ),
    # the number of rounds is part of the question, so that the answer of the last iteration alone counts
    "chain": Benchmark(
        task=tasks.ChainOfSolves(size=3, rounds=3),
        programs=77,
        steps=900,
        final_steps=2700,
        hand_made={"steps": 12, "causal": False},
        training={"batch_size": 64, "lr": 1e-2, "window": 1, "backprop": "full"},
        space=space((3e-3, 3e-2)),
    ),
}
"""The tables, by the task that their programs learn."""


def candidates(search: SearchSettings, seed: int = 0) -> Iterator[Candidate]:
    """Yield the hand-made program, then random ones; points that fit no budget are left out."""
    chosen = search.chosen_space
    first = chosen.hand_made(search.experiment)
    assert first is not None
    yield search.candidate(first)
    draw = random.Random(seed)
    while True:
        low, high = chosen.lr
        params: dict[str, Any] = {
            name: draw.choice(getattr(chosen, name)) for name in chosen.names if name != "lr"
        }
        params["lr"] = float(f"{low * (high / low) ** draw.random():.4g}")
        try:
            yield search.candidate(chosen.point(params))
        except Impossible:
            continue


def make_table(benchmark: Benchmark, path: Path) -> None:
    """Train the programs that the table in `path` does not hold yet."""
    search = benchmark.settings()
    about = _about(search)
    table = _opened(path, {**about, "programs": []})
    rows: list[dict[str, Any]] = table["programs"]
    if 0 < len(rows) < benchmark.programs:
        again = {"from_program": len(rows), "commit": about["commit"], "time": about["time"]}
        table.setdefault("continued", []).append(again)
    for number, candidate in zip(range(benchmark.programs), candidates(search), strict=False):
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


def make_finals(benchmark: Benchmark, table_path: Path, path: Path) -> None:
    """Train the best five programs of the table and 1+1+1 for longer, on fresh seeds."""
    rows = [row for row in read_json(table_path)["programs"] if row["curve"]]
    ranked = sorted(range(len(rows)), key=lambda number: rows[number]["curve"][str(benchmark.steps)])
    chosen = [0, *[number for number in ranked if number][:5]]
    finals = _opened(path, {**_about(benchmark.settings(benchmark.final_steps)), "runs": []})
    done = {(run["program"], run["seed"]) for run in finals["runs"]}
    for seed in FINAL_SEEDS:
        for number in chosen:
            if (number, seed) in done:
                continue
            search = benchmark.settings(benchmark.final_steps, seed)
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


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("table", "finals"))
    parser.add_argument("table", type=Path, help="File of the table.")
    parser.add_argument("finals", type=Path, nargs="?", help="File of the finals.")
    parser.add_argument("--task", choices=BENCHMARKS, default="regression")
    chosen = parser.parse_args()
    benchmark = BENCHMARKS[chosen.task]
    if (chosen.command == "finals") != (chosen.finals is not None):
        parser.error("'table' needs one file, 'finals' needs two: that of the table and its own")
    if chosen.command == "table":
        make_table(benchmark, chosen.table)
    else:
        make_finals(benchmark, chosen.table, chosen.finals)


if __name__ == "__main__":
    main()
