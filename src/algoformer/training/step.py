"""One training step: batch, loss, gradient, clipping, update, average; nothing is read back."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig, learning_rate, ramp_value
from algoformer.data.protocol import Data, Loss
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.trace import Unroll
from algoformer.training.average import Average
from algoformer.training.config import Experiment
from algoformer.training.optimizer import ModelOptimizer
from algoformer.training.precision import HalfBody, RoundedBody
from algoformer.training.process_group import ProcessGroup


class Step:
    """A model, its optimizer, its average and its batches; a step is a function of its number.

    `prepare` does the host's work for a step; `take` is a function of tensors that are updated in place, so
    that it can be captured as a CUDA graph. Losses and other measures are added up on the device (`sums`)
    until they are read. With several processes each works on its share of the batch.

    Args:
        experiment: what is trained and how.
        model: the model, where it is to be trained.
        group: the processes of the run.
    """

    def __init__(self, experiment: Experiment, model: nn.Module, group: ProcessGroup | None = None) -> None:
        self.experiment, self.model, self.group = experiment, model, group or ProcessGroup()
        self.training, self.data = experiment.training, experiment.data
        bf16 = self.training.precision == "bf16"
        # before the optimizer sees the weights: FSDP puts pieces in their place
        self.group.wrap(model, at_once=bf16)
        self.device = next(model.parameters()).device
        self.batches = self.data.batches(model, self.training, self.group.share())
        self.optimizer = ModelOptimizer(model, self.training)
        ema = self.training.ema
        self.average = None if ema is None else Average(model, ema, self.group.copy)
        self.sums = torch.zeros(len(self.data.measures), dtype=torch.float64, device=self.device)
        self.unroll = Unroll(steps=1)
        self.solver: Callable[..., Any] = model
        """What answers in place of the model, in another precision or with other kernels."""
        self.rounded: _HalfLoss | None = None
        if bf16 and isinstance(model, AlgoFormer):
            self.solver = HalfBody(model).answer
        elif bf16:
            self.rounded = _HalfLoss(model, self.data, self.training)

    @cached_property
    def recording(self) -> torch.cuda.Stream:
        """The stream of all graphs that are captured of this step, and of what is run before a capture.

        Autograd ties a weight's gradient to the stream it saw first.
        """
        return torch.cuda.Stream(self.device)

    @property
    def trained(self) -> nn.Module:
        """The model that a run is for: the average of the weights where one is kept, or else the weights."""
        return self.model if self.average is None else self.average.model

    def run(self, step: int) -> None:
        """Take the step of this number, counted from 0, and add to `sums`."""
        self.prepare(step)
        with self.draws(step):
            self.take()

    def prepare(self, step: int) -> Hashable:
        """Set learning rate, unroll and batch of a step; steps with equal keys launch the same work."""
        self.optimizer.set_rate(learning_rate(self.training, step))
        self.unroll = unroll_at(self.experiment.program, self.training, step)
        return self.unroll, self.batches.select(step)

    def draws(self, step: int) -> AbstractContextManager[None]:
        """Make dropout inside depend on the seed, the step and the rank alone."""
        rank = self.group.rank
        name = f"{self.training.seed}/{step}/dropout" + (f"/{rank}" if rank else "")
        return _seeded(random.Random(name).getrandbits(31), self.device)

    def take(self) -> None:
        """Learn from the prepared batch, and add its measures to `sums`."""
        loss = self.loss(self.batches.current(), self.unroll)
        self.descend(loss.value)
        self.sums.add_(torch.stack([value.to(self.sums.dtype) for value in loss.sums]))

    def loss(self, batch: Any, unroll: Unroll) -> Loss:
        """Return the loss on a batch, in the precision of the experiment."""
        return self.group.run(self._loss, batch, unroll)

    def descend(self, loss: Tensor) -> None:
        """Differentiate, clip, update the weights and their average; nothing is read back."""
        self.optimizer.zero_grad()
        loss.backward()
        if self.training.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model)

    def changing(self) -> list[Tensor]:
        """Return every tensor that a step changes in place."""
        kept = [value for values in self.optimizer.state.values() for value in values.values()]
        averaged = [] if self.average is None else self.average.tensors()
        return [*self.model.parameters(), *kept, *averaged, self.sums]

    def read_sums(self) -> list[float]:
        """Return the sums since the last reset, the loss first. Waits for device and processes."""
        values: list[float] = self.group.mean(self.sums).tolist()
        return values

    def _loss(self, batch: Any, unroll: Unroll) -> Loss:
        if self.rounded is not None:
            return self.rounded.loss(batch, unroll)
        return self.data.loss(self.solver, batch, unroll, self.training)


class _HalfLoss(RoundedBody):
    """The loss of a model whose products are in bf16; weights, residual stream, norms and loss stay fp32."""

    def __init__(self, model: nn.Module, data: Data, training: TrainConfig) -> None:
        super().__init__(model)
        self.data, self.training_config = data, training

    def loss(self, batch: Any, unroll: Unroll) -> Loss:
        """Return the loss with rounded weights in the body."""
        return cast(Loss, self.call(batch, unroll))

    def forward(self, batch: Any, unroll: Unroll) -> Loss:
        """Compute the loss; to be called by `call`, which puts the rounded weights in place."""
        device = next(self.model.parameters()).device.type
        with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False):
            return self.data.loss(self.model, batch, unroll, self.training_config)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's own generators inside; outside nothing changes."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def unroll_at(program: Program, config: TrainConfig, step: int) -> Unroll:
    """Return how far the loop runs at `step`, what the loss reads and what the gradient passes through.

    The number of burn-in iterations depends on the seed and the step alone.
    """
    if traced_part(program) is None:
        return Unroll(steps=1, window=1)
    iterations = iterations_at(program, config, step)
    window = min(config.window, iterations)
    extra = random.Random(f"{config.seed}/{step}").choice(config.burn_in) if config.burn_in else 0
    return Unroll(
        steps=iterations + extra,
        window=window,
        grad_steps=window if config.backprop == "window" else iterations,
        recompute=config.gradient_checkpointing,
    )


def iterations_at(program: Program, config: TrainConfig, step: int) -> int:
    """Return the iterations of the loop at `step` by the curriculum, without burn-in."""
    return ramp_value(config.iterations, step, steps=config.steps, end=default_steps(program))
