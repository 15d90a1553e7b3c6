"""Section 4 of the paper, and what goes beyond it, as a table: claims, models, prompts, textbooks.

The states inside the models are held to the textbook as well as their answers: M_k and w_k for Newton's
method, w^i_k in the decoder, M^i_k for Newton's method in a decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.algorithms.prefixes import prefixes_of
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import alpha_limit
from algoformer.theory.decoder import decoder_gradient_descent
from algoformer.theory.decoder_newton import decoder_newton
from algoformer.theory.decoder_newton_serial import decoder_newton_serial, passes_per_step
from algoformer.theory.newton import newton
from algoformer.theory.statement import Case, Inside, Sizes, Statement
from algoformer.theory.variants import heavy_ball, ridge
from algoformer.theory.verify_statements import descent_case, sampled
from algoformer.trace import Trace, Unroll

ALPHA = 1 / 150**2
"""Below 2/λ_max(S)² for all of 4000 prompts of 40 normal examples of 20 numbers."""

MOMENTUM = 0.6
PENALTY = 0.1
MATRIX_DIM = 5
MATRIX_POINTS = 16
SERIAL_DIM = 3
SERIAL_POINTS = 12


def inverses(gram: Tensor, *, alpha: float) -> Iterator[Tensor]:
    """Yield M_1, M_2, ... of Newton's method: M_0 = αS, M_{k+1} = 2M_k - M_k S M_k."""
    inverse = alpha * gram
    while True:
        inverse = 2 * inverse - inverse @ gram @ inverse
        yield inverse


def regression_prompts(sizes: Sizes, *, dim: int | None = None, points: int | None = None) -> Prompt:
    """Return linear regression on standard normal numbers, with at most `dim` numbers and `points` points."""
    task = LinearRegression(
        dim=min(sizes.dim, dim or sizes.dim),
        points=min(sizes.examples + 1, points or sizes.examples + 1),
    )
    return sampled(task, sizes)


def newton_case(sizes: Sizes) -> Case:
    """Compare answers, M_k x at every x token and w_k = Σ_i y_i M_k x_i with Newton's method.

    By default it runs for long enough that the residual I - M_k S is below 1e-7.
    """
    prompt = regression_prompts(sizes).prefix()
    alpha = min(ALPHA, alpha_limit(pairs(prompt)) / 2)
    model = newton(dim=sizes.dim, examples=sizes.examples, alpha=alpha, constants=sizes.constants)
    image = blueprint_of(model).space.run("image")

    def read(state: Tensor, shown: Prompt) -> Tensor:
        images = state[:, ::2, image]
        return torch.cat([images, (images * shown.part(1)[..., :1]).sum(dim=1, keepdim=True)], dim=1)

    def iterates(shown: Prompt) -> Iterator[Tensor]:
        prefixes = prefixes_of(pairs(shown))
        for inverse in inverses(prefixes.gram[:, -1], alpha=alpha):
            yield torch.cat([shown.part(0) @ inverse.mT, (inverse @ prefixes.cross[:, -1]).mT], dim=1)

    return Case(
        model=model,
        textbook=Newton(alpha=alpha),
        prompts=[prompt],
        steps=sizes.steps or 20,
        inside=Inside(read=read, iterates=iterates),
    )


def decoder_case(sizes: Sizes) -> Case:
    """Compare answers and w^i_k with gradient descent at every prefix, with one step size."""
    prompt = regression_prompts(sizes)
    build = partial(decoder_gradient_descent, dim=sizes.dim, points=prompt.points)
    case = descent_case(sizes, build, [prompt], preferred=0.5, steps=100)
    textbook, weights = case.textbook, blueprint_of(case.model).space.run("weights")
    assert isinstance(textbook, GradientDescent)
    inside = Inside(
        read=lambda state, _: state[:, 1::2, weights, None],
        iterates=lambda shown: textbook.iterates(prefixes_of(pairs(shown))),
    )
    return replace(case, inside=inside)


def ridge_case(sizes: Sizes) -> Case:
    """Compare the answers with gradient descent on the ridge loss."""
    build = partial(ridge, dim=sizes.dim, examples=sizes.examples, penalty=PENALTY)
    method, prompt = partial(GradientDescent, penalty=PENALTY), regression_prompts(sizes).prefix()
    return descent_case(sizes, build, [prompt], method=method, penalty=PENALTY, preferred=0.5, steps=50)


def heavy_ball_case(sizes: Sizes) -> Case:
    """Compare the answers with gradient descent with momentum."""
    build = partial(heavy_ball, dim=sizes.dim, examples=sizes.examples, momentum=MOMENTUM)
    method, prompt = partial(HeavyBall, momentum=MOMENTUM), regression_prompts(sizes).prefix()
    return descent_case(sizes, build, [prompt], method=method, preferred=0.5, steps=50)


def _rows_of_inverse(model: AlgoFormer, alpha: float) -> Inside:
    """Compare M^i_k at every prefix."""
    space = blueprint_of(model).space
    rows = [space.run(f"inverse_{row}") for row in range(space.size("x"))]
    return Inside(
        read=lambda state, _: torch.stack([state[:, 1::2, row] for row in rows], dim=-2),
        iterates=lambda shown: inverses(prefixes_of(pairs(shown)).gram, alpha=alpha),
    )


def decoder_newton_case(sizes: Sizes) -> Case:
    """Compare answers and M^i_k with Newton's method at every prefix, for x of at most 5 numbers.

    The number of heads grows like 2 dim².
    """
    prompt = regression_prompts(sizes, dim=MATRIX_DIM, points=MATRIX_POINTS)
    alpha = alpha_limit(pairs(prompt)) / 2
    model = decoder_newton(dim=prompt.dim, points=prompt.points, alpha=alpha, constants=sizes.constants)
    return Case(
        model=model,
        textbook=Newton(alpha=alpha),
        prompts=[prompt],
        steps=sizes.steps or 20,
        inside=_rows_of_inverse(model, alpha),
    )


def decoder_newton_serial_case(sizes: Sizes) -> Case:
    """Compare M^i_n and the answers of w^i_{n-1} after every d(d+1) passes of the model with two heads."""
    prompt = regression_prompts(sizes, dim=SERIAL_DIM, points=SERIAL_POINTS)
    alpha = alpha_limit(pairs(prompt)) / 2
    model = decoder_newton_serial(
        dim=prompt.dim, points=prompt.points, alpha=alpha, constants=sizes.constants
    )

    def one_step_behind(shown: Prompt, unroll: Unroll) -> Trace:
        prefixes = prefixes_of(pairs(shown))
        found = chain([alpha * prefixes.gram], inverses(prefixes.gram, alpha=alpha))
        answers = [prefixes.answers(next(found) @ prefixes.cross) for _ in range(unroll.steps)]
        return Trace(predictions=torch.stack(answers), first_step=1)

    return Case(
        model=model,
        textbook=one_step_behind,
        prompts=[prompt],
        steps=sizes.steps or 20,
        passes=passes_per_step(prompt.dim),
        inside=_rows_of_inverse(model, alpha),
    )


SECTION_FOUR = (
    Statement(
        name="newton",
        reference="Lemma and Theorem 4.1",
        textbook="Newton's method, M_k and w_k",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        case=newton_case,
    ),
    Statement(
        name="decoder",
        reference="Lemma and Theorem 4.2, causal",
        textbook="gradient descent, w^i_k for every prefix i",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        case=decoder_case,
    ),
)
"""The statements of Section 4."""

BEYOND = (
    Statement(
        name="ridge",
        reference="remark after Theorem 3.1",
        textbook=f"gradient descent on the ridge loss, λ = {PENALTY}",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (1, 1)},
        case=ridge_case,
    ),
    Statement(
        name="heavy_ball",
        reference="beyond the paper",
        textbook=f"gradient descent with momentum {MOMENTUM}",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (1, 1)},
        case=heavy_ball_case,
    ),
    Statement(
        name="decoder_newton",
        reference=f"left open after Theorem 4.2, d = {MATRIX_DIM}",
        textbook="Newton's method, M^i_k for every prefix i",
        claimed={
            "copy": (1, 1),
            "moments": (1, 2 * MATRIX_DIM),
            "loop": (1, 2 * MATRIX_DIM**2),
            "post": (1, 2 * MATRIX_DIM),
        },
        case=decoder_newton_case,
    ),
    Statement(
        name="decoder_newton_serial",
        reference=f"left open after Theorem 4.2, two heads a layer, d = {SERIAL_DIM}",
        textbook=f"Newton's method, M^i_k after every {passes_per_step(SERIAL_DIM)} passes",
        claimed={"pre": (1 + SERIAL_DIM, 2), "loop": (1, 2), "post": (1, 2)},
        case=decoder_newton_serial_case,
    ),
)
"""Statements that the paper remarks on, leaves open or does not mention; the sizes are our own claims."""
