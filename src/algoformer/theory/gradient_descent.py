"""The lemma: one layer with two heads is one step of gradient descent in multivariate regression.

The stream carries features φ and the residual ρ, which is A φ_i - y_i at an example and A φ at the
question. A step A ← A - η/n Σ_i (A φ_i - y_i) φ_iᵀ changes every residual by

    ρ_j ← ρ_j - η/n Σ_i ρ_i (φ_i · φ_j),

a sum over the examples of values ρ_i with weights φ_i·φ_j: what `linear_attention` computes. A itself is
nowhere stored. All of Theorems 3.1 to 3.3 share this loop; they differ in how the pre-transformer gets there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.problems import View, pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, row_map
from algoformer.theory.checks import check_counts, check_step_size, product_unit
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter, Matrix


def descent_layer(
    writer: LayerWriter,
    *,
    features: Matrix,
    sink: Matrix,
    masked: Matrix,
    step_size: float,
    examples: int,
    into: str = "residual",
) -> LayerWriter:
    """Write the looped layer: `into` += -step_size/n Σ_i residual_i (features_i · features).

    It needs the subspaces residual, one and log_count (the log of the number n of examples, at every token
    whose residual matters). Tokens marked by `masked` are no examples. Products are divided by
    `product_unit` before c, so that they are near 1.

    Proof. `linear_attention` with the examples' residuals as values; the sink's score C + log n divides by
    n. Tokens without features get 0. ∎
    """
    check_step_size(step_size)
    return writer.linear_attention(
        query=features,
        key=features,
        value="residual",
        into=into,
        rate=-step_size,
        unit=product_unit(examples=examples, dim=len(features)),
        common=writer.sink_scores(sink=sink, masked=masked, log_count="log_count"),
        note=f"heads ±c: {into}_j += -η/n Σ_i residual_i (φ_i · φ_j), one gradient step",
    )


def gradient_descent_step(
    *, dim: int, examples: int, step_size: float, out: int = 1, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build the lemma alone: a loop of one layer with two heads, for rows that hold x and y in one token.

    This is the token matrix that the lemma starts from; `prepared` makes it from a prompt of pairs. For
    prompts of pairs as they are, with a pre-transformer that joins x and y, take `gradient_descent`.

    Args:
        dim: the numbers in x.
        examples: N, the most examples a prompt may show before its question.
        step_size: η; converges below 2/λ_max of the mean of x xᵀ (see `check_converges`).
        out: the numbers in y.
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).
    """
    check_counts(dim=dim, examples=examples, out=out)
    space = Subspaces(
        {
            "x": (dim, "x at examples and at the question"),
            "residual": (out, "A_k x - y at examples, A_k x at the question"),
            "known": (1, "1 at examples"),
            "log_count": (1, "log of the number of examples"),
            "row": (1, "1 at rows of the prompt, 0 at the sink"),
            "one": (torch.ones(examples + 2), "1 at every token"),
        }
    )
    read, write = space.read, space.write
    loop = descent_layer(
        layers_in(space, options)(),
        features=read("x"),
        sink=read("one") - read("row"),
        masked=read("row") - read("known"),
        step_size=step_size,
        examples=examples,
    )
    entry = torch.cat([write("x"), -write("residual"), write("known"), write("log_count")], dim=1)
    return Blueprint(
        space=space,
        modules={"loop": [loop]},
        rows=[row_map(space, entry, mark="row")],
        answer=read("residual"),
        blanks=(0, 1),
    ).build(**options)


def prepared(prompt: Prompt, view: View = pairs) -> Prompt:
    """Return the last question of `prompt` as the lemma's token matrix: rows (features, label, known, log n).

    There is one row per sample, the question's last with label and `known` 0. `view` reads the features.
    """
    last = prompt.prefix(-1)
    problems = view(last)
    problem, sample = problems.questions[0]
    features = problems.features[:, problem, : sample + 1]
    labels = problems.labels[:, problem, : sample + 1].clone()
    labels[:, sample] = 0
    marks = features.new_zeros(*features.shape[:-1], 2)
    marks[:, :sample, 0] = 1
    marks[..., 1] = math.log(max(sample, 1))
    rows = torch.cat([features, labels, marks], dim=-1)
    return replace(last, rows=rows, reads=(sample,), parts=1)
