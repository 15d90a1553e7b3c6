"""Train small loops and identify them along training: which algorithm do they come to resemble?

In-context linear regression with d = 3 on a CPU, without label noise and with it, two seeds each. Every kept
checkpoint is identified; the trained loops are certified; a transformer without a loop is identified layer
by layer.

    python scripts/share_over_training.py --out results/insight/training
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.data import PromptData
from algoformer.insight import Identification, certify, identify, layers_as_passes
from algoformer.model import AlgoFormer
from algoformer.tasks import LinearRegression
from algoformer.training import Callback, load_checkpoint, train
from algoformer.training.presets import experiment

STEPS, EVERY, NOISE, SEEDS, PROMPTS = 1000, 250, (0.0, 0.5), (0, 1), 40
NEWTON = ("Newton from αI", "Newton from αI, α = c/λmax", "Newton from αS", "Newton from αS, α = c/λmax²")


class KeepModels(Callback):
    """Keeps the model of every checkpoint that a run writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.models = folder, {}  # type: ignore[var-annotated]

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Read the last checkpoint, unless it is kept already."""
        for path in self.folder.glob("*.safetensors"):
            found = load_checkpoint(path)
            self.models.setdefault(int(found.card["step"]), found.model.eval())


def trained(program: str, noise: float, seed: int) -> tuple[LinearRegression, dict[int, AlgoFormer]]:
    """Train the program and return its task and its models by step."""
    recipe = experiment("linear", program, "smoke", seed=seed)
    task = LinearRegression(dim=3, points=13, noise=noise)
    config = replace(recipe.training, steps=STEPS, optimizer="muon", checkpoint_every=EVERY, log_every=100)
    config = replace(config, samples=None, dims=None, iterations=None, backprop="full")
    wanted = replace(recipe, data=PromptData(task=task), training=config)
    with tempfile.TemporaryDirectory() as name:
        keeper = KeepModels(Path(name))
        run = train(wanted, Path(name), callbacks=(keeper,), progress=False, tensorboard=False)
    return task, keeper.models | {run.step: run.model.eval()}


def row_of(step: int, found: Identification) -> dict[str, Any]:
    """Return the numbers of one identification that are drawn."""
    newton = max(one.share for one in found.families if one.name in NEWTON)
    descent = max(one.share for one in found.families if one.name.startswith("gradient descent"))
    nearest = found.nearest
    return {
        **{"step": step, "status": found.status, "nearest": nearest.name, "share": nearest.share},
        **{"low": nearest.low, "high": nearest.high, "ceiling": found.ceiling, "passes": list(found.passes)},
        **{"newton": newton, "gradient_descent": descent, "left": list(found.error)},
        "failed_symmetries": [gate.name for gate in found.failed_gates],
    }


def looped_run(noise: float, seed: int) -> dict[str, Any]:
    """Train one loop; identify it along training and certify it at the end."""
    task, models = trained("algoformer", noise, seed)
    rows = [row_of(step, identify(models[step], task, steps=6, prompts=PROMPTS)) for step in sorted(models)]
    depth = certify(models[max(models)], task, prompts=64, derivatives=False)
    return {
        **{"program": "algoformer", "noise": noise, "seed": seed, "training": rows},
        "certificate": {"answers": depth.answers, "sentence": depth.sentence, "ratio": depth.ratio},
    }


def layered_run(noise: float, seed: int) -> dict[str, Any]:
    """Train a transformer without a loop and identify it layer by layer."""
    task, models = trained("standard", noise, seed)
    model = models[max(models)]
    solver = layers_as_passes(model, task)
    found = identify(solver, task, steps=solver.layers, prompts=PROMPTS)
    return {"program": "standard", "noise": noise, "seed": seed, "training": [row_of(max(models), found)]}


def main() -> None:
    """Train, identify, write after every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    setting = {
        "command": f"python scripts/share_over_training.py --out {out}",
        "commit": source_commit(),
        "device": "cpu",
        "torch": torch.__version__,
        "task": "LinearRegression(dim=3, points=13)",
        "steps": STEPS,
    }
    jobs = [(looped_run, noise, seed) for seed in SEEDS for noise in NOISE] + [(layered_run, 0.0, 0)]
    runs = []
    for job, noise, seed in jobs:
        runs.append(job(noise, seed))
        print(runs[-1], flush=True)
        write_json(out / "training.json", {"runs": runs, "setting": setting})


if __name__ == "__main__":
    main()
