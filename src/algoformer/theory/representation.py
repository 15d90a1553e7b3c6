"""Theorem 3.1: regression on a fixed representation, y = A Φ*(x).

Pre-transformer: L layers compute Φ*(x); one more joins each label to its x. Loop: the lemma. Post: one head
moves A_k Φ*(x_test) to the label's place. Tokens are x_1, y_1, ..., x_n, y_n, x_test and an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, pair_rows
from algoformer.theory.checks import check_pairs
from algoformer.theory.gradient_descent import descent_layer
from algoformer.theory.network import Network, write_network
from algoformer.theory.subspace import Part, Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter, Matrix


def representation(
    *, network: Network, examples: int, step_size: float, out: int = 1, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build gradient descent on (Φ*(x), y): pre (L+1) layers × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples, always with the mean over the
    examples that are there.

    Args:
        network: Φ*.
        examples: N, the most examples a prompt may show before its question.
        step_size: η; converges below 2/λ_max of the mean of Φ* Φ*ᵀ (see `check_converges`).
        out: the numbers in y.
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).
    """
    own: dict[str, Part] = {
        "phi": (network.broadest, "Φ*(x) at x tokens"),
        "residual": (out, "A_k Φ*(x) - y at examples, A_k Φ*(x) at the question"),
    }
    space = pair_space(own, dim=network.dim, out=out, examples=examples)
    layer = layers_in(space, options)
    x, feature = space.read("x"), space.read("feature")
    mlp = write_network(layer, network, source=x, into="phi", where=feature)
    features = space.read("phi", network.out) if network.layers else x
    loop = pair_descent(layer(), features=features, step_size=step_size, examples=examples)
    return pair_blueprint(layer, [*mlp, join_layer(layer())], loop).build(**options)


def gradient_descent(
    *, dim: int, examples: int, step_size: float, out: int = 1, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build gradient descent for linear regression on prompts of pairs: Theorem 3.1 with Φ*(x) = x.

    The arguments are those of `representation`, and `dim` is the numbers in x.

    >>> from algoformer.tasks import LinearRegression
    >>> task = LinearRegression(dim=3, points=9)
    >>> prompt = task.sample(2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> gradient_descent(dim=3, examples=8, step_size=0.3)(prompt.prefix()).final.shape
    torch.Size([2, 1, 1])
    """
    return representation(
        network=Network(dim=dim), examples=examples, step_size=step_size, out=out, **options
    )


def pair_space(own: Mapping[str, Part], *, dim: int, out: int, examples: int) -> Subspaces:
    """Return the coordinates of a prompt of pairs, and those of the method's `own`."""
    check_pairs(dim=dim, examples=examples, out=out)
    places = torch.arange(2 * examples + 2)
    samples = places // 2
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "y": (out, "y at y tokens; after the post-transformer the answer at the question"),
            **own,
            "known": (1, "1 at the x tokens of examples"),
            "log_count": (1, "log of the number of examples, at every token"),
            "feature": (1, "1 at x tokens"),
            "label": (1, "1 at y tokens"),
            "one": (torch.ones(len(places)), "1 at every token"),
            "place": (places, "0, 1, 2, ... along the sequence"),
            "log_before": (
                samples.clamp(min=1).double().log(),
                "log of the number of samples before this one",
            ),
            "code": (quasi_orthogonal(examples + 1)[samples], "±1 code of the sample"),
        }
    )


def pair_descent(
    writer: LayerWriter, *, features: Matrix, step_size: float, examples: int, into: str = "residual"
) -> LayerWriter:
    """Write the gradient step of a prompt of pairs: the examples are known, the empty token is the sink."""
    tokens = writer.read("feature") + writer.read("label")
    return descent_layer(
        writer,
        features=features,
        sink=writer.read("one") - tokens,
        masked=tokens - writer.read("known"),
        step_size=step_size,
        examples=examples,
        into=into,
    )


def pair_blueprint(
    layer: Callable[[], LayerWriter], pre: Sequence[LayerWriter], loop: LayerWriter
) -> Blueprint:
    """Return the three modules of Theorem 3.1 around a looped layer.

    The post-transformer puts A_k Φ*(x_test) into y at the question and at the empty token after it.
    Proof. The two share a code, and only the question has a residual: the mean of 2·residual and 0. ∎
    """
    note = "head 1: y ← residual at the question and at the empty token"
    value = 2 * loop.read("residual")
    post = layer().attend(query="code", key="code", value=value, into="y", note=note)
    return Blueprint(
        space=loop.space,
        modules={"pre": pre, "loop": [loop], "post": [post]},
        rows=pair_rows(loop.space),
        answer=loop.read("y"),
        blanks=(0, 1),
    )


def join_layer(writer: LayerWriter) -> LayerWriter:
    """Bring each label to its x: residual ← -y and known ← 1 at examples; log_count ← log n everywhere.

    Proof. Head 1: the tokens of sample i share a code, so each of them gets the mean of the two values
    (0 from x, -2y from y), which is -y; likewise 1 from label's 2. The question's partner is the empty token,
    so it gets 0. The y tokens got -y and 1 as well; the feed-forward network adds y and -label there, which
    leaves exact zeros (at x tokens both are 0). Head 2 reads the last token, whose log_before is log n. ∎
    """
    writer.attend(
        query="code",
        key="code",
        value=(-2 * writer.read("y"), 2 * writer.read("label")),
        into=("residual", "known"),
        note="head 1: residual ← -y_i and known ← 1 at both tokens of example i",
    )
    note = "head 2: log_count ← log n, read at the last token"
    writer.attend(query="one", key="place", value="log_before", into="log_count", note=note)
    writer.add("y", "residual", note="feed-forward: residual ← 0 at y tokens")
    return writer.add(-writer.read("label"), "known", note="feed-forward: known ← 0 at y tokens")
