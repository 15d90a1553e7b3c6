"""The processes of a run. This form is a single process, and does nothing; `distributed` has the other."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from algoformer.data.protocol import Loss, Share
from algoformer.trace import Unroll
from algoformer.training.config import ParallelName

Result = TypeVar("Result")
Model = TypeVar("Model", bound=nn.Module)
LossFunction = Callable[[Any, Unroll], Loss]


VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The environment variables by which torchrun tells a process its rank."""


def started_by_torchrun() -> bool:
    """Return whether this process is one of those that torchrun started."""
    return dist.is_available() and all(name in os.environ for name in VARIABLES)


def join_torchrun(device: str | torch.device = "cpu") -> AbstractContextManager[None]:
    """Make the processes that torchrun started a group inside, so that `train` uses all of them.

    Without torchrun, or in a program that has made the group itself, nothing happens.

    Raises:
        ValueError: there are more processes on this machine than GPUs.
    """
    if not started_by_torchrun() or dist.is_initialized():
        return nullcontext()
    from algoformer.training.distributed import joined

    return joined(device)


def join_group(wanted: ParallelName, device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Return the processes of a run, and the device of this one; a single process needs nothing else."""
    if (
        wanted == "auto"
        and not (dist.is_available() and dist.is_initialized())
        and "WORLD_SIZE" not in os.environ
    ):
        return ProcessGroup(), device
    from algoformer.training.distributed import own_device, plan_group

    group = plan_group(wanted, device=device)
    return group, own_device(device, group)


class Stop(IntEnum):
    """Whether to end a run before its last step, and why; where processes differ, the largest counts."""

    NO = 0
    OUT_OF_TIME = 1
    INTERRUPTED = 2


class ProcessGroup:
    """A run on one process: nothing is shared, exchanged or gathered."""

    kind = "single"
    rank = 0
    processes = 1

    @property
    def is_single(self) -> bool:
        """Whether there is no other process."""
        return self.processes == 1 and self.kind == "single"

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process writes files and talks to people."""
        return self.rank == 0

    def __str__(self) -> str:
        return "1 process" if self.is_single else f"{self.processes} processes ({self.kind})"

    def wrap(self, model: nn.Module, *, at_once: bool = False) -> None:
        """Average the gradients of the model's weights, taken through `run`, over all processes."""

    def run(self, loss: LossFunction, batch: Any, unroll: Unroll) -> Loss:
        """Return the loss of the wrapped model on this process's share of a batch."""
        return loss(batch, unroll)

    def copy(self, model: Model) -> Model:
        """Return a model of its own with the weights of this one, or this process's pieces of them."""
        return copy.deepcopy(model)

    def share(self) -> Share:
        """Return the share of every batch that this process works on."""
        return Share()

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        return values

    def on_rank_zero(self, action: Callable[[], Result]) -> Result:
        """Do something on rank zero alone; all processes return or raise what it did."""
        return action()

    def rank_zero_first(self, action: Callable[[], Result]) -> Result:
        """Do something on rank zero, and then on the others, unless it failed there."""
        return action()

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
