"""Memory for time: an iteration keeps its input only, and is run again when the backward pass needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from algoformer.model.injections import NoiseStart

_RANDOM = (NoiseStart, nn.modules.dropout._DropoutNd)
"""Modules that draw random numbers, besides layers with dropout."""


def run_again(module: nn.Module, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` with its activations dropped, and made again from its arguments on the way back.

    The second run has the weights that the module holds now, also if others are in place by then: a
    model that multiplies in half precision has its rounded weights only while it runs forward. It draws the
    same random numbers again.
    """
    if torch.compiler.is_compiling():  # which has weights of its own, and no contexts
        return partial(checkpoint, function, use_reentrant=False)
    # a captured graph cannot read the state of a generator, so that it is asked for only where it is needed
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    random = any(getattr(part, "dropout", 0.0) or isinstance(part, _RANDOM) for part in module.modules())
    weights = dict(module.named_parameters(remove_duplicate=False))
    return partial(
        checkpoint,
        function,
        use_reentrant=False,
        preserve_rng_state=random or not capturing,
        context_fn=lambda: (nullcontext(), weights_in_place(module, weights)),
    )


@contextmanager
def weights_in_place(module: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside, the module has these weights; afterwards those it had before."""
    before = dict(module.named_parameters(remove_duplicate=False))
    others = {name: weight for name, weight in weights.items() if before[name] is not weight}
    try:
        _put(module, others)
        yield
    finally:
        _put(module, {name: before[name] for name in others})


def _put(module: nn.Module, weights: Mapping[str, Any]) -> None:
    for name, weight in weights.items():
        owner, _, last = name.rpartition(".")
        # as torch.func.functional_call does it: setattr would refuse a tensor that is no parameter
        module.get_submodule(owner)._parameters[last] = weight
