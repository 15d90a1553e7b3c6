"""Other seeds of the shipped models of in-context regression, identified along their training.

Seed 0 of each recipe is the shipped model, of which only the end is known. The others are trained as it was,
and identified at several steps: do two seeds of one recipe become the same algorithm?

    python -m scripts.studies.seeds --out results/insight/seeds --device cuda
    python -m scripts.studies.seeds --out results/insight/seeds --only 'linear/*' --device cuda
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from algoformer import load
from algoformer.evaluation import evaluate, evaluation_prompts
from algoformer.insight import identify
from algoformer.report import save
from algoformer.training import load_checkpoint
from algoformer.training.presets import experiment
from scripts.share_over_training import row_of, shares_over_training
from scripts.studies.runs import StudyRun, add_options, folder_of, kept_file, make

KEPT = {
    "linear": (2000, 5000, 10_000, 15_000, 20_000, 30_000, 36_000),
    "representation": (1000, 2000, 3000, 4000, 6000),
}
"""The steps before the last one at which a model of each task is identified."""

DEPTHS = (20, 200, 1000)
"""Iterations after which errors are measured."""

PROMPTS = 1280
"""Held-out prompts."""


def seed_runs(seeds: list[int], steps: int | None) -> Iterator[StudyRun]:
    """Yield a run for each shipped model and seed, with the settings of the shipped model's training."""
    for name, kept in KEPT.items():
        recipe = experiment(name, "algoformer", "short")
        shipped = load(name).card["experiment"]["training"]
        for seed in seeds:
            words = {"loss": shipped["loss"], "steps": steps or shipped["steps"], "seed": seed}
            training = replace(recipe.training, **words)
            yield StudyRun(
                name=f"{name}/seed{seed}", experiment=replace(recipe, training=training), keep=kept
            )


def measure(run: StudyRun, model: Any, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return identifications along training and at its end, and the errors of the last model."""
    task, folder = run.experiment.task, folder_of(run, chosen.runs, _file(chosen))
    prompt = evaluation_prompts(task, count=PROMPTS)
    found = evaluate(model, prompt, steps=max(DEPTHS))
    errors = {str(depth): found.by_step.error[list(found.by_step.x).index(depth)] for depth in DEPTHS}
    kept = {step: kept_file(folder, step) for step in run.keep}
    models = {step: load_checkpoint(path).model for step, path in kept.items() if path.exists()}
    models[run.experiment.training.steps] = model.cpu()
    return {
        "training": [row_of(step, identify(one.eval(), task)) for step, one in sorted(models.items())],
        "summary": {"error": errors},
    }


def shipped_rows() -> Iterator[dict[str, Any]]:
    """Yield the shipped models as runs of seed 0 with one row, measured now."""
    for name in KEPT:
        shipped = load(name)
        row = row_of(int(shipped.card["step"]), identify(shipped.model, shipped.task))
        yield {"panel": name, "seed": 0, "training": [row]}


def _file(chosen: argparse.Namespace) -> Path:
    out: Path = chosen.out
    return out / "seeds.json"


def _seed(name: str) -> int:
    return int(name.rpartition("/seed")[2])


def main() -> None:
    """Train, identify, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = add_options(parser, ("full",), seeds=(1,))

    def measured(run: StudyRun, model: nn.Module) -> Mapping[str, Any]:
        return measure(run, model, chosen)

    runs = list(seed_runs(chosen.seeds, chosen.steps))
    found = make(runs, measured, chosen, _file(chosen))["runs"]
    if not (chosen.list or chosen.steps):
        drawn = [
            {"panel": name.partition("/")[0], "seed": _seed(name), "training": run["training"]}
            for name, run in found.items()
        ]
        save(shares_over_training([*shipped_rows(), *drawn]), chosen.out / "seeds")


if __name__ == "__main__":
    main()
