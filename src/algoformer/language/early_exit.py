"""Early exit while decoding: stop iterating on a token when its stopping rule says so."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.language.cache import KeyValueCache
from algoformer.language.token_model import TokenModel
from algoformer.model.driver import ForwardContext, LoopDriver, Settled, run_until
from algoformer.model.parts import LoopModule
from algoformer.model.stopping import StoppingRule


class CachedDriver(LoopDriver):
    """Runs a loop on one token of each sequence, with a key-value cache.

    Later tokens also attend to the iterations that were left out here: there they find the keys and values
    of the iteration at which this token stopped. Sequences that have stopped stay in the batch, and the
    cache keeps what they had, so that a result does not depend on the composition of the batch.
    """

    def __init__(
        self, loop: LoopModule, entry: Tensor, context: ForwardContext, cache: KeyValueCache
    ) -> None:
        signal = None if loop.settings.step_signal == "none" else loop.signal
        super().__init__(loop.step, loop.initial_state(entry), entry, context, signal)
        self.cache = cache

    def advance(self, *, final: bool = False) -> Tensor:
        """Run one iteration."""
        if self.cache.held is not None:
            self.cache.carry(self.context.address, self.iteration + 1)
        return super().advance(final=final)

    def leave(self, running: Bool[Tensor, " batch"]) -> Int[Tensor, " sequence"] | None:
        """Hold the cache of the sequences that have stopped."""
        self.cache.held = ~running
        return None

    def finish(self) -> None:
        """Give the iterations that no sequence ran the keys and values of the last one."""
        for iteration in range(self.iteration + 1, self.cache.steps + 1):
            self.cache.carry(self.context.address, iteration)
        self.cache.held = None


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
    driver = CachedDriver(loop, trunk.body.before(trunk.embed(tokens[:, None]), context), inside, cache)

    def read(driver: LoopDriver) -> Tensor:
        return model.scores(
            trunk.finish(trunk.body.after(loop.visible(driver.state)[None], context))[0, :, 0]
        )

    return run_until(driver, rule, read, max_steps=cache.steps)
