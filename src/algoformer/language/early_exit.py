"""Early exit while decoding: stop iterating on a token when its stopping rule says so."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.language.cache import KeyValueCache
from algoformer.language.token_model import TokenModel
from algoformer.model.driver import ForwardContext, LoopDriver
from algoformer.model.parts import LoopModule
from algoformer.model.settle import Settled, run_until
from algoformer.model.stopping import StoppingRule


class CachedDriver(LoopDriver):
    """Runs a loop on one token of each sequence, with a key-value cache.

    Sequences that have stopped leave the batch: the remaining ones read and write their rows of the cache.
    Later tokens also attend to the iterations that were left out here: there they find the keys and values
    of the iteration at which this token stopped.
    """

    def __init__(
        self, loop: LoopModule, entry: Tensor, context: ForwardContext, cache: KeyValueCache
    ) -> None:
        plain = loop.driver(entry, context)
        super().__init__(plain.step, plain.state, entry, context, plain.signal)
        self.cache = cache
        self.ends = torch.full((cache.batch,), cache.steps, device=entry.device)

    def leave(self, running: Bool[Tensor, " batch"]) -> Int[Tensor, " sequence"] | None:
        """Take sequences that have stopped out of the batch; the cache keeps what they had."""
        remaining, rows = super().leave(running), self.cache.rows
        if remaining is None:  # edits of states keep all in the batch: those that have stopped do not write
            rows = running.nonzero()[:, 0]
        else:
            rows = remaining if rows is None else rows.index_select(0, remaining)
        self.cache.rows = rows
        self.ends = self.ends.clamp(max=self.iteration).index_fill_(0, rows, self.cache.steps)
        return remaining

    def finish(self) -> None:
        """Give the iterations that a sequence did not run the keys and values of its last one."""
        self.cache.rows = None
        self.cache.carry(self.context.address, self.ends.clamp(max=self.iteration))


def run_with_exit(
    model: TokenModel,
    tokens: Int[Tensor, " batch"],
    cache: KeyValueCache,
    context: ForwardContext,
    rule: StoppingRule,
) -> Settled:
    """Return the scores of the next token, and how many iterations each sequence took."""
    trunk = model.trunk
    loop, inside = trunk.body.traced_loop(context)

    def output(state: Tensor, inside: ForwardContext) -> Tensor:
        states = trunk.body.after(state[None], inside.at(context.address))
        return model.scores(trunk.finish(states)[0, :, 0])

    driver = CachedDriver(loop, trunk.body.before(trunk.embed(tokens[:, None]), context), inside, cache)
    return run_until(driver, loop, rule, output, max_steps=cache.steps)
