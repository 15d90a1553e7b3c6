"""Stop iterating on a token when its next-token distribution no longer changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.language.cache import KeyValueCache
from algoformer.language.token_model import TokenModel
from algoformer.model.address import Notebook, part_address
from algoformer.model.parts import LoopModule


@dataclass(frozen=True, kw_only=True)
class EarlyExit:
    """When a generated token has been iterated on enough.

    A sequence leaves the loop when no probability of its next token moved by `threshold` or more since
    the last look. A look costs what stands after the loop and the map to the vocabulary, which can be more
    than an iteration: look `every` few iterations.

    Attributes:
        threshold: 0 never leaves, and is exact.
        every: how many iterations lie between two looks.
    """

    threshold: int | float
    every: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is a difference of probabilities, 0..1, got {self.threshold}")
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every}")


def traced_loop(model: TokenModel) -> tuple[LoopModule, str]:
    """The loop that early exit cuts short, and its address.

    Raises:
        ValueError: the program's last looping part is not a loop of its own.
    """
    body = model.trunk.body
    loop = None if body.traced is None else body.parts[body.traced]
    if body.traced is None or not isinstance(loop, LoopModule):
        raise ValueError("early exit needs a program whose last looping part is a Loop of its own")
    return loop, part_address(model.program, body.traced, "")


def run_until_still(
    model: TokenModel,
    tokens: Int[Tensor, " batch"],
    cache: KeyValueCache,
    notebook: Notebook,
    rule: EarlyExit,
) -> tuple[Float[Tensor, "batch vocabulary"], Int[Tensor, " batch"]]:
    """The scores of the next token, and how many iterations each sequence took.

    Later tokens also look at the iterations that were left out here: there they find the keys and values of
    the iteration at which this token left. The batch runs until its last sequence has left; those that
    left earlier are held where they were, so that a result does not depend on who else is in the batch.
    """
    trunk, (loop, address) = model.trunk, traced_loop(model)
    entry = trunk.body.before(trunk.embed(tokens[:, None]), notebook)
    state = loop.start(entry)
    running = torch.ones(cache.batch, dtype=torch.bool, device=cache.device)
    iterations = torch.full((cache.batch,), cache.steps, device=cache.device)
    scores: Tensor | None = None
    before: Tensor | None = None
    left = 0
    for iteration in range(1, cache.steps + 1):
        if left:
            cache.carry(address, iteration)
        if left == cache.batch:
            continue
        cache.held = ~running if left else None
        state = loop.step(state, entry, notebook, f"{address}[{iteration}]")
        if iteration % rule.every and iteration < cache.steps:
            continue
        now = model.scores(trunk.finish(trunk.body.after(state[None], notebook))[0, :, 0])
        scores = now if scores is None else torch.where(running[:, None], now, scores)
        chances = now.softmax(dim=-1)
        if before is not None and iteration < cache.steps and rule.threshold:
            # what is not a number counts as moving
            leaving = running & ((chances - before).abs().amax(dim=-1) < rule.threshold)
            iterations.masked_fill_(leaving, iteration)
            running = running & ~leaving
            left = cache.batch - int(running.sum())
        before = chances
    cache.held = None
    assert scores is not None
    return scores, iterations
