"""What the tokens of a stream see of each other, where that is not simply all or all before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.nn import Memory, Sight


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """Masks, positions and memories for the layers of a program.

    Attributes:
        places: where each token stands, for learned positions; None means 0, 1, 2, ...
        before: the mask of modules whose attention is causal; None means that a token sees what is before it.
        around: the mask of modules with full attention; None means that it sees everything.
        memory: the memory of the layer at an address; None means that nothing is remembered.
    """

    places: Int[Tensor, "#batch token"] | None = None
    before: Bool[Tensor, "#batch 1 #token key"] | None = None
    around: Bool[Tensor, "#batch 1 #token key"] | None = None
    memory: Callable[[str], Memory] | None = None

    def at(self, address: str, *, causal: bool) -> Sight:
        """What the layer at `address` needs."""
        return Sight(
            mask=self.before if causal else self.around,
            memory=None if self.memory is None else self.memory(address),
        )

    def stacked(self, times: int) -> Visibility:
        """The same for `times` batches in one."""
        if times == 1:
            return self
        if self.memory is not None:
            raise ValueError(f"a memory holds one batch, not {times}; read one iteration out (window=1)")

        def repeated(values: Tensor | None) -> Tensor | None:
            if values is None or values.shape[0] == 1:
                return values
            return values.repeat(times, *(1 for _ in values.shape[1:]))

        return Visibility(
            places=repeated(self.places), before=repeated(self.before), around=repeated(self.around)
        )
