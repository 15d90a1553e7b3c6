"""Things that take training steps and can be timed: the library's step on an engine, and the plain one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from algoformer.common.devices import matmul_precision
from algoformer.config import learning_rate
from algoformer.training import Experiment, build_model
from algoformer.training.config import unroll_at
from algoformer.training.engine import Plan, open_engine
from algoformer.training.step import Step
from benchmarks.cases import first_step
from benchmarks.plain import PlainData, PlainModel, loss_of

Engine = Literal["eager", "graph", "compiled", "fused"]


@runtime_checkable
class Contestant(Protocol):
    """Something that takes steps; `began` is when its making began."""

    began: float

    def take(self, count: int) -> None:
        """Take steps without waiting for the device."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Ours:
    """The library's training step on one of its engines."""

    def __init__(self, timed: Experiment, engine: Engine, device: torch.device) -> None:
        self.began = time.perf_counter()
        self.timed, self.step = timed, first_step(timed)
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(matmul_precision(timed.training.precision))
        self.training = Step(timed, build_model(timed).to(device))
        plan = Plan(engine=engine, reason="to be timed")
        self.run = self.stack.enter_context(open_engine(self.training, plan))

    def take(self, count: int) -> None:
        """Take steps without waiting for the device."""
        for _ in range(count):
            self.run(self.step)
            self.step += 1

    def losses(self, count: int) -> list[float]:
        """The loss of each of the next steps."""
        found = []
        for _ in range(count):
            self.training.sums.zero_()
            self.take(1)
            found.append(self.training.read_sums()[0])
        return found

    def close(self) -> None:
        """Give everything back."""
        self.stack.close()


class Plain:
    """The step by hand, as it stands or with its model through torch.compile."""

    def __init__(self, timed: Experiment, device: torch.device, *, compiled: bool = False) -> None:
        self.began = time.perf_counter()
        self.timed, self.step = timed, first_step(timed)
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(matmul_precision("tf32" if device.type == "cuda" else "fp32"))
        self.data = PlainData(timed, torch.Generator(device).manual_seed(0))
        self.model = PlainModel(timed).to(device)
        self.answer: Callable[..., list[Tensor]] = self.model
        if compiled:
            self.answer = torch.compile(self.model, dynamic=False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)

    def take(self, count: int) -> None:
        """Take steps without waiting for the device."""
        for _ in range(count):
            self.learn(*self.data.sample())

    def learn(self, rows: Tensor, targets: Tensor) -> Tensor:
        """One step on given prompts; the loss before it."""
        config = self.timed.training
        unroll = unroll_at(self.timed.program, config, self.step)
        rate = learning_rate(config, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tracked = unroll.steps if unroll.grad_steps is None else unroll.grad_steps
        loss = loss_of(self.answer(rows, self.data.reads, unroll.steps, unroll.length, tracked), targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def close(self) -> None:
        """Give everything back."""
        self.stack.close()
