"""One layer being written: heads and feed-forward units are collected, then loaded into a `Layer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.nn import Layer
from algoformer.theory.subspace import Subspaces

Matrix = Float[Tensor, "_ width"]
"""A linear function of the stream, one output a row: sums and stacks of `Subspaces.read`."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """score(j reads i) = (query s_j)·(key s_i); adds output · value s_i, weighted, to s_j."""

    query: Float[Tensor, "score width"]
    key: Float[Tensor, "score width"]
    value: Float[Tensor, "value width"]
    output: Float[Tensor, "width value"]


@dataclass(frozen=True, kw_only=True)
class Units:
    """Adds down · relu(up s) to s."""

    up: Float[Tensor, "hidden width"]
    down: Float[Tensor, "width hidden"]


@dataclass
class LayerWriter:
    """Collects what one layer of Equation 1 shall do, in terms of named subspaces.

    Layers have no biases, as in Equation 1; constants come from a coordinate that is 1 at every token.
    Gadgets call `head` and `units`; `note` lines say in words what was written.
    """

    space: Subspaces
    heads: list[Head] = field(default_factory=list)
    groups: list[Units] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def head(
        self, *, query: Matrix, key: Matrix, value: Matrix, output: Float[Tensor, "width value"]
    ) -> None:
        """Add a head; `output` says where the value goes (`space.write(name)`)."""
        self.heads.append(Head(query=query, key=key, value=value, output=output))

    def units(self, *, up: Matrix, down: Float[Tensor, "width hidden"]) -> None:
        """Add feed-forward units."""
        self.groups.append(Units(up=up, down=down))

    def target(self, into: str | Sequence[str], count: int) -> Float[Tensor, "width part"]:
        """Return the matrix that writes `count` numbers into one subspace, or into several one after another.

        One subspace may be larger than `count`: its first coordinates are written. Several must fit exactly.
        """
        if isinstance(into, str):
            return self.space.write(into, count)
        matrix = torch.cat([self.space.write(name) for name in into], dim=1)
        if matrix.shape[1] != count:
            raise ValueError(f"{count} numbers do not fit {', '.join(into)}, which hold {matrix.shape[1]}")
        return matrix

    def note(self, text: str) -> None:
        """Say in one line what was just written."""
        self.notes.append(text)

    @property
    def head_width(self) -> int:
        """The widest query or value of any head."""
        return max((max(len(head.query), len(head.value)) for head in self.heads), default=1)

    @property
    def hidden(self) -> int:
        """The number of feed-forward units."""
        return sum(len(group.up) for group in self.groups)

    @torch.no_grad()
    def load(self, layer: Layer) -> None:
        """Set all weights of `layer`; what was not written is zero.

        Raises:
            ValueError: the layer has too few heads or units, or they are too narrow.
        """
        attention, network = layer.attention, layer.feedforward
        for name, need, has in (
            ("heads", len(self.heads), attention.heads),
            ("head_width", self.head_width, attention.head_width),
            ("hidden", self.hidden, network.up.out_features),
            ("width", self.space.width, network.up.in_features),
        ):
            if need > has or (name == "width" and need != has):
                raise ValueError(f"this layer needs {name}={need}, but it was built with {name}={has}")
        for parameter in layer.parameters():
            parameter.zero_()
        projections = attention.qkv.weight.view(3, attention.heads, attention.head_width, -1)
        outputs = attention.output.weight.view(-1, attention.heads, attention.head_width)
        for number, head in enumerate(self.heads):
            for projection, matrix in zip(projections, (head.query, head.key, head.value), strict=True):
                projection[number, : len(matrix)] = matrix
            outputs[:, number, : len(head.value)] = head.output
        start = 0
        for group in self.groups:
            stop = start + len(group.up)
            network.up.weight[start:stop] = group.up
            network.down.weight[:, start:stop] = group.down
            start = stop


def layer_sizes(writers: Sequence[LayerWriter]) -> dict[str, int]:
    """Return the heads, head width and hidden units that a module needs to hold all of `writers`."""
    return {
        "heads": max(1, *(len(writer.heads) for writer in writers)),
        "head_width": max(writer.head_width for writer in writers),
        "hidden": max(1, *(writer.hidden for writer in writers)),
    }
