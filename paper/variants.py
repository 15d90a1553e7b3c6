"""The same run with one thing changed: its learning rate, its loss, its recipe or its seed."""

from __future__ import annotations

from dataclasses import replace

from algoformer.training.presets import SHORT_RATE, refined, waiting
from paper.runs import LOG, RECOMMENDED, SLOW, TF32, RunSpec, names_of_seeds

RECOMMENDED_STEPS = 10_000
"""Of linear regression by the recipe that we recommended before TF32."""


def slower(run: RunSpec) -> RunSpec:
    """The same run at a third of the rate that is common to all at the scale `short`."""
    rate = SHORT_RATE / 3
    changed = run.trained_with(lr=rate)
    return replace(changed, name=run.name + SLOW, label=f"{run.label}, rate {rate:g}")


def by_logarithms(run: RunSpec) -> RunSpec:
    """The same run on the mean of the errors' logarithms instead of the mean of the errors."""
    return replace(run.trained_with(loss="log"), name=run.name + LOG, label=f"{run.label}, log loss")


def as_recommended(run: RunSpec) -> RunSpec:
    """Linear regression by logarithms after curricula that wait, in half of the steps that others have.

    The results in this repository are of an earlier version, which took the last quarter of these steps in
    fp32; their provenance says so. There is no such setting any more: a new run is in bf16 to its end.
    """
    changed = by_logarithms(run.with_steps(RECOMMENDED_STEPS)).changed_by(waiting)
    return replace(changed, name=run.name + RECOMMENDED, label=f"{run.label}, last quarter in fp32")


def in_tf32(run: RunSpec) -> RunSpec:
    """The same run by the recipe that we recommend for linear regression: by logarithms, in TF32, longer."""
    changed = run.with_steps(RECOMMENDED_STEPS).changed_by(refined)  # curricula wait as in that one
    return replace(changed, name=run.name + TF32, label=f"{run.label}, log loss in TF32")


def with_seed(run: RunSpec, seed: int) -> RunSpec:
    """The same run with another seed of weights and prompts."""
    return replace(run.trained_with(seed=seed), name=names_of_seeds(run.name)[seed])
