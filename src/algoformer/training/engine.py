"""Ways to take a training step: as it stands, or on CUDA as one captured graph around quick pieces."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from algoformer.trace import Unroll
from algoformer.training.compiled import compiled_pieces
from algoformer.training.config import Experiment
from algoformer.training.fused import FusedBody, why_not_experiment
from algoformer.training.step import TrainingStep

EngineName = Literal["auto", "eager", "graph", "compiled", "fused"]

WORTH_COMPILING = 2000
"""Compiling takes half a minute: worth it for runs of more steps than this."""

WARM_UP = 2
"""Steps taken and undone before a capture: libraries and compilers do their first-time work in them."""


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
    engine eager: on a CPU neither capturing nor compiling pays

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
        return Plan(engine="eager", reason="on a CPU neither capturing nor compiling pays")
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
    with compiled_pieces(step.model) if plan.engine == "compiled" else nullcontext():
        captured = plan.engine != "eager" and step.device.type == "cuda" and step.spread.alone
        yield CapturedStep(step).run if captured else step.run


class CapturedStep:
    """One CUDA graph for each way to unroll, captured when first needed; all share their memory.

    Whatever a step reads or changes lives in tensors that stay in place: weights, optimizer state,
    learning rate, curricula, sums. Restore a run before its first step, never between two.
    """

    def __init__(self, step: TrainingStep) -> None:
        self.step = step
        self.graphs: dict[tuple[int, int, int | None, bool], torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()
        # warm-up and capture on one stream: autograd ties a weight's gradient to the stream it saw first
        self.stream = torch.cuda.Stream(step.device)

    def run(self, unroll: Unroll) -> None:
        """Take one step."""
        key = (unroll.steps, unroll.length, unroll.grad_steps, unroll.recompute)
        if key not in self.graphs:
            with torch.cuda.device(self.step.device):
                self.graphs[key] = self._capture(unroll)
        self.graphs[key].replay()

    def _capture(self, unroll: Unroll) -> torch.cuda.CUDAGraph:
        step = self.step
        before = Snapshot(step)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                step.run(unroll)
            step.optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        before.restore()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(step.generator)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            step.run(unroll)
        # the gradients live in the graphs' memory; the next capture may use their place
        step.optimizer.zero_grad(set_to_none=True)
        return graph


class Snapshot:
    """Everything a step changes, to be put back in place."""

    def __init__(self, step: TrainingStep) -> None:
        self.step = step
        self.generator = step.generator.get_state()
        self.values: dict[int, Tensor] = {id(tensor): tensor.detach().clone() for tensor in step.changing()}

    @torch.no_grad()
    def restore(self) -> None:
        """Undo all steps since; optimizer state that did not exist then becomes zero, as it starts."""
        for tensor in self.step.changing():
            if id(tensor) in self.values:
                tensor.copy_(self.values[id(tensor)])
            else:
                tensor.zero_()
        self.step.generator.set_state(self.generator)
