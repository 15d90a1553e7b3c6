"""Access to the inside of an `AlgoFormer`: many queries after one context, and the loop body as a map.

This is the only file of this room that knows how a model is put together.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from algoformer.model import AlgoFormer
from algoformer.model.driver import ForwardContext
from algoformer.model.parts import LoopModule
from algoformer.prompt import Prompt
from algoformer.trace import Unroll


def measuring_copy(
    model: AlgoFormer, *, dtype: torch.dtype | None = None, extra_tokens: int = 0
) -> AlgoFormer:
    """Return a frozen copy in evaluation mode whose position tables are longer by `extra_tokens`.

    Several copies of a token may share one position, so a measured stream can be longer than the context
    that the table was built for. The added rows of the table are never looked up.
    """
    copied = copy.deepcopy(model).eval().requires_grad_(False)
    if dtype is not None:
        copied = copied.to(dtype)
    for module in copied.modules():
        table = getattr(module, "table", None)
        if extra_tokens and isinstance(table, nn.Parameter):
            module.table = nn.Parameter(F.pad(table, (0, 0, 0, extra_tokens)), requires_grad=False)
    return copied


def can_share_context(model: object) -> bool:
    """Return whether many queries can be asked after one context: a causal model without blank tokens."""
    return isinstance(model, AlgoFormer) and model.causal and not any(model.blanks) and model.row_maps == 1


def shared_context(context: int, copies: int, length: int = 1) -> ForwardContext:
    """Return the attention mask and positions of `copies` continuations of `context` causal tokens.

    Each continuation has `length` tokens from position `context` on; they attend to the context and to
    earlier tokens of the same continuation, not to other ones.
    """
    total = context + copies * length
    mask = torch.zeros(total, total, dtype=torch.bool)
    mask[:context, :context] = torch.ones(context, context, dtype=torch.bool).tril()
    mask[context:, :context] = True
    own = torch.ones(length, length, dtype=torch.bool).tril()
    mask[context:, context:] = torch.block_diag(*[own] * copies)
    positions = torch.cat([torch.arange(context), torch.arange(context, context + length).repeat(copies)])
    return ForwardContext(causal_mask=mask[None, None], positions=positions[None])


@torch.no_grad()
def shared_context_answers(model: AlgoFormer, rows: Tensor, queries: Tensor, steps: int) -> Tensor:
    """Return answers (step, batch, query, out) to all queries after one run over the context `rows`.

    `queries` are (batch, query, row, dim); an answer is read at the last row of each. `model` is a
    `measuring_copy` with at least as many extra tokens as all queries have rows.
    """
    context, (count, length) = rows.shape[1], queries.shape[1:3]
    shared = shared_context(context, count, length)
    read_rows = context + length - 1 + length * torch.arange(count)
    stream = model.read_in(torch.cat([rows, queries.flatten(1, 2)], dim=1))
    states, _ = model.body.unroll(stream, Unroll(steps=steps), replace(shared, read_rows=read_rows))
    return model.read_out(states)


@dataclass(frozen=True, kw_only=True)
class LoopMap:
    """The loop of a model on fixed inputs, as a map from state to state.

    Attributes:
        start: the state before the first iteration, (batch, token, width).
        step: one iteration.
        read: answers (batch, point, out) read from a state.
        read_rows: the tokens at which answers are read.
        trained_steps: the number of iterations that the program names.
        token_block: the Jacobian of a token's next state with respect to its own state, from
            (prompt, token, state); None where attention is not causal.
    """

    start: Tensor
    step: Callable[[Tensor], Tensor]
    read: Callable[[Tensor], Tensor]
    read_rows: tuple[int, ...]
    trained_steps: int
    token_block: Callable[[int, int, Tensor], Tensor] | None = None


def has_single_loop(model: AlgoFormer) -> bool:
    """Return whether the traced part of a model is one loop, so that its depth can be certified."""
    return model.body.traced is not None and isinstance(model.body.parts[model.body.traced], LoopModule)


def loop_map(model: AlgoFormer, prompt: Prompt, *, dtype: torch.dtype | None = None) -> LoopMap:
    """Return the traced loop of `model` on `prompt` as a map, with a `dtype` in that precision."""
    # the spectrum of a token takes one copy of it for each number of its state, which may be two streams wide
    # and have the three numbers of halting
    model = measuring_copy(model, dtype=dtype, extra_tokens=2 * model.width + 3)
    prompt = prompt if dtype is None else prompt.to(dtype)
    model.check(prompt)
    if model.body.traced is None:
        raise ValueError("this model has no loop, so there is no depth to certify; train a looped program")
    loop = model.body.parts[model.body.traced]
    if not isinstance(loop, LoopModule):
        raise ValueError("a depth certificate needs a program whose last looping part is a single Loop")
    if loop.settings.step_signal != "none":
        raise ValueError(
            "a loop with a step signal is another map at every iteration and cannot be certified"
        )
    with torch.no_grad():
        entry = model.body.before(model.read_in(prompt.rows))
    rows = tuple(row + model.blanks[0] for row in prompt.reads)
    reading = ForwardContext(read_rows=torch.tensor(rows))

    def read(state: Tensor) -> Tensor:
        return model.read_out(model.body.after(loop.visible(state)[None], reading)[0])

    return LoopMap(
        start=loop.initial_state(entry),
        step=lambda state: loop.step(state, entry),
        read=read,
        read_rows=rows,
        trained_steps=loop.steps,
        token_block=partial(_token_block, loop, entry) if model.causal else None,
    )


def _token_block(loop: LoopModule, entry: Tensor, prompt: int, token: int, state: Tensor) -> Tensor:
    # `width` copies of the token, each with its own unit tangent: one forward-mode pass gives the block
    width = state.shape[-1]
    context = shared_context(token, width)

    def copies(values: Tensor) -> Tensor:
        return torch.cat([values[prompt, :token], values[prompt, token].expand(width, -1)])[None]

    given = copies(entry)
    tangent = torch.cat([state.new_zeros(token, width), torch.eye(width, dtype=state.dtype)])[None]
    _, moved = jvp(lambda stream: loop.step(stream, given, context), copies(state), tangent)
    return moved[0, token:].T


def jvp(function: Callable[[Tensor], Tensor], point: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """Return the value of `function` and its derivative along `tangent`, without recording a graph."""
    # of the attention kernels only this one has forward-mode derivatives
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), warnings.catch_warnings():
        # PyTorch compiles its own forward-mode formulas with a deprecated function when they are first used
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated", category=DeprecationWarning)
        found: Any = torch.func.jvp(function, (point,), (tangent,))
    return found[0], found[1]
