"""Training on several processes: the numbers of one process, up to the order in which sums are taken."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
import torch.distributed as dist

from algoformer.training.spread import Spread

ParallelName = Literal["auto", "ddp", "fsdp"]

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""By these torchrun tells a process who it is."""

RAISED_BY_ALL = (ValueError, FloatingPointError, OSError, KeyboardInterrupt)
"""Errors that all processes of a run raise together; any other has happened to one of them."""

logger = logging.getLogger("algoformer.training")


def started_by_torchrun() -> bool:
    """Whether this process is one of those that torchrun started."""
    return dist.is_available() and all(name in os.environ for name in VARIABLES)


@contextmanager
def join_torchrun(device: str | torch.device = "cpu") -> Iterator[None]:
    """Inside, the processes that torchrun started are a group, so that `train` uses all of them.

    Without torchrun, or in a program that has made the group itself, nothing happens.

    Raises:
        ValueError: there are more processes on this machine than GPUs.
    """
    if not started_by_torchrun() or dist.is_initialized():
        yield
        return
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(_own_gpu())
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    try:
        yield
        dist.all_reduce(torch.zeros(()))  # nobody leaves while another one still needs an answer
    except RAISED_BY_ALL:
        dist.destroy_process_group()
        raise
    except BaseException:
        # the others may be waiting for this process: to close the group would wait for them in turn,
        # while torchrun ends them as soon as this one is gone
        raise
    else:
        dist.destroy_process_group()


def plan_spread(wanted: ParallelName, *, batch: int, device: torch.device) -> Spread:
    """How a run with batches of this size uses the processes that there are.

    >>> print(plan_spread("auto", batch=64, device=torch.device("cpu")))
    1 process

    Raises:
        ValueError: there is no such way, or no group of processes, or they cannot share the batch.
    """
    if wanted not in get_args(ParallelName):
        raise ValueError(f"parallel must be one of {', '.join(get_args(ParallelName))}, got {wanted!r}")
    if not (dist.is_available() and dist.is_initialized()):
        if wanted != "auto":
            raise ValueError(
                f"parallel={wanted!r} needs several processes: start them with "
                "torchrun --nproc-per-node 2 -m algoformer train, or train inside join_torchrun()"
            )
        if started_by_torchrun() and int(os.environ["WORLD_SIZE"]) > 1:
            logger.warning("each process of this torchrun trains on its own; train inside join_torchrun()")
        return Spread()
    processes = dist.get_world_size()
    if wanted == "auto" and processes == 1:
        return Spread()
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"several processes can train on cpu or cuda, got {device}")
    if batch % processes:
        raise ValueError(
            f"batch={batch} cannot be shared evenly by {processes} processes; "
            f"choose a multiple of {processes} or another number of processes"
        )
    kind: Literal["ddp", "fsdp"] = "fsdp" if wanted == "fsdp" else "ddp"
    return Spread(kind, rank=dist.get_rank(), processes=processes)


def own_device(device: torch.device, spread: Spread) -> torch.device:
    """Where this process trains: on "cuda", each on a GPU of its own."""
    if spread.alone or str(device) != "cuda":
        return device
    return torch.device("cuda", _own_gpu())


def _own_gpu() -> int:
    found = torch.cuda.device_count()
    number = int(os.environ.get("LOCAL_RANK", dist.get_rank() % found if dist.is_initialized() else 0))
    if number >= found:
        raise ValueError(
            f"process {number} of this machine has no GPU of its own, there are {found}; "
            "start fewer processes, or train on the cpu"
        )
    return number
