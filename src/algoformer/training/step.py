"""One training step, the process that takes it, and all that the next step depends on."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from algoformer.checkpoint import Checkpoint
from algoformer.config import learning_rate
from algoformer.data.protocol import Loss, Share
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import traced_part
from algoformer.trace import Carry, Unroll
from algoformer.training.config import Experiment, sequence_depths, unroll_at
from algoformer.training.optimizer import Average, ModelOptimizer
from algoformer.training.precision import HalfBody, HalfLoss

Result = TypeVar("Result")
Model = TypeVar("Model", bound=nn.Module)
LossFunction = Callable[[Any, Unroll], Loss]


class Stop(IntEnum):
    """The wish to end a run early, with its reason; where processes differ, the largest counts."""

    NO = 0
    OUT_OF_TIME = 1
    INTERRUPTED = 2


class ProcessGroup:
    """A run on one process: nothing is shared, exchanged or gathered."""

    kind = "single"
    rank = 0
    processes = 1

    is_single = True
    """True if there is no other process."""
    is_rank_zero = True
    """True if this process writes files and prints."""

    def __str__(self) -> str:
        return "1 process" if self.is_single else f"{self.processes} processes ({self.kind})"

    def wrap(self, model: nn.Module, loss: LossFunction, experiment: Experiment) -> LossFunction:
        """Return a loss on this process's share of a batch whose gradients are means over all processes."""
        return loss

    def copy(self, model: Model) -> Model:
        """Return a model of its own with the weights of this one, or this process's pieces of them."""
        return copy.deepcopy(model)

    def share(self) -> Share:
        """Return the share of every batch that this process works on."""
        return Share(self.rank, self.processes, self.mean)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        return values

    def on_rank_zero(self, action: Callable[[], Result]) -> Result:
        """Do something on rank zero alone; all processes return or raise what it did."""
        return action()

    def rank_zero_first(self, action: Callable[[], Result]) -> Result:
        """Do something on rank zero, and then on the others, unless it failed there."""
        done: list[Result] = []
        self.on_rank_zero(lambda: done.append(action()))
        return done[0] if done else action()

    def all_gather_object(self, value: Result) -> list[Result]:
        """Return what every process gives, in the order of their ranks."""
        return [value]

    def check_same(self, what: str, value: object) -> None:
        """Refuse processes that differ in something they must share."""

    def agree(self, step: int, wish: Stop) -> Stop:
        """Return whether all processes stop after this step, if this one has that wish."""
        return wish

    def local(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return what this process holds of each tensor, as plain tensors."""
        return tensors

    def full_state(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors on rank zero; all processes must ask."""
        return state

    def full_model(self, model: Model, *, everywhere: bool = False) -> Model:
        """Return the model with whole weights: itself, or after FSDP a copy on the CPU."""
        return model

    def shard_like(self, values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return this process's pieces of whole tensors, cut as those of the same name in `like`."""
        return values


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
        # before the optimizer sees the weights: FSDP puts pieces in their place
        self.loss = self.group.wrap(model, self._loss, experiment)
        """Returns the loss on a batch under an unroll, in the precision of the experiment."""
        self.device = next(model.parameters()).device
        self.batches = self.data.batches(model, self.training, self.group.share())
        self.optimizer = ModelOptimizer(model, self.training)
        ema = self.training.ema
        self.average = None if ema is None else Average(model, ema, self.group.copy)
        self.sums = torch.zeros(len(self.data.measures), dtype=torch.float64, device=self.device)
        self.unroll: Unroll
        """The numbers of iterations of the loops in the prepared step."""
        self.rate: float
        """The learning rate of the prepared step."""
        self.depths = self._depths()
        """The iterations of each sequence, in place; None where all sequences have the same."""
        self.solver: Callable[..., Any] = model
        """The function that answers in place of the model, in another precision or with other kernels."""
        self.rounded: HalfLoss | None = None
        bf16 = self.training.precision == "bf16"
        if bf16 and isinstance(model, AlgoFormer):
            self.solver = HalfBody(model).answer
        elif bf16:
            self.rounded = HalfLoss(model, self.data, self.training)

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
        """Set unroll, batch and learning rate of a step; steps with equal keys launch the same work."""
        self.unroll = unroll_at(self.experiment.program, self.training, step)
        if self.depths is not None:
            first = self.group.share().rank * len(self.depths)
            drawn = sequence_depths(self.training, step)[first : first + len(self.depths)]
            self.depths.copy_(torch.tensor(drawn))
            self.unroll = replace(self.unroll, depths=self.depths)
        batch = self.batches.select(step)
        self.rate = learning_rate(self.training, step)
        self.optimizer.set_rate(self.rate)
        return self.unroll, batch

    def _depths(self) -> Tensor | None:
        depth = self.training.depth
        if depth is None or depth.per == "batch" or traced_part(self.experiment.program) is None:
            return None
        count = self.training.batch_size // self.group.share().processes
        return torch.ones(count, dtype=torch.int64, device=self.device)

    @contextmanager
    def draws(self, step: int) -> Iterator[None]:
        """Make dropout inside depend on the seed, the step and the rank alone; outside nothing changes."""
        rank = self.group.rank
        name = f"{self.training.seed}/{step}/dropout" + (f"/{rank}" if rank else "")
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(random.Random(name).getrandbits(31))
            yield

    def take(self) -> None:
        """Learn from the prepared batch, segment by segment, and add the last measures to `sums`."""
        batch, unroll = self.batches.current(), self.unroll
        if self.training.segments > 1:
            unroll = replace(unroll, carry=Carry())
        for _ in range(self.training.segments):
            loss = self.loss(batch, unroll)
            self.descend(loss.value)
        self.sums.add_(torch.stack([value.to(self.sums.dtype) for value in loss.sums]))

    def descend(self, loss: Tensor) -> None:
        """Differentiate, clip, update the weights and their average; nothing is read back."""
        self.optimizer.zero_grad()
        loss.backward()
        if self.training.loss == "gate":  # weights that the loss does not reach stay, and resume as others do
            for weight in self.model.parameters():
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
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
        return self.group.mean(self.sums).tolist()

    def weights_are_finite(self) -> bool:
        """Return whether all weights are finite, on all processes."""
        pieces = self.group.local(list(self.model.parameters()))
        finite = bool(torch.stack([piece.isfinite().all() for piece in pieces]).all())
        return all(self.group.all_gather_object(finite))

    def _loss(self, batch: Any, unroll: Unroll) -> Loss:
        if self.rounded is not None:
            return self.rounded.call(batch, unroll)
        return self.data.loss(self.solver, batch, unroll, self.training)


RAW = "weights."
"""The prefix of the weights that the optimizer moves, where the checkpoint's model is their average."""


def snapshot(step: Step, card: Mapping[str, Any]) -> Checkpoint:
    """Return everything that the next step depends on; the card must hold the steps done and the seconds.

    The checkpoint's model is the one to use, also where that is an average of the weights; the card's
    `weights` says which it is. With several processes all of them take part, and that of rank zero is the one
    to keep: it is the same as if the run had one process.
    """
    model = step.group.full_model(step.trained)
    state = {"sums": step.group.mean(step.sums)}
    kept = step.optimizer.state
    for name, weight in step.model.named_parameters():
        state |= {f"optimizer.{name}.{key}": value for key, value in kept.get(weight, {}).items()}
    if step.average is not None:
        state |= {f"{RAW}{name}": value for name, value in step.model.state_dict().items()}
    return Checkpoint(model=model, data=step.data, card=card, state=step.group.full_state(state))


def raw_model(checkpoint: Checkpoint) -> nn.Module:
    """Return the model with the weights that the optimizer moved last, also where the file has their average.

    Raises:
        ValueError: the checkpoint holds nothing but the average.
    """
    model: nn.Module = checkpoint.model
    if checkpoint.card.get("weights") != "average":
        return model
    model = copy.deepcopy(model)
    for name, value in model.state_dict().items():
        if f"{RAW}{name}" not in checkpoint.state:
            raise ValueError("it holds an average of weights only, without the weights themselves")
        value.copy_(checked_tensor(checkpoint.state, f"{RAW}{name}", value))
    return model


def checked_tensor(state: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """Return a tensor of a checkpoint's state; refuse one of another shape or type than `like`."""
    found = state.get(name)
    if found is None:
        raise ValueError(f"the checkpoint lacks {name!r}")
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(
            f"the checkpoint's {name!r} is {tuple(found.shape)} of {found.dtype}, "
            f"needed is {tuple(like.shape)} of {like.dtype}"
        )
    return found
