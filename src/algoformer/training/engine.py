"""Ways to take a training step: as it stands, or on CUDA as one captured graph around quick pieces."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import torch

from algoformer.trace import Unroll
from algoformer.training.captured import CapturedStep
from algoformer.training.compiled import compiled_body, compiled_pieces
from algoformer.training.config import Experiment, Precision
from algoformer.training.fused import FusedBody, why_not_experiment
from algoformer.training.schedule import precisions
from algoformer.training.step import TrainingStep

EngineName = Literal["auto", "eager", "graph", "compiled", "fused"]

WORTH_COMPILING = 2000
"""Compiling takes half a minute: worth it for runs of more steps than this."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which engine takes the steps, and why that one."""

    engine: Literal["eager", "graph", "compiled", "fused"]
    reason: str

    def __str__(self) -> str:
        return f"engine {self.engine}: {self.reason}"


def plan_for(experiment: Experiment, wanted: EngineName, *, device: torch.device, alone: bool = True) -> Plan:
    """The engine for an experiment's run; see `plan_engine`."""
    against = why_not_experiment(experiment) if device.type == "cuda" or wanted == "fused" else None
    return plan_engine(wanted, device=device, steps=experiment.training.steps, alone=alone, against=against)


def plans_for(
    experiment: Experiment, wanted: EngineName, *, device: torch.device, alone: bool = True
) -> dict[Precision, Plan]:
    """The engine for each precision of an experiment's run, in their order.

    The hand-written kernels are for bf16: a run that asks for them and ends in fp32 ends with what fits.
    """
    training = experiment.training
    plans: dict[Precision, Plan] = {}
    for precision, steps in precisions(training).items():
        stretch = replace(experiment, training=replace(training, precision=precision, steps=steps))
        fitting: EngineName = "auto" if plans and wanted == "fused" else wanted
        plans[precision] = plan_for(stretch, fitting, device=device, alone=alone)
    return plans


def in_words(plans: Mapping[Precision, Plan]) -> str:
    """The engines of a run, and of what follows the first which precision it has.

    >>> plan = Plan(engine="eager", reason="asked for")
    >>> in_words({"bf16": plan, "fp32": plan})
    'engine eager: asked for; then in fp32 engine eager: asked for'
    """
    first, *others = plans
    return "; ".join([str(plans[first]), *(f"then in {each} {plans[each]}" for each in others)])


def plan_engine(
    wanted: EngineName,
    *,
    device: torch.device,
    steps: int,
    alone: bool = True,
    against: str | None = "the model is not known",
) -> Plan:
    """The engine for a run of so many steps, on one process alone or on several.

    `against` is what the hand-written kernels of engine "fused" do not cover; None if they cover the model.

    >>> print(plan_engine("auto", device=torch.device("cpu"), steps=500_000))
    engine eager: on a CPU it starts at once; compiling pays for long runs

    Raises:
        ValueError: there is no such engine, or the device cannot do what was asked for.
    """
    if wanted not in get_args(EngineName):
        raise ValueError(f"engine must be one of {', '.join(get_args(EngineName))}, got {wanted!r}")
    on_cuda = device.type == "cuda"
    if wanted in ("graph", "fused") and not on_cuda:
        raise ValueError(f"engine {wanted!r} needs a CUDA device, got {device}; choose 'eager' or 'auto'")
    if wanted == "fused" and against is not None:
        raise ValueError(f"engine 'fused' does not fit: {against}; choose 'compiled' or 'auto'")
    if wanted in ("graph", "fused") and not alone:
        raise ValueError(
            f"engine {wanted!r} captures the step of one process; with several, their exchange of gradients "
            "would have to be captured with it, which is not done yet: choose 'compiled', 'eager' or 'auto'"
        )
    if wanted != "auto":
        return Plan(engine=wanted, reason="asked for")
    if not on_cuda:
        return Plan(engine="eager", reason="on a CPU it starts at once; compiling pays for long runs")
    if not alone:
        return _plan_without_capture(steps)
    if steps <= WORTH_COMPILING:
        return Plan(engine="graph", reason=f"compiling does not pay for {steps} steps")
    if importlib.util.find_spec("triton") is None:
        return Plan(engine="graph", reason="Triton is not installed, so nothing can be compiled for CUDA")
    if against is None:
        return Plan(engine="fused", reason="hand-written kernels cover this model, and nothing is faster")
    return Plan(engine="compiled", reason=f"no hand-written kernels, because {against}")


def _plan_without_capture(steps: int) -> Plan:
    why = "several processes exchange gradients, so nothing is captured"
    if steps <= WORTH_COMPILING:
        return Plan(engine="eager", reason=f"{why}, and compiling does not pay for {steps} steps")
    if importlib.util.find_spec("triton") is None:
        return Plan(engine="eager", reason=f"{why}, and Triton is not installed, so nothing is compiled")
    return Plan(engine="compiled", reason=f"{why}, and {steps} steps make up for compiling")


@contextmanager
def open_engine(step: TrainingStep, plan: Plan) -> Iterator[Callable[[Unroll], None]]:
    """Inside, a function that takes one step as planned, with the same result as `step.run`."""
    if plan.engine == "fused":
        step.body = FusedBody(step.model)
    with _compiled(step) if plan.engine == "compiled" else nullcontext():
        if plan.engine == "eager" or step.device.type != "cuda" or not step.spread.alone:
            yield step.run
            return
        captured = CapturedStep(step)
        yield lambda unroll: captured.run(unroll, partial(step.run, unroll))


def _compiled(step: TrainingStep) -> AbstractContextManager[None]:
    # other bodies and several processes have their own way into the model
    whole = step.device.type == "cpu" and step.spread.alone and step.body is None
    return compiled_body(step.model) if whole else compiled_pieces(step.model)
