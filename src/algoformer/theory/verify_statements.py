"""Section 3 of the paper as a table: each statement with its claim, its model, its prompts, its textbook."""

from __future__ import annotations

import math

from algoformer.algorithms import GradientDescent
from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks import AutoregressiveWithRepresentation, ChainOfThought, RegressionWithRepresentation
from algoformer.theory.autoregressive import autoregressive
from algoformer.theory.chain import chain
from algoformer.theory.codes import quasi_orthogonal
from algoformer.theory.copying import copy
from algoformer.theory.gradient_descent import gradient_descent_step, prepared
from algoformer.theory.network import network_of
from algoformer.theory.representation import representation
from algoformer.theory.statement import Case, Measurement, Sizes, Statement
from algoformer.theory.verify_prompts import (
    chain_prompts,
    pair_prompts,
    safe_step_size,
    sampled,
    series_prompts,
)
from algoformer.trace import constant_trace

ORDER = 3
CHAIN_LAYERS = 6
CHAIN_SLOPE = 0.5
CODES = 10_000
EPSILON = 1.0


def measure_codes(sizes: Sizes) -> Measurement:
    """Measure by how much the gap of 10,000 codes falls short of ε, over all pairs of codes."""
    codes = quasi_orthogonal(CODES, epsilon=EPSILON)
    whole = codes.float()  # products of ±1 codes are small whole numbers: exact, and twice as fast
    own = whole.square().sum(dim=1)
    smallest = math.inf
    for start in range(0, CODES, 1000):
        gaps = own[start : start + 1000, None] - whole[start : start + 1000] @ whole.mT
        gaps.diagonal(offset=start).fill_(math.inf)
        smallest = min(smallest, gaps.min().item())
    deviation = 0.0 if smallest > EPSILON else EPSILON - smallest
    return Measurement(deviation=deviation, steps=0, width=codes.shape[1], dtype=codes.dtype)


def copy_case(sizes: Sizes) -> Case:
    """Compare every row's history with the shift; full attention answers one question at a time."""
    prompt = series_prompts(sizes, order=ORDER)
    return Case(
        model=copy(dim=sizes.dim, order=ORDER, length=sizes.examples, constants=sizes.constants),
        textbook=lambda prompt, unroll: constant_trace(prompt.targets, unroll),
        prompts=[prompt.prefix(point) for point in range(prompt.points)],
        steps=1,
    )


def lemma_case(sizes: Sizes) -> Case:
    """Compare the loop alone, with labels of 5 numbers, with multivariate gradient descent."""
    out = min(5, sizes.dim)
    prompt = prepared(pair_prompts(sizes, out=out))
    step_size = safe_step_size(_joined(prompt), 0.5)
    return Case(
        model=gradient_descent_step(
            dim=sizes.dim,
            out=out,
            examples=sizes.examples,
            step_size=step_size,
            constants=sizes.constants,
        ),
        textbook=GradientDescent(step_size=step_size, view=_joined),
        prompts=[prompt],
        steps=sizes.steps or 200,
    )


def _joined(prompt: Prompt) -> Problems:
    """Read the problems that `prepared` wrote into a prompt."""
    dim = prompt.dim - prompt.out - 2
    features, labels, _ = prompt.rows.split([dim, prompt.out, 2], dim=-1)
    return Problems(features=features[:, None], labels=labels[:, None], asked=((0, prompt.reads[0]),))


def representation_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.1 for a Φ* of three layers with gradient descent on the true features."""
    task = RegressionWithRepresentation(dim=sizes.dim, points=sizes.examples + 1)
    prompt = sampled(task, sizes).prefix()
    step_size = safe_step_size(task.problems(prompt), 0.09)
    return Case(
        model=representation(
            network=network_of(task.phi),
            examples=sizes.examples,
            step_size=step_size,
            constants=sizes.constants,
        ),
        textbook=GradientDescent(step_size=step_size, view=task.problems),
        prompts=[prompt],
        steps=sizes.steps or 200,
    )


def autoregressive_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.2 with gradient descent, for series in which `examples` rows have a history."""
    length = sizes.examples + ORDER
    task = AutoregressiveWithRepresentation(dim=sizes.dim, points=length + 1, order=ORDER)
    prompt = sampled(task, sizes).prefix()
    step_size = safe_step_size(task.problems(prompt), 2.0)
    return Case(
        model=autoregressive(
            network=network_of(task.phi),
            order=ORDER,
            length=length,
            step_size=step_size,
            constants=sizes.constants,
        ),
        textbook=GradientDescent(step_size=step_size, view=task.problems),
        prompts=[prompt],
        steps=sizes.steps or 100,
    )


def chain_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.3 at each of six layers with gradient descent there and then σ."""
    task = ChainOfThought(dim=sizes.dim, points=sizes.examples + 1, layers=CHAIN_LAYERS, slope=CHAIN_SLOPE)
    prompts = chain_prompts(sizes, task)
    step_size = min(safe_step_size(task.problems(prompt), 0.2) for prompt in prompts)
    return Case(
        model=chain(
            dim=sizes.dim,
            layers=CHAIN_LAYERS,
            examples=sizes.examples,
            step_size=step_size,
            slope=CHAIN_SLOPE,
            constants=sizes.constants,
        ),
        textbook=GradientDescent(step_size=step_size, view=task.problems),
        prompts=prompts,
        steps=sizes.steps or 20,
    )


SECTION_THREE = (
    Statement(
        name="codes",
        reference="Lemma (quasi-orthogonal vectors)",
        textbook=f"p_i·p_i > p_i·p_j + {EPSILON:g} for {CODES:,} codes",
        claimed={},
        measure=measure_codes,
    ),
    Statement(
        name="copy",
        reference=f"Lemma (copying), q = {ORDER}",
        textbook=f"shift by 1..{ORDER}, zeros before the start",
        claimed={"copy": (1, ORDER)},
        case=copy_case,
    ),
    Statement(
        name="gradient_descent",
        reference="Lemma (gradient descent)",
        textbook="multivariate gradient descent",
        claimed={"loop": (1, 2)},
        case=lemma_case,
    ),
    Statement(
        name="representation",
        reference="Theorem 3.1, L = 3",
        textbook="gradient descent on Φ*(x)",
        claimed={"pre": (4, 2), "loop": (1, 2), "post": (1, 1)},
        case=representation_case,
    ),
    Statement(
        name="autoregressive",
        reference=f"Theorem 3.2, L = 3, q = {ORDER}",
        textbook="gradient descent on the series",
        claimed={"copy": (1, ORDER), "pre": (4, 1), "loop": (1, 2), "post": (1, 1)},
        case=autoregressive_case,
    ),
    Statement(
        name="chain",
        reference=f"Theorem 3.3, L = {CHAIN_LAYERS}",
        textbook="gradient descent at every layer l, then σ",
        claimed={"pre": (7, 2), "loop": (1, 2), "post": (1, 1)},
        case=chain_case,
    ),
)
"""The statements of Section 3, in the order of the appendix."""
