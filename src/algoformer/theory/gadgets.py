"""Small machines made of a head or a few feed-forward units, each with its proof.

A gadget writes into a `LayerWriter`. Matrices named query, key, value, source are linear functions of the
stream (sums and stacks of `Subspaces.read`); `into` names the subspace that the result is added to, or
several that take its parts in order.
In the proofs s_j is the stream at token j, and a head gives token j the sum over i of a_ij value_i with
a_ij = exp(score_ij) / Σ_h exp(score_hj).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.theory.constants import Constants
from algoformer.theory.writer import LayerWriter, Matrix

Score = tuple[Matrix, Matrix]
"""A (query, key) pair: it adds (query s_j)·(key s_i) to the score of token i at token j."""


def attend(
    writer: LayerWriter,
    *,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    into: str | Sequence[str],
    constants: Constants,
    note: str,
) -> None:
    """Add a head: token j gets the mean value of the tokens i at which (query s_j)·(key s_i) is largest.

    Proof. Scores are τ times that product. Where the largest product beats every smaller one by at least 1,
    exp of the difference underflows to 0 for τ > 745 (104 in float32), so the k tokens that reach the
    maximum get weight exactly 1/k each and all others exactly 0. With ±1 codes the products are whole
    numbers, so ties are exact. ∎ With one such token this is a copy, with two the mean of a pair; with
    key = place in the sequence it reads the last token, with query = code of token j - q it shifts by q.
    """
    writer.head(
        query=constants.sharpness * query, key=key, value=value, output=writer.target(into, len(value))
    )
    writer.note(note)


def sink_scores(
    *, one: Matrix, sink: Matrix, masked: Matrix, constants: Constants, log_count: Matrix | None = None
) -> list[Score]:
    """Scores C (+ log_count of the reading token) at the sink, -C' at masked tokens, 0 at all others.

    `sink` and `masked` are 1 at those tokens and 0 elsewhere, and never both 1. Beside a sink at C + log n
    a score z gets weight e^(z-C)/n: the division by n, which no linear map could do, costs nothing.
    """
    scores: list[Score] = [(one, constants.sink * sink - constants.mask * masked)]
    return scores if log_count is None else [*scores, (log_count, sink)]


def linear_attention(
    writer: LayerWriter,
    *,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    into: str | Sequence[str],
    rate: float,
    unit: float,
    common: Sequence[Score],
    constants: Constants,
    note: str,
) -> None:
    """Add two heads: token j gets rate · Σ_i value_i (query s_j)·(key s_i) over tokens i of common score 0.

    `unit` is the typical size of the products (they are divided by it before c, so that cz is small).
    Where the sink's common score is C + log n_j instead of C, the sum is divided by n_j.

    Proof. Let z = (query s_j)·(key s_i) / unit. The heads have scores ±cz + common, values ± V with
    V = rate · unit · e^C / 2c · value. The sink's own value is 0 and its key is 0 in `key`, so its weight is
    1/D, the others' e^(±cz - C)/D±, with D± = 1 + Σ_i e^(±cz_i - C) = 1 + O(e^(-C)). The two heads add up to
        rate · unit · Σ_i value_i sinh(cz_i)/c · (1 + O(e^(-C)))  =  rate · Σ_i value_i (unit z_i + O(c²)).
    Both heads see the same common scores, so all that does not depend on z cancels, and at tokens whose
    query is 0 they cancel to the last bit. Masked tokens enter with a factor e^(-C'). ∎
    The paper's second head has c = 0 instead of -c; its error is O(c).
    """
    gain = rate * unit * math.exp(constants.sink) / (2 * constants.c)
    # half of the huge gain in the values, half in the output: a small change of either then stays small, and
    # the model can be trained further; a power of two, so that the heads still cancel to the last bit
    half = 2.0 ** round(math.log2(abs(gain)) / 2)
    for sign in (1.0, -1.0):
        writer.head(
            query=torch.cat([sign * constants.c / unit * query, *(score[0] for score in common)]),
            key=torch.cat([key, *(score[1] for score in common)]),
            value=sign * gain / half * value,
            output=half * writer.target(into, len(value)),
        )
    writer.note(note)


def add_piecewise(
    writer: LayerWriter,
    *,
    source: Matrix,
    into: str | Sequence[str],
    positive: float,
    negative: float,
    closed: Matrix | None = None,
    bound: float = 0.0,
    note: str = "",
) -> None:
    """Add positive·u where u = source s is ≥ 0 and negative·u where it is < 0; nothing where `closed` is 1.

    Proof. positive·relu(u) - negative·relu(-u) is that function; for each u one of the two is 0 and the
    other is u itself, so there is no rounding. With `closed` h in {0, 1} the units hold relu(±u - B·h),
    which for h = 0 is the same and for h = 1 is 0 as long as |u| ≤ B. ∎
    (1, 1) is any linear map; (1, a) a leaky ReLU of slope a; (1, 1/a) its inverse.
    """
    gate = torch.zeros_like(source) if closed is None else bound * closed
    write = writer.target(into, len(source))
    writer.units(
        up=torch.cat([source - gate, -source - gate]),
        down=torch.cat([positive * write, -negative * write], dim=1),
    )
    if note:
        writer.note(note)


def add_linear(writer: LayerWriter, *, source: Matrix, into: str | Sequence[str], note: str = "") -> None:
    """Add source s to `into`, exactly: u = relu(u) - relu(-u)."""
    add_piecewise(writer, source=source, into=into, positive=1.0, negative=1.0, note=note)


def clear(writer: LayerWriter, *, name: str, first: int | None = None) -> None:
    """Set `name` (or its `first` coordinates) to 0: what the residual connection kept is subtracted."""
    add_linear(writer, source=-writer.space.read(name, first), into=name)


def perceptron_layer(
    writer: LayerWriter,
    *,
    weight: Float[Tensor, "after before"],
    source: Matrix,
    into: str,
    slope: float,
    held: int,
    bias: Float[Tensor, " after"] | None = None,
    where: Matrix | None = None,
    note: str,
) -> None:
    """Replace the first `held` coordinates of `into` by leaky(weight · source + bias), at every token.

    Proof. The feed-forward network is added to the stream, so the old value must be taken away: units
    [W; -W; I; -I] with weights [1, -a, -1, 1] give leaky(Wu) - old, and the stream adds old. The bias is
    multiplied by the indicator `where`, so tokens where it is 0 keep zeros as zeros. ∎
    """
    product = weight @ source
    if bias is not None and where is not None:
        product = product + bias[:, None] * where
    add_piecewise(writer, source=product, into=into, positive=1.0, negative=slope)
    if held:
        clear(writer, name=into, first=held)
    writer.note(note)


def match(
    writer: LayerWriter,
    *,
    first: Matrix,
    second: Matrix,
    one: Matrix,
    into: str,
    gain: float,
    also: Matrix | None = None,
    note: str,
) -> None:
    """Add `gain` to `into` at tokens where the one-hot rows `first` and `second` agree (and `also` is 1).

    Proof. Σ_k relu(first_k + second_k - 1) is 1 if both are 1 at the same k and 0 otherwise, exactly, as all
    are 0 or 1; with a third indicator the threshold is 2. ∎
    """
    total = first + second - one if also is None else first + second + also - 2 * one
    column: Float[Tensor, "width 1"] = writer.space.write(into, 1)
    writer.units(up=total, down=gain * column.expand(-1, len(total)))
    writer.note(note)
