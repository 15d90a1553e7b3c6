"""The weight language: a layer is written as gadgets, each a head, two heads or a few feed-forward units.

Queries, keys, values and sources are linear functions of the residual stream: a subspace's name, a sum of
`Subspaces.read` matrices, or a sequence of these, one stacked below the other. `into` names the subspace that
a result is added to, or several that take its parts in order.
In the proofs s_j is the stream at token j, and a head gives token j the sum over i of a_ij value_i with
a_ij = exp(score_ij) / Σ_h exp(score_hj).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.nn import Layer
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.subspace import Subspaces

Matrix = Float[Tensor, "_ width"]
"""A linear function of the stream with one output per row: sums and stacks of `Subspaces.read`."""

Source: TypeAlias = Matrix | str | Sequence["Matrix | str"]
"""A linear function of the stream: a matrix, a subspace's name, or a stack of both."""

Score = tuple[Matrix, Matrix]
"""A (query, key) pair: it adds (query s_j)·(key s_i) to the score of token i at token j."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A head: score(j reads i) = (query s_j)·(key s_i); it adds output · value s_i, weighted, to s_j."""

    query: Float[Tensor, "score width"]
    key: Float[Tensor, "score width"]
    value: Float[Tensor, "value width"]
    output: Float[Tensor, "width value"]


@dataclass
class LayerWriter:
    """A layer of Equation 1 that is being written in terms of named subspaces; each gadget returns it.

    Layers have no biases, as in Equation 1; constants come from a coordinate that is 1 at every token.

    Attributes:
        space: the names of the stream's coordinates.
        constants: the free parameters of the gadgets.
        heads: the heads written so far.
        up: with `down`, the feed-forward units written so far, which add down · relu(up s) to s.
        notes: one line of text for each gadget.
    """

    space: Subspaces
    constants: Constants = DOUBLE
    heads: list[Head] = field(default_factory=list)
    up: list[Float[Tensor, "_ width"]] = field(default_factory=list)
    down: list[Float[Tensor, "width _"]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def read(self, source: Source) -> Matrix:
        """Return the matrix of a linear function of the stream."""
        if isinstance(source, str):
            return self.space.read(source)
        return source if isinstance(source, Tensor) else torch.cat([self.read(part) for part in source])

    def units(self, *, up: Matrix, down: Float[Tensor, "width hidden"], note: str = "") -> LayerWriter:
        """Add feed-forward units."""
        self.up.append(up)
        self.down.append(down)
        return self.note(note)

    def note(self, text: str) -> LayerWriter:
        """Describe in one line what was just written; an empty text is left out."""
        self.notes += [text] if text else []
        return self

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

    def attend(
        self, *, query: Source, key: Source, value: Source, into: str | Sequence[str], note: str = ""
    ) -> LayerWriter:
        """Add a head: token j gets the mean value of the tokens i at which (query s_j)·(key s_i) is largest.

        Proof. Scores are τ times that product. Where the largest product beats every smaller one by at least
        1, exp of the difference underflows to 0 for τ > 745 (104 in float32), so the k tokens that reach the
        maximum get weight exactly 1/k each and all others exactly 0. With ±1 codes the products are whole
        numbers, so ties are exact. ∎ With one such token this is a copy, with two the mean of a pair; with
        key = place in the sequence it reads the last token, with query = code of token j - q it shifts by q.
        """
        values, queries = self.read(value), self.constants.sharpness * self.read(query)
        output = self.target(into, len(values))
        self.heads.append(Head(query=queries, key=self.read(key), value=values, output=output))
        return self.note(note)

    def sink_scores(
        self, *, sink: Source, masked: Source | None = None, log_count: Source | None = None
    ) -> list[Score]:
        """Return the scores C (+ log_count of the reading token) at the sink, -C' at masked tokens, else 0.

        `sink` and `masked` are 1 at those tokens and 0 elsewhere, and never both 1. Beside a sink at
        C + log n a score z gets weight e^(z-C)/n: a division by n, which no linear map could do, for free.
        """
        key = self.constants.sink * self.read(sink)
        if masked is not None:
            key = key - self.constants.mask * self.read(masked)
        scores: list[Score] = [(self.read("one"), key)]
        return scores if log_count is None else [*scores, (self.read(log_count), self.read(sink))]

    def linear_attention(
        self,
        *,
        query: Source,
        key: Source,
        value: Source,
        into: str | Sequence[str],
        common: Sequence[Score],
        rate: float = 1.0,
        unit: float = 1.0,
        note: str = "",
    ) -> LayerWriter:
        """Add two heads: token j gets rate · Σ_i value_i (query s_j)·(key s_i) over the i of common score 0.

        `unit` is the typical size of the products (they are divided by it before c, so that cz is small).
        Where the sink's common score is C + log n_j instead of C, the sum is divided by n_j.

        Proof. Let z = (query s_j)·(key s_i) / unit. The heads have scores ±cz + common, values ± V with
        V = rate · unit · e^C / 2c · value. The sink's own value is 0 and its key is 0 in `key`, so its weight
        is 1/D, the others' e^(±cz - C)/D±, with D± = 1 + Σ_i e^(±cz_i - C) = 1 + O(e^(-C)). The sum is
          rate · unit · Σ_i value_i sinh(cz_i)/c · (1 + O(e^(-C)))  =  rate · Σ_i value_i (unit z_i + O(c²)).
        Both heads see the same common scores, so all that does not depend on z cancels, and at tokens whose
        query is 0 they cancel to the last bit. Masked tokens enter with a factor e^(-C'). ∎
        The paper's second head has c = 0 instead of -c; its error is O(c).
        """
        values = self.read(value)
        gain = rate * unit * math.exp(self.constants.sink) / (2 * self.constants.c)
        # half of the huge gain in the values, half in the output: a small change of either then stays small,
        # and the model can be trained further; a power of two, so that the heads cancel to the last bit
        half = 2.0 ** round(math.log2(abs(gain)) / 2)
        output = half * self.target(into, len(values))
        keys = torch.cat([self.read(key), *(score[1] for score in common)])
        for sign in (1.0, -1.0):
            scaled = sign * self.constants.c / unit * self.read(query)
            queries = torch.cat([scaled, *(score[0] for score in common)])
            self.heads.append(Head(query=queries, key=keys, value=sign * gain / half * values, output=output))
        return self.note(note)

    def add(
        self,
        source: Source,
        into: str | Sequence[str],
        *,
        positive: float = 1.0,
        negative: float = 1.0,
        closed: Matrix | None = None,
        bound: float | None = None,
        note: str = "",
    ) -> LayerWriter:
        """Add positive·u where u = source s is ≥ 0 and negative·u where it is < 0; 0 where `closed` is 1.

        Proof. positive·relu(u) - negative·relu(-u) is that function; for each u one of the two is 0 and the
        other is u itself, so there is no rounding. With `closed` h in {0, 1} the units hold relu(±u - B·h),
        which for h = 0 is the same and for h = 1 is 0 as long as |u| ≤ B; B is `bound`, by default that of
        the constants. ∎ (1, 1) is any linear map; (1, a) a leaky ReLU of slope a; (1, 1/a) its inverse.
        """
        u = self.read(source)
        bound = self.constants.bound if bound is None else bound
        gate = torch.zeros_like(u) if closed is None else bound * closed
        write = self.target(into, len(u))
        return self.units(
            up=torch.cat([u - gate, -u - gate]),
            down=torch.cat([positive * write, -negative * write], dim=1),
            note=note,
        )

    def clear(self, name: str, first: int | None = None) -> LayerWriter:
        """Set `name` (or its `first` coordinates) to 0: subtract what the residual connection keeps."""
        return self.add(-self.space.read(name, first), name)

    def match(
        self, first: str, second: str, into: str, *, gain: float, also: str | None = None, note: str = ""
    ) -> LayerWriter:
        """Add `gain` to `into` at tokens where the one-hot `first` and `second` agree (and `also` is 1).

        Proof. Σ_k relu(first_k + second_k - 1) is 1 if both are 1 at the same k and 0 otherwise, exactly, as
        all are 0 or 1; with a third indicator the threshold is 2. ∎
        """
        total = self.read(first) + self.read(second) - self.read("one")
        if also is not None:
            total = total + self.read(also) - self.read("one")
        down = gain * self.space.write(into, 1).expand(-1, len(total))
        return self.units(up=total, down=down, note=note)

    @property
    def head_width(self) -> int:
        """The widest query or value of any head."""
        return max((max(len(head.query), len(head.value)) for head in self.heads), default=1)

    @property
    def hidden(self) -> int:
        """The number of feed-forward units."""
        return sum(map(len, self.up))

    @torch.no_grad()
    def load(self, layer: Layer) -> None:
        """Set all weights of `layer`, those not written to zero; refuse a layer that is too small."""
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
        if self.up:
            network.up.weight[: self.hidden] = torch.cat(self.up)
            network.down.weight[:, : self.hidden] = torch.cat(self.down, dim=1)


def layer_sizes(writers: Sequence[LayerWriter]) -> dict[str, int]:
    """Return the heads, head width and hidden units that a module needs to hold all of `writers`."""
    return {
        "heads": max(1, *(len(writer.heads) for writer in writers)),
        "head_width": max(writer.head_width for writer in writers),
        "hidden": max(1, *(writer.hidden for writer in writers)),
    }
