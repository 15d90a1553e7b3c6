"""Theorem 3.1: regression on a fixed representation, y = A Φ*(x).

Pre-transformer: L layers compute Φ*(x); one more joins each label to its x. Loop: the lemma. Post: one head
moves A_k Φ*(x_test) to the label's place. Tokens are x_1, y_1, ..., x_n, y_n, x_test and an empty one.
"""

from __future__ import annotations

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, position_table, row_map
from algoformer.theory.checks import check_count, check_step_size
from algoformer.theory.codes import quasi_orthogonal
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.gadgets import add_linear, attend
from algoformer.theory.gradient_descent import descent_layer
from algoformer.theory.network import Network, write_network
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter


def representation(
    *,
    network: Network,
    examples: int,
    step_size: float,
    out: int = 1,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Gradient descent on (Φ*(x), y): pre (L+1) layers × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples, always with the mean over the
    examples that are there.

    Args:
        network: Φ*.
        examples: N, the most examples a prompt may show before its question.
        step_size: η; converges below 2/λ_max of the mean of Φ* Φ*ᵀ (see `check_converges`).
        out: numbers in y.
        constants: the free parameters.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    check_count("examples", examples)
    check_count("out", out)
    check_step_size(step_size)
    constants.check(dtype)
    if out > network.dim:
        raise ValueError(f"out must be at most dim={network.dim}, so that a label fits a row; got {out}")
    space = pair_space(dim=network.dim, out=out, broadest=network.broadest, examples=examples)
    features = space.read("phi", network.out) if network.layers else space.read("x")
    mlp = write_network(space, network, source=space.read("x"), into="phi", where=space.read("feature"))
    sink = space.read("one") - space.read("feature") - space.read("label")
    loop = descent_layer(
        space,
        features=features,
        sink=sink,
        masked=space.read("one") - sink - space.read("known"),
        step_size=step_size,
        examples=examples,
        constants=constants,
    )
    blueprint = Blueprint(
        space=space,
        pre={"pre": [*mlp, join_layer(space, constants)]},
        loop=[loop],
        post={"post": [answer_layer(space, constants)]},
        rows=[
            row_map(space, dim=network.dim, into={"x": network.dim}, feature=1.0),
            row_map(space, dim=network.dim, into={"y": out}, label=1.0),
        ],
        positions=pair_positions(space, examples),
        answer=space.read("y"),
        blanks=(0, 1),
    )
    return blueprint.build(steps=steps, dtype=dtype)


def gradient_descent(
    *,
    dim: int,
    examples: int,
    step_size: float,
    out: int = 1,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Gradient descent for linear regression on prompts of pairs: Theorem 3.1 with Φ*(x) = x.

    >>> from algoformer.tasks import LinearRegression
    >>> task = LinearRegression(dim=3, points=9)
    >>> prompt = task.sample(2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> gradient_descent(dim=3, examples=8, step_size=0.3)(prompt.prefix()).final.shape
    torch.Size([2, 1, 1])
    """
    return representation(
        network=Network(dim=dim),
        examples=examples,
        step_size=step_size,
        out=out,
        constants=constants,
        steps=steps,
        dtype=dtype,
    )


def pair_space(*, dim: int, out: int, broadest: int, examples: int) -> Subspaces:
    """Return the coordinates of a prompt of pairs."""
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "y": (out, "y at y tokens; after the post-transformer the answer at the question"),
            "phi": (broadest, "Φ*(x) at x tokens"),
            "residual": (out, "A_k Φ*(x) - y at examples, A_k Φ*(x) at the question"),
            **pair_marks(examples),
        }
    )


def pair_marks(examples: int) -> dict[str, tuple[int, str]]:
    """Return the coordinates that say what a token of a prompt of pairs is, and where it stands."""
    return {
        "known": (1, "1 at the x tokens of examples"),
        "log_count": (1, "log of the number of examples, at every token"),
        "feature": (1, "1 at x tokens"),
        "label": (1, "1 at y tokens"),
        "one": (1, "1 at every token"),
        "place": (1, "0, 1, 2, ... along the sequence"),
        "log_before": (1, "log of the number of samples before this one"),
        "code": (quasi_orthogonal(examples + 1).shape[1], "±1 code of the sample"),
    }


def pair_positions(space: Subspaces, examples: int) -> torch.Tensor:
    """Codes and counts for `examples` pairs, a question and the empty token after it."""
    places = torch.arange(2 * examples + 2)
    samples = places // 2
    return position_table(
        space,
        {
            "one": torch.ones(len(places), 1),
            "place": places[:, None],
            "log_before": samples.clamp(min=1).double().log()[:, None],
            "code": quasi_orthogonal(examples + 1)[samples],
        },
    )


def join_layer(space: Subspaces, constants: Constants) -> LayerWriter:
    """Bring each label to its x: residual ← -y and known ← 1 at examples; log_count ← log n everywhere.

    Proof. Head 1: the tokens of sample i share a code, so each of them gets the mean of the two values
    (0 from x, -2y from y), which is -y; likewise 1 from label's 2. The question's partner is the empty token,
    so it gets 0. The y tokens got -y and 1 as well; the feed-forward network adds y and -label there, which
    leaves exact zeros (at x tokens both are 0). Head 2 reads the last token, whose log_before is log n. ∎
    """
    writer = LayerWriter(space)
    code = space.read("code")
    attend(
        writer,
        query=code,
        key=code,
        value=torch.cat([-2 * space.read("y"), 2 * space.read("label")]),
        into=("residual", "known"),
        constants=constants,
        note="head 1: residual ← -y_i and known ← 1 at both tokens of example i",
    )
    attend(
        writer,
        query=space.read("one"),
        key=space.read("place"),
        value=space.read("log_before"),
        into="log_count",
        constants=constants,
        note="head 2: log_count ← log n, read at the last token",
    )
    add_linear(writer, source=space.read("y"), into="residual", note="feed-forward: residual ← 0 at y tokens")
    add_linear(writer, source=-space.read("label"), into="known", note="feed-forward: known ← 0 at y tokens")
    return writer


def answer_layer(space: Subspaces, constants: Constants) -> LayerWriter:
    """Put A_k Φ*(x_test) into the y coordinates of the question and of the empty token after it.

    Proof. The two share a code, and only the question has a residual: the mean of 2·residual and 0. ∎
    """
    writer = LayerWriter(space)
    attend(
        writer,
        query=space.read("code"),
        key=space.read("code"),
        value=2 * space.read("residual"),
        into="y",
        constants=constants,
        note="head 1: y ← residual at the question and at the empty token",
    )
    return writer
