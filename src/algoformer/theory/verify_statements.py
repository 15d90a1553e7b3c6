"""Section 3 of the paper as a table: each statement with its claim, its model, its prompts, its textbook.

The random prompts and step sizes of all verifications stand here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.problems import Problems, View, pairs
from algoformer.prompt import Prompt
from algoformer.tasks import (
    AutoregressiveWithRepresentation,
    ChainOfThought,
    RegressionWithRepresentation,
    Task,
)
from algoformer.theory.autoregressive import autoregressive
from algoformer.theory.chain import chain
from algoformer.theory.checks import step_size_limit
from algoformer.theory.copying import copy
from algoformer.theory.gradient_descent import gradient_descent_step, prepared
from algoformer.theory.network import network_of
from algoformer.theory.representation import representation
from algoformer.theory.statement import Case, Measurement, Sizes, Statement
from algoformer.theory.subspace import quasi_orthogonal
from algoformer.trace import Solver, constant_trace

ORDER = 3
CHAIN_LAYERS = 6
CHAIN_SLOPE = 0.5
CODES = 10_000
EPSILON = 1.0


def safe_step_size(problems: Problems, preferred: float, *, penalty: float = 0.0) -> float:
    """Return `preferred`, or 0.8 of the limit of convergence on these problems if that is less."""
    return min(preferred, 0.8 * step_size_limit(problems, penalty=penalty))


def sampled(task: Task, sizes: Sizes) -> Prompt:
    """Return prompts of a task in float64, with all their questions."""
    return task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Return standard normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def pair_prompts(sizes: Sizes, *, out: int = 1) -> Prompt:
    """Return prompts of linear regression, y = A x with `out` numbers, all normal, with one question."""
    generator = sizes.generator()
    xs = normal(sizes.prompts, sizes.examples + 1, sizes.dim, generator=generator)
    weights = normal(sizes.prompts, sizes.dim, out, generator=generator)
    return Prompt.of_pairs(xs, xs @ weights).prefix()


def series_prompts(sizes: Sizes, *, order: int) -> Prompt:
    """Return series in which each row must be answered with the `order` rows before it, or zeros."""
    rows = normal(sizes.prompts, sizes.examples, sizes.dim, generator=sizes.generator())
    padded = torch.nn.functional.pad(rows, (0, 0, order, 0))[:, :-1]
    history = padded.unfold(1, order, 1).transpose(-1, -2).flatten(-2)
    return Prompt(rows=rows, targets=history, reads=tuple(range(sizes.examples)))


def chain_prompts(sizes: Sizes, task: ChainOfThought) -> list[Prompt]:
    """Return prompts that ask for each layer of the chain in turn; together at least `sizes.prompts`.

    The matrices are orthogonal, times √(2/(1 + slope²)). Deep states of normal matrices and small slopes
    have condition numbers of 1e6: gradient descent on them is just as exact and gets nowhere.
    """
    batch, generator = math.ceil(sizes.prompts / task.layers), sizes.generator()
    scale = math.sqrt(2 / (1 + task.slope**2))
    prompts = []
    for layer in range(task.layers):
        states = [normal(batch, sizes.examples + 1, sizes.dim, generator=generator)]
        for _ in range(task.layers):
            basis = torch.linalg.qr(normal(batch, sizes.dim, sizes.dim, generator=generator)).Q
            states.append(leaky_relu(scale * states[-1] @ basis, task.slope))
        rows = torch.stack(states, dim=2).flatten(1, 2)
        question = sizes.examples * task.parts + layer
        shown, target = rows[:, : question + 1], rows[:, question + 1 : question + 2]
        prompts.append(Prompt(rows=shown, targets=target, reads=(question,), parts=task.parts))
    return prompts


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


def descent_case(
    sizes: Sizes,
    build: Callable[..., AlgoFormer],
    prompts: Sequence[Prompt],
    *,
    preferred: float,
    steps: int,
    view: View = pairs,
    method: Callable[..., Solver] = GradientDescent,
    penalty: float = 0.0,
) -> Case:
    """Compare weights with gradient descent, with the preferred step size or one that suits all prompts."""
    step_size = min(safe_step_size(view(prompt), preferred, penalty=penalty) for prompt in prompts)
    return Case(
        model=build(step_size=step_size, constants=sizes.constants),
        textbook=method(step_size=step_size, view=view),
        prompts=prompts,
        steps=sizes.steps or steps,
    )


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
    build = partial(gradient_descent_step, dim=sizes.dim, out=out, examples=sizes.examples)
    prompt = prepared(pair_prompts(sizes, out=out))
    return descent_case(sizes, build, [prompt], view=_joined, preferred=0.5, steps=200)


def _joined(prompt: Prompt) -> Problems:
    """Read the problems that `prepared` wrote into a prompt."""
    dim = prompt.dim - prompt.out - 2
    features, labels, _ = prompt.rows.split([dim, prompt.out, 2], dim=-1)
    return Problems(features=features[:, None], labels=labels[:, None], questions=((0, prompt.reads[0]),))


def representation_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.1 for a Φ* of three layers with gradient descent on the true features."""
    task = RegressionWithRepresentation(dim=sizes.dim, points=sizes.examples + 1)
    build = partial(representation, network=network_of(task.phi), examples=sizes.examples)
    prompt = sampled(task, sizes).prefix()
    return descent_case(sizes, build, [prompt], view=task.problems, preferred=0.09, steps=200)


def autoregressive_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.2 with gradient descent, for series in which `examples` rows have a history."""
    length = sizes.examples + ORDER
    task = AutoregressiveWithRepresentation(dim=sizes.dim, points=length + 1, order=ORDER)
    build = partial(autoregressive, network=network_of(task.phi), order=ORDER, length=length)
    prompt = sampled(task, sizes).prefix()
    return descent_case(sizes, build, [prompt], view=task.problems, preferred=2.0, steps=100)


def chain_case(sizes: Sizes) -> Case:
    """Compare Theorem 3.3 at each of six layers with gradient descent there and then σ."""
    dim, layers, slope, points = sizes.dim, CHAIN_LAYERS, CHAIN_SLOPE, sizes.examples + 1
    task = ChainOfThought(dim=dim, points=points, layers=layers, slope=slope)
    build = partial(chain, dim=dim, examples=sizes.examples, layers=layers, slope=slope)
    prompts = chain_prompts(sizes, task)
    return descent_case(sizes, build, prompts, view=task.problems, preferred=0.2, steps=20)


SECTION_THREE = (
    Statement(
        name="codes",
        reference="Lemma (quasi-orthogonal vectors)",
        textbook=f"p_i·p_i > p_i·p_j + {EPSILON:g} for {CODES:,} codes",
        claimed={},
        case=measure_codes,
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
