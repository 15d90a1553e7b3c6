"""Theorem 4.1: Newton's method for linear regression, and its lemma, one step in one layer of two heads.

With S = Σ_i x_i x_iᵀ the method is M_0 = αS, M_{k+1} = 2M_k - M_k S M_k, w_k = M_k Σ_i y_i x_i. The stream
never holds M_k: every x token holds its image M_k x, and

    M_{k+1} x_j  =  2 M_k x_j - Σ_i (M_k x_i) (x_i · M_k x_j)

needs nothing else. The sum has values M_k x_i and weights x_i · M_k x_j: what `linear_attention` computes.
Tokens are x_1, y_1, ..., x_N, y_N, x_test and an empty one, which is the sink.
"""

from __future__ import annotations

from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, pair_rows
from algoformer.theory.checks import check_pairs, check_positive_alpha, product_unit
from algoformer.theory.subspace import Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter, Score


def newton(
    *, dim: int, examples: int, alpha: float, out: int = 1, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build Newton's method, one step per pass: pre 1 layer × 2 heads, loop 1 × 2, post 2 × 2.

    It answers prompts with exactly `examples` examples before their question, because one layer of two
    heads has no way to find out which x is the question; `padded` brings shorter ones to that length.
    `image` in the state `loop[k]` is M_k x at every x token.

    Args:
        dim: the numbers in x.
        examples: N.
        alpha: α; the method converges strictly between 0 and 2/λ_max(S)² (see `check_alpha`).
        out: the numbers in y.
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).

    >>> from algoformer.tasks import LinearRegression
    >>> prompt = LinearRegression(dim=3, points=9).sample(
    ...     2, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ... )
    >>> error = newton(dim=3, examples=8, alpha=1 / 30**2)(prompt.prefix()).final - prompt.targets[:, -1:]
    >>> bool(error.abs().max() < 1e-8)
    True
    """
    check_pairs(dim=dim, examples=examples, out=out)
    check_positive_alpha(alpha)
    space = newton_space(dim=dim, out=out, examples=examples)
    layer = layers_in(space, options)
    return Blueprint(
        space=space,
        modules={
            "pre": [start_layer(layer(), alpha=alpha, examples=examples)],
            "loop": [step_layer(layer())],
            "post": [target_layer(layer()), answer_layer(layer())],
        },
        rows=pair_rows(space),
        answer=space.read("answer"),
        blanks=(0, 1),
        exact_context=True,
    ).build(**options)


def newton_space(*, dim: int, out: int, examples: int) -> Subspaces:
    """Return the coordinates of the stream."""
    places, last = torch.arange(2 * examples + 2), 2 * examples + 1
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "y": (out, "y at y tokens"),
            "image": (dim, "M_k x at x tokens"),
            "product": (dim, "M_k S M_k x, between attention and feed-forward"),
            "target": (out, "y_i at both tokens of example i, from post/0 on"),
            "answer": (out, "w_k · x at x tokens, after the post-transformer"),
            "known": ((places % 2 == 0) & (places < last - 1), "1 at the x tokens of examples"),
            "feature": (1, "1 at x tokens"),
            "label": (1, "1 at y tokens"),
            "blank": (places == last, "1 at the empty token, the sink"),
            "one": (torch.ones(len(places)), "1 at every token"),
            "code": (quasi_orthogonal(examples + 1)[places // 2], "±1 code of the sample"),
        }
    )


def examples_only(writer: LayerWriter) -> list[Score]:
    """Return the scores C at the empty token, 0 at x_1, ..., x_N, -C' at the y tokens and at the question.

    The paper prints keys and values that are 0 at x_test though x_test stands in the same coordinates as
    the x_i: no linear map does that. A masked key does.
    """
    masked = writer.read("feature") + writer.read("label") - writer.read("known")
    return writer.sink_scores(sink="blank", masked=masked)


def start_layer(writer: LayerWriter, *, alpha: float, examples: int) -> LayerWriter:
    """Write image ← M_0 x_j = α Σ_i x_i (x_i · x_j); products are divided by `product_unit` before c."""
    return writer.linear_attention(
        query="x",
        key="x",
        value="x",
        into="image",
        rate=alpha,
        unit=product_unit(examples=examples, dim=writer.space.size("x")),
        common=examples_only(writer),
        note="heads ±c: image_j ← α Σ_i x_i (x_i · x_j) = M_0 x_j",
    )


def step_layer(writer: LayerWriter) -> LayerWriter:
    """Write the lemma: image ← 2 image - M_k S image, one step of Newton's method at every x token.

    Proof. The heads put M_k S M_k x_j = Σ_i (M_k x_i)(x_i · M_k x_j) into `product`, at the question too. The
    residual connection keeps image once; the feed-forward network adds image - product, exactly, and
    clears product for the next pass. At y tokens and at the sink image is 0, so query and sum are 0; the
    gate keeps rounding, should there be any, from doubling there at every pass. ∎
    No division by N here: x_i · M_k x_j tends to an entry of a projection and stays near 1.
    """
    writer.linear_attention(
        query="image",
        key="x",
        value="image",
        into="product",
        common=examples_only(writer),
        note="heads ±c: product_j ← Σ_i image_i (x_i · image_j) = M_k S M_k x_j",
    )
    note = "feed-forward: image ← 2 image - product at x tokens, product ← 0"
    change = writer.read("image") - writer.read("product")
    closed = writer.read("label") + writer.read("blank")
    return writer.add(change, "image", closed=closed, note=note).clear("product")


def target_layer(writer: LayerWriter) -> LayerWriter:
    """Write target ← y_i at both tokens of example i, 0 at the question and at the empty token.

    Proof. The two tokens of a sample share a code, so each gets the mean of 2y and 0. The question shares
    its code with the empty token; both have y = 0, so the sink's value in the next layer is exactly 0. ∎
    """
    note = "head 1: target ← y_i at both tokens of example i"
    return writer.attend(query="code", key="code", value=2 * writer.read("y"), into="target", note=note)


def answer_layer(writer: LayerWriter) -> LayerWriter:
    """Write answer ← Σ_i y_i (M_k x_i · x_j) = w_k · x_j, as M_k is symmetric; it is read at the question."""
    return writer.linear_attention(
        query="x",
        key="image",
        value="target",
        into="answer",
        common=examples_only(writer),
        note="heads ±c: answer_j ← Σ_i y_i (image_i · x_j) = w_k · x_j",
    )


def padded(prompt: Prompt, *, examples: int) -> Prompt:
    """Return the last question with exactly `examples` examples before it: zero pairs are put in front.

    A zero pair adds nothing to S and nothing to Σ y x, so no algorithm of this room notices it.

    Raises:
        ValueError: the question has more examples than that already.
    """
    last = prompt.prefix(-1)
    have = last.reads[0] // 2
    if prompt.parts != 2:
        raise ValueError(f"prompt must hold (x, y) samples of 2 rows, got samples of {prompt.parts} row(s)")
    if have > examples:
        raise ValueError(f"the question has {have} examples before it, more than examples={examples}")
    zeros = last.rows.new_zeros(last.batch, 2 * (examples - have), last.dim)
    return Prompt(
        rows=torch.cat([zeros, last.rows], dim=1),
        targets=last.targets,
        clean=last.clean,
        reads=(2 * examples,),
        parts=2,
    )
