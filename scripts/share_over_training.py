"""Train small models and identify them along training: which algorithm do they come to resemble?

In-context linear regression with d = 3 on a CPU, without label noise and with it, two seeds each: an
AlgoFormer, identified at several steps of its training, and a transformer without a loop, by layer.

    python -m scripts.share_over_training --out results/insight/training

Each run has its own file; runs whose file exists are kept. The picture is drawn from all of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from algoformer import AlgoFormer, Experiment, TrainConfig, algorithms, programs
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.config import Ramp
from algoformer.evaluation import evaluate, evaluation_prompts
from algoformer.insight import Identification, identify, layers_as_passes
from algoformer.report import save
from algoformer.report.canvas import finish, panels
from algoformer.report.style import INK, method_color
from algoformer.tasks import LinearRegression, Task
from algoformer.trace import Solver
from algoformer.training import Callback, load_checkpoint, train

STEPS, PASSES, LAYERS, NOISE, SEEDS = 8000, 10, 6, (0.0, 0.5), (0, 1)
KEPT = (500, 1000, 2000, 3000, 4000, 6000, 8000)
NEWTON = ("Newton from αI", "Newton from αI, α = c/λmax", "Newton from αS", "Newton from αS, α = c/λmax²")

RECIPE = TrainConfig(
    steps=STEPS,
    batch_size=32,
    optimizer="muon",
    lr=3e-3,
    schedule="cosine",
    warmup=0.02,
    clip_norm=1.0,
    window=4,
    backprop="full",
    burn_in=(0, 0, 10),
    loss="log",
    dims=Ramp(start=1, increment=1, interval=0.08),
    log_every=100,
    checkpoint_every=500,
)
"""The recipe of `algoformer demo`, longer and with a curriculum over coordinates."""


class KeepModels(Callback):
    """Keeps the model of every checkpoint that a run writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models: dict[int, AlgoFormer] = {}

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Read the last checkpoint, unless it is kept already."""
        for path in self.folder.glob("*.safetensors"):
            found = load_checkpoint(path)
            self.models.setdefault(int(found.card["step"]), found.model.eval())


def trained(program: str, noise: float, seed: int) -> tuple[LinearRegression, dict[int, AlgoFormer]]:
    """Train a program; return its task and its models by step."""
    task = LinearRegression(dim=3, points=13, noise=noise)
    config, shape = replace(RECIPE, seed=seed), programs.algoformer(steps=PASSES, heads=4)
    if program == "standard":
        config, shape = replace(config, burn_in=(), window=1), programs.standard(layers=LAYERS, heads=4)
    wanted = Experiment(program=shape, data=task, width=32, training=config)
    with tempfile.TemporaryDirectory() as name:
        keeper = KeepModels(Path(name))
        run = train(wanted, Path(name), callbacks=(keeper,), progress=False, tensorboard=False)
    return task, keeper.models | {run.step: run.model.eval()}


def row_of(step: int, found: Identification) -> dict[str, Any]:
    """Return the numbers of one identification that are drawn."""
    newton = max((one for one in found.families if one.name in NEWTON), key=lambda one: one.share)
    descent = max(one.share for one in found.families if one.name.startswith("gradient descent"))
    nearest = found.nearest
    return {
        **{"step": step, "status": found.status, "nearest": str(nearest), "share": nearest.share},
        **{"low": nearest.low, "high": nearest.high, "ceiling": found.ceiling, "passes": list(found.passes)},
        **{"newton": newton.share, "newton_band": [newton.low, newton.high], "gradient_descent": descent},
        **{"left": list(found.error), "pace": list(found.pace), "rests_on": found.rests_on},
        "weighted_by_position": found.refit
        and {"nearest": str(found.refit.families[0]), "share": found.refit.families[0].share}
        | {"ceiling": found.refit.ceiling, "importance": list(found.refit.importance)},
        "failed_symmetries": [gate.name for gate in found.failed_gates],
        "cannot_be_told_apart": list(found.cannot_be_told_apart),
    }


def errors(solver: Solver, task: Task, steps: int) -> list[float]:
    """Return the error on the last question of 512 held-out prompts after each pass."""
    prompt = evaluation_prompts(task, count=512, seed=1)
    found = evaluate(solver, prompt, steps=steps, label="", window=steps)
    return list(found.by_step.error)


def run_of(program: str, noise: float, seed: int) -> dict[str, Any]:
    """Train one model and identify it: a loop along its training, a stack of layers at the end."""
    start = time.process_time()
    task, models = trained(program, noise, seed)
    seconds, last = time.process_time() - start, models[max(models)]
    if program == "standard":
        solver = layers_as_passes(last, task)
        found = identify(solver, task, steps=solver.layers)
        rows, measured = [row_of(STEPS, found)], errors(solver, task, solver.layers)
    else:
        rows = [row_of(step, identify(models[step], task, steps=PASSES)) for step in KEPT]
        measured = errors(last, task, PASSES)
    return {
        **{"program": program, "noise": noise, "seed": seed, "training": rows, "error": measured},
        "gradient_descent_error": errors(algorithms.GradientDescent(), task, PASSES),
        "training_cpu_seconds": round(seconds, 1),
    }


def shares_over_training(runs: Sequence[Mapping[str, Any]]) -> Any:
    """Draw how much families explain of what is left after each step of training, a panel for each task.

    A run has `panel`, the words for its task, `seed` and `training`: rows with a `step`, the shares of
    `newton` and `gradient_descent`, and the `ceiling` of any filter. Steps at which the model has not learned
    yet are left out: everything explains zero weights.
    """
    tasks = list(dict.fromkeys(run["panel"] for run in runs))
    figure, axes = panels(len(tasks), "What training moves towards: share of what is left that is explained")
    lines = {"ceiling": "any filter", "newton": "Newton's iteration", "gradient_descent": "gradient descent"}
    for one, task in zip(axes, tasks, strict=True):
        for run in (run for run in runs if run["panel"] == task):
            rows = [row for row in run["training"] if row["status"] != "does not learn"]
            steps = [row["step"] for row in rows]
            for key, name in lines.items():
                values = [max(row[key], 0.0) for row in rows]
                color = INK if key == "ceiling" else method_color(name)
                dashes = (0, (2, 2)) if run["seed"] else "-"
                label = f"{name}, seed {run['seed']}"
                form: dict[str, Any] = {"linestyle": dashes, "marker": "o", "markersize": 3}
                if len(rows) == 1:  # only the end of this run is known
                    form = {"linestyle": "none", "marker": "D", "markersize": 6, "markerfacecolor": "none"}
                one.plot(steps, values, color=color, label=label, **form)
        one.set_ylim(-0.03, 1.03)
        one.set_title(task, color=INK, fontsize=10)
        one.set_xlabel("training steps", color=INK)
        one.set_ylabel("share explained" if task == tasks[0] else "", color=INK)
    return finish(figure, axes[0])


def main() -> None:
    """Train, identify and write every run that has no file yet; draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="Runs whose names contain this.")
    chosen = parser.parse_args()
    setting = {
        "command": f"python -m scripts.share_over_training --out {chosen.out}",
        **{"commit": source_commit(), "device": "cpu", "torch": torch.__version__},
        **{"task": "LinearRegression(dim=3, points=13)", "width": 32, "steps": STEPS},
    }
    for program in ("algoformer", "standard"):
        for noise, seed in ((noise, seed) for noise in NOISE for seed in SEEDS):
            path = chosen.out / f"{program}-noise{noise:g}-seed{seed}.json"
            if chosen.only in path.name and not path.exists():
                print(path, flush=True)
                write_json(path, run_of(program, noise, seed) | {"setting": setting})
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(chosen.out.glob("*.json"))]
    loops = [
        run | {"panel": f"label noise {run['noise']:g}" if run["noise"] else "no label noise"}
        for run in runs
        if run["program"] == "algoformer"
    ]
    save(shares_over_training(sorted(loops, key=lambda run: run["noise"])), chosen.out / "share")


if __name__ == "__main__":
    main()
