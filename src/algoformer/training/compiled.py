"""The model through torch.compile: in pieces, each compiled once however often a loop runs it, or whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from algoformer.model.address import Notebook
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.parts import LayersModule, LoopModule, ParallelModule, ProgramModule
from algoformer.model.program import Layers, Program
from algoformer.nn import Sight
from algoformer.trace import Unroll

LARGEST_PIECE = 2
"""A piece has at most this many layers: deeper modules are compiled layer by layer, all alike and once."""

SPECIALIZATIONS = 64
"""How often a piece may be compiled anew (for a batch, with and without a graph) before that is an error."""

QUIET = Notebook((), Program(Layers(1)), 1)


@contextmanager
def compiled_pieces(model: AlgoFormer, *, backend: str = "inductor") -> Iterator[None]:
    """Inside, the model's pieces run compiled, as long as nobody asks for hidden states.

    The model itself is the same afterwards as before; its weights are never copied.
    """
    compilation = torch._dynamo.config.patch(
        recompile_limit=SPECIALIZATIONS, accumulated_recompile_limit=16 * SPECIALIZATIONS
    )
    run = {kind: _compile(function, backend) for kind, function in _FUNCTIONS.items()}
    patched: list[tuple[nn.Module, str]] = []
    try:
        for piece in _pieces(model.body):
            name = "step" if isinstance(piece, LoopModule) else "forward"
            setattr(piece, name, _replacement(piece, run[_kind(piece)]))
            patched.append((piece, name))
        with compilation:
            yield
    finally:
        for piece, name in patched:
            delattr(piece, name)


@contextmanager
def compiled_body(model: AlgoFormer, *, backend: str = "inductor") -> Iterator[None]:
    """Inside, training runs the model's whole program as one compiled function for each way to unroll it.

    That is for a CPU: what a GPU gains by small pieces that are captured, a CPU gains by few and large ones.
    Evaluation, hidden states and iterations that are run again go the ordinary way.
    """
    body, made = model.body, dict[Unroll, Callable[..., Tensor]]()

    def run(
        stream: Tensor, unroll: Unroll, notebook: Notebook, address: str = "", asked: Tensor | None = None
    ) -> Tensor:
        noted = notebook.keep or notebook.visibility is not None
        if noted or unroll.recompute or not torch.is_grad_enabled():
            return ProgramModule.unroll(body, stream, unroll, notebook, address, asked)
        if unroll not in made:
            made[unroll] = _compile(partial(_run_body, body, unroll), backend)
        return made[unroll](stream, asked)

    body.unroll = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        del body.unroll


def _run_body(body: ProgramModule, unroll: Unroll, stream: Tensor, asked: Tensor | None) -> Tensor:
    quiet = Notebook((), body.program, unroll.steps)
    return ProgramModule.unroll(body, stream, unroll, quiet, "", asked)


def _compile(function: Callable[..., Tensor], backend: str) -> Callable[..., Tensor]:
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


def _run_layer(layer: nn.Module, stream: Tensor, sight: Sight | None = None) -> Tensor:
    return type(layer).forward(layer, stream, sight)


def _run_layers(module: LayersModule, stream: Tensor, asked: Tensor | None) -> Tensor:
    return LayersModule.forward(module, stream, QUIET, "", asked)


def _run_step(loop: LoopModule, state: Tensor, entry: Tensor, asked: Tensor | None) -> Tensor:
    return LoopModule.step(loop, state, entry, QUIET, "", asked)


_FUNCTIONS: dict[type, Callable[..., Tensor]] = {
    nn.Module: _run_layer,
    LayersModule: _run_layers,
    LoopModule: _run_step,
}


def _kind(piece: nn.Module) -> type:
    # not its type: FSDP makes a subclass of it
    return next((kind for kind in (LayersModule, LoopModule) if isinstance(piece, kind)), nn.Module)


def _replacement(piece: nn.Module, run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    if isinstance(piece, LayersModule):
        return partial(_layers_or_noted, piece, run)
    if isinstance(piece, LoopModule):
        return partial(_step_or_noted, piece, run)
    return partial(run, piece)


def _layers_or_noted(
    module: LayersModule,
    run: Callable[..., Tensor],
    stream: Tensor,
    notebook: Notebook,
    address: str,
    asked: Tensor | None = None,
) -> Tensor:
    if notebook.keep or notebook.visibility is not None:
        return LayersModule.forward(module, stream, notebook, address, asked)
    return run(module, stream, asked)


def _step_or_noted(
    loop: LoopModule,
    run: Callable[..., Tensor],
    state: Tensor,
    entry: Tensor,
    notebook: Notebook,
    address: str,
    asked: Tensor | None = None,
) -> Tensor:
    if notebook.keep or notebook.visibility is not None:
        return LoopModule.step(loop, state, entry, notebook, address, asked)
    if torch.is_grad_enabled() and entry.requires_grad and not state.requires_grad:
        # the first tracked iteration then looks like all others, and needs no code of its own
        state = state.detach().requires_grad_()
    return run(loop, state, entry, asked)
