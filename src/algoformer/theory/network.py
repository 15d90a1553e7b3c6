"""The fixed representation Φ* as weights of feed-forward layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import leaky_relu

from algoformer.theory.checks import check_counts
from algoformer.theory.writer import LayerWriter, Matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Φ(x): for each layer, weight · x (+ bias), then a leaky ReLU. Without layers it is the identity.

    Attributes:
        dim: the number of coordinates of an input.
        weights: one matrix per layer, of shape (outputs, inputs).
        biases: one vector per layer, or None.
        slope: the slope of the leaky ReLU below zero; 0 is a ReLU.
    """

    dim: int
    weights: tuple[Float[Tensor, "_ _"], ...] = ()
    biases: tuple[Float[Tensor, " _"], ...] | None = None
    slope: float = 0.01

    def __post_init__(self) -> None:
        check_counts(dim=self.dim)
        if self.biases is not None and len(self.biases) != len(self.weights):
            raise ValueError(f"{len(self.weights)} weights need as many biases, got {len(self.biases)}")
        before = self.dim
        for number, weight in enumerate(self.weights):
            if weight.shape[1] != before:
                raise ValueError(
                    f"weight {number} must have {before} columns, as layer {number} reads {before} numbers; "
                    f"got {weight.shape[1]}"
                )
            before = len(weight)

    @property
    def layers(self) -> int:
        """The number of layers, L in the paper."""
        return len(self.weights)

    @property
    def out(self) -> int:
        """The number of features."""
        return len(self.weights[-1]) if self.weights else self.dim

    @property
    def broadest(self) -> int:
        """The most coordinates that any layer writes; 0 without layers."""
        return max((len(weight) for weight in self.weights), default=0)

    def __call__(self, inputs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch feature"]:
        """Return Φ of every vector, computed the ordinary way."""
        for number, weight in enumerate(self.weights):
            inputs = inputs @ weight.to(inputs).mT
            if self.biases is not None:
                inputs = inputs + self.biases[number].to(inputs)
            inputs = leaky_relu(inputs, negative_slope=self.slope)
        return inputs


@runtime_checkable
class Representation(Protocol):
    """A fixed network that can show its weights, such as the Φ* of a task."""

    @property
    def in_dim(self) -> int:
        """The number of coordinates of an input."""

    @property
    def slope(self) -> float:
        """The slope of the leaky ReLU below zero."""

    def weights(self) -> tuple[Float[Tensor, "_ _"], ...]:
        """Return one matrix per layer, for inputs that are rows."""


def network_of(phi: Representation) -> Network:
    """Return a task's Φ* in the form that builders take."""
    weights = tuple(weight.mT.contiguous() for weight in phi.weights())
    return Network(dim=phi.in_dim, weights=weights, slope=phi.slope)


def write_network(
    layer: Callable[[], LayerWriter], network: Network, *, source: Matrix, into: str, where: Matrix
) -> Sequence[LayerWriter]:
    """Write L layers without heads that turn `source` into Φ(source) in subspace `into`, at every token.

    Proof. The feed-forward network is added to the stream, so the old value must be taken away: units
    [W; -W; I; -I] with weights [1, -a, -1, 1] give leaky(Wu) - old, and the stream adds old. The bias is
    multiplied by the indicator `where`, so tokens where it is 0 keep zeros as zeros. ∎
    """
    writers = []
    for number, weight in enumerate(network.weights):
        writer = layer()
        product = weight.double() @ source
        if network.biases is not None:
            product = product + network.biases[number].double()[:, None] * where
        writer.add(product, into, negative=network.slope)
        if number:
            writer.clear(into, len(network.weights[number - 1]))
        held = into if number else "input"
        writers.append(writer.note(f"feed-forward: {into} ← leaky(W_{number + 1} · {held}), layer of Φ*"))
        source = writer.space.read(into, len(weight))
    return writers
