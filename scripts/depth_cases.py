"""Train small loops with and without burn-in, certify them, and identify those on chains and series.

AlgoFormers on linear regression, on a chain of thought and on series, and looped transformers on the chain
and on series, are trained on a CPU at one fixed depth or with extra iterations at random before the loss.

    python -m scripts.depth_cases --out results/insight/depth

Each case has its own folder; cases whose certificate exists are kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from algoformer import Experiment, algorithms, programs, tasks
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import certify, identify
from algoformer.report import save
from algoformer.report.insight_plots import certificate_figures
from algoformer.training import train
from scripts.share_over_training import RECIPE, errors

PASSES, PROMPTS = 6, 128
LINEAR = tasks.LinearRegression(dim=1, points=11)
CHAIN = tasks.ChainOfThought(dim=2, points=8, layers=2)
SERIES = tasks.AutoregressiveWithRepresentation(dim=2, points=14, order=1, slope=1.0, noise=0.3, bound=4.0)
WINDOWS = replace(SERIES, points=16, order=2, slope=0.01)
FIXED = replace(RECIPE, steps=1500, window=1, burn_in=(), dims=None, checkpoint_every=1500)
BURN_IN = replace(FIXED, window=3, burn_in=(0, 0, 10, 20))
LONGER = replace(BURN_IN, steps=3000, checkpoint_every=3000)
LOOPED, ALGOFORMER = programs.looped(steps=PASSES, heads=4), programs.algoformer(steps=PASSES, heads=4)

CASES = {
    f"{name}-seed{seed}": Experiment(
        program=program, data=task, width=32, training=replace(config, seed=seed)
    )
    for seed in (0, 1)
    for name, program, task, config in (
        ("looped-chain-fixed-depth", LOOPED, CHAIN, FIXED),
        ("linear-fixed-depth", ALGOFORMER, LINEAR, FIXED),
        ("linear-burn-in", ALGOFORMER, LINEAR, BURN_IN),
        ("looped-chain-burn-in", LOOPED, CHAIN, LONGER),
        ("looped-chain-mean-loss", LOOPED, CHAIN, replace(LONGER, loss="mean")),
        ("algoformer-chain-mean-loss", ALGOFORMER, CHAIN, replace(LONGER, loss="mean")),
        ("algoformer-series", ALGOFORMER, SERIES, LONGER),
        ("looped-series", LOOPED, SERIES, LONGER),
        ("algoformer-windows", ALGOFORMER, WINDOWS, LONGER),
    )
}
"""Loops whose behaviour beyond the trained depth is to be certified."""


def run_case(name: str, experiment: Experiment, out: Path) -> None:
    """Train, certify, write and draw one case; identify each layer of a chain, and a loop on series."""
    folder, task, start = out / name, experiment.task, time.process_time()
    with tempfile.TemporaryDirectory() as run:
        model = train(experiment, Path(run), progress=False, tensorboard=False).model.eval()
    setting = {
        "command": f"python -m scripts.depth_cases --out {out}",
        **{"commit": source_commit(), "device": "cpu", "torch": torch.__version__},
        **{"training_steps": experiment.training.steps, "training_seed": experiment.training.seed},
        "training_cpu_seconds": round(time.process_time() - start, 1),
    }
    for layer in range(CHAIN.layers if task == CHAIN and experiment.training.burn_in else 0):
        verdict = identify(model, task, steps=PASSES, problem=layer)
        print(name, f"layer {layer + 1}", verdict, sep="\n", flush=True)
        data = replace(verdict, setting=verdict.setting | setting).to_data()
        write_json(folder / f"layer{layer + 1}.json", data)
    if task in (SERIES, WINDOWS):
        oracle = algorithms.build_solver("oracle", view=task.problems, noise=task.noise)
        measured = {"error": errors(model, task, PASSES), "oracle_error": errors(oracle, task, 1)[0]}
        verdict = identify(model, task, steps=PASSES)
        verdict = replace(verdict, setting=verdict.setting | setting | measured)
        print(name, verdict, measured, sep="\n", flush=True)
        write_json(folder / "identification.json", verdict.to_data())
    found = certify(model, task, prompts=PROMPTS)
    print(name, found, sep="\n", flush=True)
    for file, figure in certificate_figures(found).items():
        save(figure, folder / file)
    write_json(folder / "certificate.json", replace(found, setting=found.setting | setting).to_data())


def main() -> None:
    """Run every case that has no certificate yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="Cases whose names contain this.")
    chosen = parser.parse_args()
    for name, experiment in CASES.items():
        if chosen.only in name and not (chosen.out / name / "certificate.json").exists():
            run_case(name, experiment, chosen.out)


if __name__ == "__main__":
    main()
