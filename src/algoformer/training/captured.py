"""Steps as CUDA graphs: what the host would launch one by one is recorded once and replayed."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from algoformer.training.step import Step

WARM_UP = 2
"""Steps taken and undone before a capture: libraries and compilers do their first-time work in them."""


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
