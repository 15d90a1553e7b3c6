"""A trained model as a solver that runs one iteration at a time, on CUDA as a captured graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.model.algoformer import AlgoFormer
from algoformer.model.driver import ForwardContext, LoopDriver
from algoformer.model.parts import LoopModule
from algoformer.model.program import default_steps
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll
from algoformer.training.compiled import compiled_pieces
from algoformer.training.engine import WARM_UP, EngineName, plan_engine


@contextmanager
def open_solver(model: AlgoFormer, *, engine: EngineName = "auto") -> Iterator[StepwiseSolver]:
    """Open a solver with the model's answers that runs any number of iterations without compiling anew.

    Args:
        model: the model; it stays on its device, and its weights are not copied.
        engine: "eager" anywhere, "graph" or "compiled" on CUDA; "auto" is "graph" there, because compiling
            takes longer than most measurements.

    >>> from algoformer import evaluation, programs, tasks
    >>> task = tasks.LinearRegression(dim=3, points=6)
    >>> model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=16)
    >>> with open_solver(model) as solver:
    ...     evaluation.evaluate(solver, evaluation.evaluation_prompts(task, count=8), steps=50).steps
    50
    """
    device = model.read_out.weight.device
    plan = plan_engine(engine, device=device, steps=1)
    with compiled_pieces(model) if plan.engine == "compiled" else nullcontext():
        yield StepwiseSolver(model, captured=plan.engine != "eager" and device.type == "cuda")


class StepwiseSolver(nn.Module):
    """Reads a model's answers after each iteration as it is run: memory does not grow with the window.

    Forward passes with hidden states, edits or gradients, and programs whose traced part is not a loop, are
    left to the model itself.
    """

    holds_window = False
    """States of a window are not held together, so that evaluation may run more prompts at once."""

    def __init__(self, model: AlgoFormer, *, captured: bool = False) -> None:
        super().__init__()
        self.model = model
        self.captured = captured
        self.graphs: dict[Hashable, _Iterations] = {}

    def forward(self, prompt: Prompt, unroll: Unroll | None = None) -> Trace:
        """As the model's own `forward`."""
        unroll = unroll or Unroll(steps=default_steps(self.model.program), window=1)
        loop = self._loop()
        if unroll.keep or loop is None:
            return self.model(prompt, unroll)
        read = range(unroll.first_step, unroll.steps + 1)
        predictions = self._iterations(loop, prompt).run(prompt, read)
        return Trace(predictions=predictions, first_step=unroll.first_step)

    def at_depths(self, prompt: Prompt, depths: Sequence[int]) -> Float[Tensor, "step batch point out"]:
        """Return the answers after each of a rising list of iterations, all from one run."""
        loop = self._loop()
        if loop is None:
            return torch.cat(
                [self.model(prompt, Unroll(steps=depth, window=1)).predictions for depth in depths]
            )
        return self._iterations(loop, prompt).run(prompt, depths)

    def _loop(self) -> LoopModule | None:
        """Return the loop that can be run one iteration at a time, if there is one."""
        body = self.model.body
        part = None if body.traced is None else body.parts[body.traced]
        if not isinstance(part, LoopModule) or torch.is_grad_enabled() or body.edits:
            return None
        # a graph is the same at every iteration, and a step signal is not
        return part if part.settings.step_signal == "none" else None

    def _iterations(self, loop: LoopModule, prompt: Prompt) -> _Iterations:
        self.model.check(prompt)
        if not self.captured:
            return _Iterations(self.model, loop, prompt)
        # kernels are chosen when a graph is captured: another precision of products needs another one
        precision = torch.backends.cuda.matmul.fp32_precision == "tf32", torch.is_autocast_enabled("cuda")
        key = (prompt.rows.shape[1:], prompt.reads, prompt.rows.dtype, precision)
        if key not in self.graphs or self.graphs[key].batch < prompt.batch:
            self.graphs[key] = _Iterations(self.model, loop, prompt)
            self.graphs[key].capture()
        return self.graphs[key]


class _Iterations:
    """One loop on one batch: its state stays in place, so that an iteration can be a captured graph."""

    def __init__(self, model: AlgoFormer, loop: LoopModule, prompt: Prompt) -> None:
        self.model, self.loop, self.batch = model, loop, prompt.batch
        self.context = ForwardContext(read_rows=model.read_rows(prompt))
        self.entry = self._enter(prompt.rows)
        self.state = loop.initial_state(self.entry).clone()
        self.answer = torch.empty_like(prompt.targets)
        self.advance, self.read = self._advance, self._read

    def capture(self) -> None:
        """Make an iteration one launch, and its read-out another."""
        self.advance, self.read = capture(self._advance), capture(self._read)

    def run(self, prompt: Prompt, depths: Sequence[int]) -> Float[Tensor, "step batch point out"]:
        """Answer prompts of the same shape, at most as many, after each of these iterations."""
        # a last batch may be short: the same graph runs it, on some prompts twice
        places = torch.arange(self.batch, device=prompt.rows.device).clamp(max=prompt.batch - 1)
        self.entry.copy_(self._enter(prompt.rows[places]))
        self.state.copy_(self.loop.initial_state(self.entry))
        driver = LoopDriver(self._step, self.state, self.entry, self.context)
        answers = []
        for _ in driver.run(depths[-1]):
            if driver.iteration in depths:
                self.read()
                answers.append(self.answer[: prompt.batch].clone())
        return torch.stack(answers)

    def _step(self, state: Tensor, entry: Tensor, context: ForwardContext) -> Tensor:
        self.advance()
        return self.state

    def _enter(self, rows: Tensor) -> Tensor:
        return self.model.body.before(self.model.read_in(rows))

    def _advance(self) -> None:
        self.state.copy_(self.loop.step(self.state, self.entry))

    def _read(self) -> None:
        states = self.model.body.after(self.loop.visible(self.state)[None], self.context)
        self.answer.copy_(self.model.read_out(states[0]))


def capture(function: Callable[[], None]) -> Callable[[], None]:
    """Return the launches of a function as one CUDA graph; it is called a few times first, to warm up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay
