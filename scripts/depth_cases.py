"""Train small loops with and without burn-in and certify them: does a loop trained at a fixed depth hold?

A looped transformer on a chain of thought and an AlgoFormer on linear regression are trained on a CPU at one
fixed depth, the second also with extra iterations at random before the loss.

    python scripts/depth_cases.py --out results/insight/depth

Each case has its own folder; cases whose certificate exists are kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from algoformer import Experiment, programs, tasks
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import certify
from algoformer.report import save
from algoformer.report.insight_plots import certificate_figures
from algoformer.training import train
from scripts.share_over_training import RECIPE

PASSES, STEPS, PROMPTS = 6, 1500, 128
LINEAR = tasks.LinearRegression(dim=1, points=11)
CHAIN = tasks.ChainOfThought(dim=2, points=8, layers=2)
FIXED = replace(RECIPE, steps=STEPS, window=1, burn_in=(), dims=None, checkpoint_every=STEPS)

CASES = {
    f"{name}-seed{seed}": Experiment(
        program=program, data=task, width=32, training=replace(config, seed=seed)
    )
    for seed in (0, 1)
    for name, program, task, config in (
        ("looped-chain-fixed-depth", programs.looped(steps=PASSES, heads=4), CHAIN, FIXED),
        ("linear-fixed-depth", programs.algoformer(steps=PASSES, heads=4), LINEAR, FIXED),
        (
            "linear-burn-in",
            programs.algoformer(steps=PASSES, heads=4),
            LINEAR,
            replace(FIXED, window=3, burn_in=(0, 0, 10, 20)),
        ),
    )
}
"""Loops whose behaviour beyond the trained depth is to be certified."""


def main() -> None:
    """Train, certify, write and draw every case that has no certificate yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="Cases whose names contain this.")
    chosen = parser.parse_args()
    for name, experiment in CASES.items():
        folder = chosen.out / name
        if chosen.only not in name or (folder / "certificate.json").exists():
            continue
        start = time.process_time()
        with tempfile.TemporaryDirectory() as run:
            model = train(experiment, Path(run), progress=False, tensorboard=False).model.eval()
        seconds = round(time.process_time() - start, 1)
        found = certify(model, experiment.task, prompts=PROMPTS)
        setting = {
            "command": f"python scripts/depth_cases.py --out {chosen.out}",
            **{"commit": source_commit(), "device": "cpu", "torch": torch.__version__},
            **{"training_steps": STEPS, "training_seed": experiment.training.seed},
            "training_cpu_seconds": seconds,
        }
        found = replace(found, setting=found.setting | setting)
        print(name, found, sep="\n", flush=True)
        write_json(folder / "certificate.json", found.to_data())
        for file, figure in certificate_figures(found).items():
            save(figure, folder / file)


if __name__ == "__main__":
    main()
