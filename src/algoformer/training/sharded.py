"""FSDP2: weights, gradients and optimizer state in pieces, one for each process.

What `torch.distributed` needs for it takes seconds to import, and is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from algoformer.model.parts import LayersModule, LoopModule, ParallelModule, ProgramModule
from algoformer.training.compiled import LARGEST_PIECE


def shard(root: nn.Module, model: nn.Module, *, at_once: bool) -> None:
    """Leave each process a piece of every weight; whole weights are put together while they are used.

    A loop is one unit, whole from its first iteration to its last: put together anew in every iteration,
    its weights would travel as often as they are used. Of what runs once, small modules and the layers of
    deeper ones are units. What belongs to no unit is whole while the root, which contains the model, runs.
    `at_once` makes one unit of everything, for a root that reads all weights before it runs anything.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for weight in model.state_dict().values():
        dist.broadcast(weight, src=0)
    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    for unit, method in () if at_once else _units(cast(ProgramModule, model.body), unrolled=True):
        fully_shard(unit, mesh=mesh)
        if isinstance(unit, LoopModule):
            setattr(unit, method, _copied(getattr(unit, method)))
        if method != "forward":
            register_fsdp_forward_method(unit, method)
    fully_shard(root, mesh=mesh)


def _units(program: ProgramModule, *, unrolled: bool) -> Iterator[tuple[nn.Module, str]]:
    """Yield what is put together as one, and the method by which it is called."""
    for number, part in enumerate(program.parts):
        # an unroll runs the traced part by its method of that name, everything else by `forward`
        by_unroll = unrolled and number == program.traced
        if isinstance(part, ParallelModule):
            for branch in part.branches:
                yield from _units(branch, unrolled=by_unroll)
        elif isinstance(part, LoopModule):
            yield part, "unroll" if by_unroll else "forward"
        elif len(cast(LayersModule, part).layers) <= LARGEST_PIECE:
            # hooks cannot lie inside what is compiled
            yield part, "forward"
        else:
            yield from ((layer, "forward") for layer in cast(LayersModule, part).layers)


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with copies of its tensors: FSDP hangs its hook on a view of a state in vain."""
    return lambda *arguments: tree_map_only(Tensor, Tensor.clone, function(*arguments))


def is_piece(tensor: Tensor) -> bool:
    """Return whether this process has only a piece of the tensor."""
    return hasattr(tensor, "placements")  # so that DTensor need not be imported to be told apart


def local(tensor: Tensor) -> Tensor:
    """Return what this process has of a tensor, as a plain one."""
    return cast(Any, tensor).to_local() if is_piece(tensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a whole tensor from the pieces of all processes; all of them must call this."""
    return cast(Any, tensor).full_tensor() if is_piece(tensor) else tensor


def cut_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return the piece of a whole tensor that this process has of `like`; every process has the whole."""
    if not is_piece(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = cast(Any, like).device_mesh, cast(Any, like).placements
    return distribute_tensor(tensor.to(like.device), mesh, placements, src_data_rank=None)
