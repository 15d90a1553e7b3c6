"""Training on several processes: the numbers of one process, up to the order in which sums are taken."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from algoformer.common.plain_data import read_value
from algoformer.data.protocol import Loss
from algoformer.trace import Unroll
from algoformer.training import sharded
from algoformer.training.config import Experiment, ParallelName
from algoformer.training.optimizer import may_miss_weights
from algoformer.training.step import LossFunction, Model, ProcessGroup, Result, Stop
from algoformer.training.trainer import started_by_torchrun

RAISED_BY_ALL = (KeyboardInterrupt, FloatingPointError, OSError, ValueError)
"""Errors that all processes of a run raise together, and that a caller may catch.

Any other has happened to one of them, and reaches the others as a RuntimeError.
"""

SECONDS_BETWEEN_AGREEMENTS = 1.0
"""The longest wait after Ctrl-C: processes ask each other about this often whether to go on."""

logger = logging.getLogger("algoformer.training")


@contextmanager
def joined(device: str | torch.device) -> Iterator[None]:
    """Make the processes that torchrun started a group inside; see `trainer.join_torchrun`."""
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(own_gpu())
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    try:
        yield
        dist.all_reduce(torch.zeros(()))  # no process leaves while another one still needs an answer
    except BaseException as error:
        # after any other error the others may be waiting for this process: to close the group would wait
        # for them in turn, while torchrun ends them as soon as this one is gone
        if isinstance(error, RAISED_BY_ALL):
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def plan_group(wanted: ParallelName, *, device: torch.device) -> ProcessGroup:
    """Return how a run uses the processes that there are.

    >>> print(plan_group("auto", device=torch.device("cpu")))
    1 process

    Raises:
        ValueError: there is no such way, or no group of processes.
    """
    read_value("parallel", ParallelName, wanted)
    if not (dist.is_available() and dist.is_initialized()):
        if wanted != "auto":
            raise ValueError(
                f"parallel={wanted!r} needs several processes: start them with "
                "torchrun --nproc-per-node 2 -m algoformer train, or train inside join_torchrun()"
            )
        if started_by_torchrun() and int(os.environ["WORLD_SIZE"]) > 1:
            logger.warning("each process of this torchrun trains on its own; train inside join_torchrun()")
        return ProcessGroup()
    processes = dist.get_world_size()
    if wanted == "auto" and processes == 1:
        return ProcessGroup()
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"several processes can train on cpu or cuda, got {device}")
    kind: Literal["ddp", "fsdp"] = "fsdp" if wanted == "fsdp" else "ddp"
    return DistributedGroup(kind, rank=dist.get_rank(), processes=processes)


class DistributedGroup(ProcessGroup):
    """The processes of a `torch.distributed` group, which share the work, with FSDP also the weights.

    Every process makes the whole batch and works on its share of it. So batches are the same whatever the
    number of processes, and a run can go on with another number.
    """

    def __init__(self, kind: Literal["ddp", "fsdp"], *, rank: int, processes: int) -> None:
        self.kind, self.rank, self.processes = kind, rank, processes
        self.is_single, self.is_rank_zero = False, rank == 0
        self._blank: nn.Module | None = None
        self._agreement = _Agreement(self)

    def wrap(self, model: nn.Module, loss: LossFunction, experiment: Experiment) -> LossFunction:
        """Return a loss on this process's share of a batch whose gradients are means over all processes.

        All processes start with the weights of rank zero. Wrap before the optimizer sees the weights: FSDP
        puts pieces in their place. A model in bf16 reads all of its weights before it runs anything.
        """
        module: nn.Module = _LossModule(model, loss)
        if self.kind == "fsdp":
            self._blank = copy.deepcopy(model).to("meta")
            sharded.shard(module, model, at_once=experiment.training.precision == "bf16")
        else:
            partial = may_miss_weights(model, experiment)
            module = nn.parallel.DistributedDataParallel(module, find_unused_parameters=partial)

        def shared(batch: Any, unroll: Unroll) -> Loss:
            value, *sums = module(batch, unroll)
            return Loss(value, tuple(sums))

        return shared

    def copy(self, model: Model) -> Model:
        """Return a model of its own with the weights of this one, or this process's pieces of them."""
        if self._blank is None:
            return copy.deepcopy(model)
        plain = cast(Model, copy.deepcopy(self._blank))
        weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        plain.load_state_dict(weights, assign=True)
        return plain

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        values = values.clone()
        dist.all_reduce(values)
        return values / self.processes

    def on_rank_zero(self, action: Callable[[], Result]) -> Result:
        """Do something on rank zero alone; all processes return or raise what it did.

        So none waits for one that has met with an error. Results travel: they must be small and plain.
        """
        told: list[tuple[Result | None, BaseException | None]] = [(None, None)]
        failure: BaseException | None = None
        if self.is_rank_zero:
            try:
                told = [(action(), None)]
            except BaseException as error:
                failure = error
                told = [(None, _to_send(error))]
        dist.broadcast_object_list(told, src=0)
        result, sent = told[0]
        if sent is not None:
            raise failure or sent
        return cast(Result, result)

    def all_gather_object(self, value: Result) -> list[Result]:
        """Return what every process gives, in the order of their ranks."""
        answers: list[Result | None] = [None] * self.processes
        dist.all_gather_object(answers, value)
        return cast(list[Result], answers)

    def check_same(self, what: str, value: object) -> None:
        """Refuse processes that differ in something they must share, on all of them."""
        values = self.all_gather_object(value)
        if any(other != values[0] for other in values):
            raise ValueError(
                f"the processes of this run do not have the same {what}; "
                "start all of them with the same arguments, and with a folder that all of them see"
            )

    def agree(self, step: int, wish: Stop) -> Stop:
        """Return whether all processes stop after this step, if this one has that wish."""
        return self._agreement.stop(step, wish)

    def local(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return what this process holds of each tensor, as plain tensors."""
        return [sharded.local(tensor) for tensor in tensors]

    def full_state(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors on rank zero; the others keep their pieces. All processes must ask."""
        found = {}
        for name, tensor in state.items():
            whole = sharded.full_tensor(tensor)  # one at a time: only one is whole on the device
            found[name] = whole.cpu() if whole is not tensor and self.is_rank_zero else tensor
        return found

    def full_model(self, model: Model, *, everywhere: bool = False) -> Model:
        """Return the model with whole weights: itself, or after FSDP a copy on the CPU.

        All processes must ask for it. Unless `everywhere`, only rank zero gets one with numbers in it.
        """
        if self._blank is None:
            return model
        kept = {}
        for name, weight in model.state_dict().items():
            together = sharded.full_tensor(weight)
            if self.is_rank_zero or everywhere:
                kept[name] = together.cpu()
        plain = cast(Model, copy.deepcopy(self._blank))
        if kept:
            plain.load_state_dict(kept, assign=True)
        return plain.requires_grad_(True)

    def shard_like(self, values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return this process's pieces of whole tensors, cut as those of the same name in `like`."""
        return {name: sharded.cut_like(value, like.get(name, value)) for name, value in values.items()}


class _LossModule(nn.Module):
    """A model and a way to compute its loss as one module that returns tensors, as wrappers want it."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Any, unroll: Unroll) -> tuple[Tensor, ...]:
        found = self.loss(batch, unroll)
        # a copy, small as it is: FSDP hangs its hook on what comes out, and does so in vain on a view
        return (found.value.clone(), *found.sums)


class _Agreement:
    """All processes end a run after the same step, or one would wait for the others for ever.

    They ask each other about once a second and not after every step, because an answer has to be waited
    for. The number of steps until they ask again is part of the answer, so that they agree on it too.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.steps = 1
        self.next_step = 0
        self.last_time = time.monotonic()

    def stop(self, step: int, wish: Stop) -> Stop:
        if step < self.next_step:
            return Stop.NO
        now = time.monotonic()
        passed, self.last_time = max(now - self.last_time, 1e-9), now
        fitting = int(self.steps * min(SECONDS_BETWEEN_AGREEMENTS / passed, 2.0))
        answers = self.group.all_gather_object((wish, max(1, fitting)))
        self.steps = min(steps for _, steps in answers)
        self.next_step = step + self.steps
        return max(wish for wish, _ in answers)


def _to_send(error: BaseException) -> BaseException:
    """Return an error with its words and of its kind, made of nothing else, so that it can travel."""
    kind = next((kind for kind in RAISED_BY_ALL if isinstance(error, kind)), None)
    return RuntimeError(f"{type(error).__name__}: {error}") if kind is None else kind(str(error))


def own_gpu() -> int:
    """Return the number of the GPU that this process has for itself."""
    found = torch.cuda.device_count()
    number = int(os.environ.get("LOCAL_RANK", dist.get_rank() % found if dist.is_initialized() else 0))
    if number >= found:
        raise ValueError(
            f"process {number} of this machine has no GPU of its own, there are {found}; "
            "start fewer processes, or train on the cpu"
        )
    return number
