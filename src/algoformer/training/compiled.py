"""The model through torch.compile: in pieces, each compiled once however often a loop runs it, or whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from algoformer.model.algoformer import AlgoFormer
from algoformer.model.driver import DEFAULT, ForwardContext
from algoformer.model.parts import LayersModule, LoopModule, ParallelModule, ProgramModule, Unrolled
from algoformer.nn import AttentionContext
from algoformer.trace import Unroll

LARGEST_PIECE = 2
"""A piece has at most this many layers: deeper modules are compiled layer by layer, all alike and once."""

SPECIALIZATIONS = 64
"""The most times that a piece is compiled anew (for a batch, with and without a graph); more is an error."""


@contextmanager
def compiled_pieces(model: AlgoFormer, *, backend: str = "inductor") -> Iterator[None]:
    """Run the model's pieces compiled inside the `with` block.

    A forward pass that records or edits states, or has a cache, runs them eagerly: each address would be
    compiled anew. The model itself is the same afterwards as before; its weights are never copied.
    """
    compilation = torch._dynamo.config.patch(
        recompile_limit=SPECIALIZATIONS, accumulated_recompile_limit=16 * SPECIALIZATIONS
    )
    compiled: dict[Callable[..., Tensor], Callable[..., Tensor]] = {}
    patched: list[tuple[nn.Module, str]] = []
    try:
        for piece in _pieces(model.body):
            name = "step" if isinstance(piece, LoopModule) else "forward"
            plain = getattr(type(piece), name)
            if plain not in compiled:
                compiled[plain] = _compile(plain, backend)
            setattr(piece, name, partial(_run_piece, piece, plain, compiled[plain]))
            patched.append((piece, name))
        with compilation:
            yield
    finally:
        for piece, name in patched:
            delattr(piece, name)


def _run_piece(
    piece: nn.Module, plain: Callable[..., Tensor], compiled: Callable[..., Tensor], *arguments: Any
) -> Tensor:
    context = arguments[-1]
    if isinstance(context, ForwardContext) and context.has_addresses:
        if context.access is not None or context.cache is not None:
            return plain(piece, *arguments)
        # no loop stands inside a piece, so that it is compiled once for all addresses
        arguments = (*arguments[:-1], replace(context, loop_steps=None, address=""))
    if isinstance(context, AttentionContext) and (context.cache or context.visit_weights):
        return plain(piece, *arguments)
    if isinstance(piece, LoopModule):
        state, entry, *_ = arguments
        if torch.is_grad_enabled() and entry.requires_grad and not state.requires_grad:
            # the first tracked iteration then looks like all others, and needs no code of its own
            arguments = (state.detach().requires_grad_(), *arguments[1:])
    return compiled(piece, *arguments)


@contextmanager
def compiled_body(model: AlgoFormer, *, backend: str = "inductor") -> Iterator[None]:
    """Run the model's whole program, while training, as one compiled function for each way to unroll it.

    That is for a CPU: what a GPU gains by small pieces that are captured, a CPU gains by few and large ones.
    Evaluation, hidden states, gradient checkpointing, and unrolls with inner, carry or depths run eagerly.
    """
    body, compiled = model.body, dict[Unroll, Callable[..., Unrolled]]()

    def run(stream: Tensor, unroll: Unroll, context: ForwardContext = DEFAULT) -> Unrolled:
        special = unroll.inner or unroll.carry is not None or unroll.depths is not None
        if context.has_addresses or unroll.gradient_checkpointing or special or not torch.is_grad_enabled():
            return ProgramModule.unroll(body, stream, unroll, context)
        if unroll not in compiled:
            compiled[unroll] = _compile(partial(ProgramModule.unroll, body, unroll=unroll), backend)
        return compiled[unroll](stream, context=context)

    body.unroll = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        del body.unroll


def _compile(function: Callable[..., Any], backend: str) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, dynamic=False, fullgraph=True)


def _pieces(program: ProgramModule) -> Iterator[nn.Module]:
    for part in program.parts:
        if isinstance(part, ParallelModule):
            for branch in part.branches:
                yield from _pieces(branch)
            continue
        inside = list(part.modules())
        layers = [layer for module in inside if isinstance(module, LayersModule) for layer in module.layers]
        nested = any(isinstance(module, LoopModule) for module in inside[1:])
        if len(layers) <= LARGEST_PIECE and not nested:
            yield part
        elif isinstance(part, LoopModule):
            yield from _pieces(part.body)
        else:
            yield from layers
