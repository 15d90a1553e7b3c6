"""Ways to take a training step: eagerly, compiled, or on CUDA as one captured graph around quick pieces."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from algoformer.common.meta import on_meta
from algoformer.common.plain_data import read_value
from algoformer.model.algoformer import AlgoFormer
from algoformer.training.compiled import compiled_body, compiled_pieces
from algoformer.training.config import EngineName as EngineName
from algoformer.training.config import Experiment, build_model
from algoformer.training.fused import FusedBody, why_not_fused
from algoformer.training.step import Step

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


def plan_for(
    experiment: Experiment, wanted: EngineName, *, device: torch.device, single: bool = True
) -> Plan:
    """Return the engine for an experiment's run; see `plan_engine`."""
    against = why_not_experiment(experiment) if device.type == "cuda" or wanted == "fused" else None
    if wanted == "auto" and device.type == "cuda" and single and not experiment.data.fixed_shapes:
        return Plan(engine="graph", reason="a graph for each shape of batch")
    return plan_engine(wanted, device=device, steps=experiment.training.steps, single=single, against=against)


def why_not_experiment(experiment: Experiment) -> str | None:
    """Return what about an experiment the hand-written kernels do not cover; None if they cover all of it."""
    if experiment.training.precision != "bf16":
        return f"they are for precision bf16, not {experiment.training.precision}"
    if experiment.training.gradient_checkpointing:
        return "they keep what gradient checkpointing would drop"
    training = experiment.training
    if training.segments > 1 or training.inner_depth or (training.depth and training.depth.per == "sequence"):
        return "they run every sequence from its start, and all loops but the last as the program says"
    with on_meta():
        model = build_model(experiment)
    if not isinstance(model, AlgoFormer):
        return f"they are for models of prompts, not {experiment.data.name}"
    return why_not_fused(model)


def plan_engine(
    wanted: EngineName,
    *,
    device: torch.device,
    steps: int,
    single: bool = True,
    against: str | None = "the model is not known",
) -> Plan:
    """Return the engine for a run of this many steps, on a single process or on several.

    `against` is what the hand-written kernels of engine "fused" do not cover; None if they cover the model.

    >>> print(plan_engine("auto", device=torch.device("cpu"), steps=500_000))
    engine eager: on a CPU it starts at once; compiling pays for long runs

    Raises:
        ValueError: there is no such engine, or the device cannot do what was asked for.
    """
    on_cuda = device.type == "cuda"
    if wanted in ("graph", "fused") and not on_cuda:
        raise ValueError(f"engine {wanted!r} needs a CUDA device, got {device}; choose 'eager' or 'auto'")
    if wanted == "fused" and against is not None:
        raise ValueError(f"engine 'fused' does not fit: {against}; choose 'compiled' or 'auto'")
    if wanted in ("graph", "fused") and not single:
        raise ValueError(
            f"engine {wanted!r} captures the step of one process; with several, their exchange of gradients "
            "would have to be captured with it, which is not done yet: choose 'compiled', 'eager' or 'auto'"
        )
    if wanted != "auto":
        return Plan(engine=read_value("engine", EngineName, wanted), reason="asked for")
    if not on_cuda:
        return Plan(engine="eager", reason="on a CPU it starts at once; compiling pays for long runs")
    why_not = None
    if steps <= WORTH_COMPILING:
        why_not = f"compiling does not pay for {steps} steps"
    elif importlib.util.find_spec("triton") is None:
        why_not = "Triton is not installed, so nothing can be compiled for CUDA"
    if not single:
        why = "several processes exchange gradients, so nothing is captured"
        if why_not is not None:
            return Plan(engine="eager", reason=f"{why}, and {why_not}")
        return Plan(engine="compiled", reason=f"{why}, and {steps} steps make up for compiling")
    if why_not is not None:
        return Plan(engine="graph", reason=why_not)
    if against is None:
        return Plan(engine="fused", reason="hand-written kernels cover this model, and nothing is faster")
    return Plan(engine="compiled", reason=f"no hand-written kernels, because {against}")


@contextmanager
def open_engine(step: Step, plan: Plan) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the step of a number as planned, with the same result as `step.run`."""
    if plan.engine == "fused":
        assert isinstance(step.model, AlgoFormer)
        step.solver = FusedBody(step.model).answer
    with _compiled(step) if plan.engine == "compiled" else nullcontext():
        if plan.engine == "eager" or step.device.type != "cuda" or not step.group.is_single:
            yield step.run
        else:
            yield CapturedStep(step).run


def _compiled(step: Step) -> AbstractContextManager[None]:
    # other bodies and several processes have their own way into the model
    model: Any = step.model
    plain = step.solver is step.model and step.rounded is None
    whole = step.device.type == "cpu" and step.group.is_single and plain and isinstance(model, AlgoFormer)
    return compiled_body(model) if whole else compiled_pieces(model)


class CapturedStep:
    """One CUDA graph for each kind of step, captured when first needed; all share their memory.

    Whatever a step reads or changes lives in tensors that stay in place: weights, optimizer state,
    learning rate, curricula or batches, sums. Restore a run before its first step, never between two.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = step.recording

    def run(self, number: int) -> None:
        """Take the step of this number; steps of the same kind launch the same work."""
        step = self.step
        kind = step.prepare(number)
        if kind not in self.graphs:
            with step.draws(number), torch.cuda.device(step.device):
                self.graphs[kind] = self._capture()
            step.prepare(number)  # trying the step out has drawn from the generator
        with step.draws(number):
            self.graphs[kind].replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        step = self.step
        before = Snapshot(step)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                step.take()
            step.optimizer.zero_grad()
        torch.cuda.current_stream().wait_stream(self.stream)
        before.restore()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        if step.batches.generator is not None:
            graph.register_generator_state(step.batches.generator)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            step.take()
        # the gradients live in the graphs' memory; the next capture may use their place
        step.optimizer.zero_grad()
        return graph


class Snapshot:
    """Everything a step changes, to be put back in place."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.values: dict[int, Tensor] = {id(tensor): tensor.detach().clone() for tensor in step.changing()}

    @torch.no_grad()
    def restore(self) -> None:
        """Undo all steps since; optimizer state that did not exist then becomes zero, as it starts."""
        for tensor in self.step.changing():
            if id(tensor) in self.values:
                tensor.copy_(self.values[id(tensor)])
            else:
                tensor.zero_()
