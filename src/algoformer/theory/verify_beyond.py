"""Section 4 of the paper, and what goes beyond it, as a table: claims, models, prompts, textbooks.

The states inside the models are held to the textbook as well as their answers: M_k and w_k for Newton's
method, w^i_k in the decoder, M^i_k for Newton's method in a decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import step_size_limit
from algoformer.theory.decoder import decoder_gradient_descent
from algoformer.theory.decoder_newton import decoder_newton
from algoformer.theory.decoder_newton_serial import decoder_newton_serial, passes_per_step
from algoformer.theory.heavy_ball import heavy_ball
from algoformer.theory.newton import alpha_limit, newton
from algoformer.theory.ridge import ridge
from algoformer.theory.statement import Case, Measurement, Sizes, Statement, measured
from algoformer.theory.textbook import PenalizedDescent, descent, inverses, moments_of
from algoformer.trace import Unroll

ALPHA = 1 / 150**2
"""Below 2/λ_max(S)² for all of 4000 prompts of 40 normal examples of 20 numbers."""

MOMENTUM = 0.6
PENALTY = 0.1
MATRIX_DIM = 5
MATRIX_POINTS = 16
SERIAL_DIM = 3
SERIAL_POINTS = 12
_PROMPTS_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A comparison of the state after each step (`read`) with the textbook's (`iterates`)."""

    read: Callable[[Tensor, Prompt], Tensor]
    iterates: Callable[[Prompt], Iterator[Tensor]]


@torch.inference_mode()
def measure_inside(case: Case, inside: Inside) -> Measurement:
    """Return the largest deviation of answers and states over every prompt and step; NaN counts as ∞."""
    keep = tuple(f"loop[{step}]" for step in range(1, case.steps + 1))
    worst = 0.0
    for prompt in case.prompts:
        for start in range(0, prompt.batch, _PROMPTS_AT_ONCE):
            chunk = prompt.select(slice(start, start + _PROMPTS_AT_ONCE))
            trace = case.model(chunk, Unroll(steps=case.steps, keep=keep))
            gaps = [trace.predictions - case.textbook(chunk, Unroll(steps=case.steps)).predictions]
            for address, expected in zip(keep, islice(inside.iterates(chunk), case.steps), strict=True):
                gaps.append(inside.read(trace.states[address], chunk) - expected)
            found = max(gap.abs().nan_to_num(nan=torch.inf).max().item() for gap in gaps)
            worst = max(worst, found)
    return measured(case.model, worst, case.steps)


def regression_prompts(sizes: Sizes) -> Prompt:
    """Linear regression on standard normal numbers, every point asked."""
    task = LinearRegression(dim=sizes.dim, points=sizes.examples + 1)
    return task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)


# Theorem 4.1


def newton_case(sizes: Sizes) -> Case:
    """Newton's method, for long enough that the residual I - M_k S is below 1e-7."""
    prompt = regression_prompts(sizes).prefix()
    alpha = min(ALPHA, alpha_limit(pairs(prompt)) / 2)
    return Case(
        model=newton(dim=sizes.dim, examples=sizes.examples, alpha=alpha, constants=sizes.constants),
        textbook=Newton(alpha=alpha),
        prompts=[prompt],
        steps=sizes.steps or 20,
    )


def measure_newton(sizes: Sizes) -> Measurement:
    """Answers, M_k x at every x token, and w_k = Σ_i y_i M_k x_i."""
    case = newton_case(sizes)
    assert isinstance(case.textbook, Newton)
    assert case.textbook.alpha is not None
    alpha, image = case.textbook.alpha, blueprint_of(case.model).space.run("image")

    def read(state: Tensor, prompt: Prompt) -> Tensor:
        images = state[:, ::2, image]
        return torch.cat([images, (images * prompt.part(1)[..., :1]).sum(dim=1, keepdim=True)], dim=1)

    def iterates(prompt: Prompt) -> Iterator[Tensor]:
        moments = moments_of(prompt)
        for inverse in inverses(moments.gram[:, -1], alpha=alpha):
            yield torch.cat([prompt.part(0) @ inverse.mT, (inverse @ moments.cross[:, -1]).mT], dim=1)

    return measure_inside(case, Inside(read=read, iterates=iterates))


# Theorem 4.2


def decoder_case(sizes: Sizes) -> Case:
    """Gradient descent at every prefix, with a step size that suits them all."""
    prompt = regression_prompts(sizes)
    step_size = min(0.5, 0.8 * step_size_limit(pairs(prompt)))
    return Case(
        model=decoder_gradient_descent(
            dim=sizes.dim, points=prompt.points, step_size=step_size, constants=sizes.constants
        ),
        textbook=GradientDescent(step_size=step_size),
        prompts=[prompt],
        steps=sizes.steps or 100,
    )


def measure_decoder(sizes: Sizes) -> Measurement:
    """Answers and w^i_k at every prefix."""
    case = decoder_case(sizes)
    assert isinstance(case.textbook, GradientDescent)
    assert isinstance(case.textbook.step_size, float)
    step_size, weights = case.textbook.step_size, blueprint_of(case.model).space.run("weights")
    inside = Inside(
        read=lambda state, _: state[:, 1::2, weights, None],
        iterates=lambda prompt: descent(moments_of(prompt), step_size=step_size),
    )
    return measure_inside(case, inside)


# Beyond the paper


def ridge_case(sizes: Sizes) -> Case:
    """Gradient descent on the ridge loss."""
    prompt = regression_prompts(sizes).prefix()
    step_size = min(0.5, 1.6 / (2 / step_size_limit(pairs(prompt)) + PENALTY))
    return Case(
        model=ridge(
            dim=sizes.dim,
            examples=sizes.examples,
            step_size=step_size,
            penalty=PENALTY,
            constants=sizes.constants,
        ),
        textbook=PenalizedDescent(step_size=step_size, penalty=PENALTY),
        prompts=[prompt],
        steps=sizes.steps or 50,
    )


def heavy_ball_case(sizes: Sizes) -> Case:
    """Gradient descent with momentum."""
    prompt = regression_prompts(sizes).prefix()
    step_size = min(0.5, 0.8 * step_size_limit(pairs(prompt)))
    return Case(
        model=heavy_ball(
            dim=sizes.dim,
            examples=sizes.examples,
            step_size=step_size,
            momentum=MOMENTUM,
            constants=sizes.constants,
        ),
        textbook=HeavyBall(step_size=step_size, momentum=MOMENTUM),
        prompts=[prompt],
        steps=sizes.steps or 50,
    )


def decoder_newton_case(sizes: Sizes) -> Case:
    """Newton's method at every prefix, for at most 5 numbers in x, as heads grow like 2 dim²."""
    task = LinearRegression(dim=min(sizes.dim, MATRIX_DIM), points=min(sizes.examples + 1, MATRIX_POINTS))
    prompt = task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)
    alpha = alpha_limit(pairs(prompt)) / 2
    return Case(
        model=decoder_newton(dim=task.dim, points=task.points, alpha=alpha, constants=sizes.constants),
        textbook=Newton(alpha=alpha),
        prompts=[prompt],
        steps=sizes.steps or 20,
    )


def measure_decoder_newton(sizes: Sizes) -> Measurement:
    """Answers and M^i_k at every prefix."""
    case = decoder_newton_case(sizes)
    assert isinstance(case.textbook, Newton)
    assert case.textbook.alpha is not None
    alpha, space = case.textbook.alpha, blueprint_of(case.model).space
    rows = [space.run(f"inverse_{row}") for row in range(space.size("x"))]
    inside = Inside(
        read=lambda state, _: torch.stack([state[:, 1::2, row] for row in rows], dim=-2),
        iterates=lambda prompt: inverses(moments_of(prompt).gram, alpha=alpha),
    )
    return measure_inside(case, inside)


def decoder_newton_serial_case(sizes: Sizes) -> Case:
    """Verify the model with two heads per layer; `steps` counts passes, one ahead of Newton's method."""
    task = LinearRegression(dim=min(sizes.dim, SERIAL_DIM), points=min(sizes.examples + 1, SERIAL_POINTS))
    prompt = task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)
    alpha = alpha_limit(pairs(prompt)) / 2
    return Case(
        model=decoder_newton_serial(dim=task.dim, points=task.points, alpha=alpha, constants=sizes.constants),
        textbook=Newton(alpha=alpha),
        prompts=[prompt],
        steps=(sizes.steps or 20) * passes_per_step(task.dim),
    )


@torch.inference_mode()
def measure_decoder_newton_serial(sizes: Sizes) -> Measurement:
    """After every d(d+1) passes: M^i_n, and the answers of w^i_{n-1}."""
    case = decoder_newton_serial_case(sizes)
    assert isinstance(case.textbook, Newton)
    assert case.textbook.alpha is not None
    space, prompt = blueprint_of(case.model).space, case.prompts[0]
    rows = [space.run(f"inverse_{row}") for row in range(space.size("x"))]
    moments = moments_of(prompt)
    passes = passes_per_step(len(rows))
    ends = range(passes, case.steps + 1, passes)
    trace = case.model(prompt, Unroll(steps=case.steps, keep=tuple(f"loop[{end}]" for end in ends)))
    inverse, worst = case.textbook.alpha * moments.gram, 0.0
    for end, following in zip(ends, inverses(moments.gram, alpha=case.textbook.alpha), strict=False):
        state = trace.states[f"loop[{end}]"]
        found = torch.stack([state[:, 1::2, row] for row in rows], dim=-2)
        answers = (inverse @ moments.cross).mT @ prompt.part(0)[..., None]
        gaps = (found - following, trace.predictions[end - 1] - answers[..., 0])
        worst = max(worst, *(gap.abs().nan_to_num(nan=torch.inf).max().item() for gap in gaps))
        inverse = following
    return measured(case.model, worst, case.steps)


SECTION_FOUR = (
    Statement(
        name="newton",
        reference="Lemma and Theorem 4.1",
        textbook="Newton's method, M_k and w_k",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        case=newton_case,
        measure=measure_newton,
    ),
    Statement(
        name="decoder",
        reference="Lemma and Theorem 4.2, causal",
        textbook="gradient descent, w^i_k for every prefix i",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        case=decoder_case,
        measure=measure_decoder,
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
        measure=measure_decoder_newton,
    ),
    Statement(
        name="decoder_newton_serial",
        reference=f"left open after Theorem 4.2, two heads a layer, d = {SERIAL_DIM}",
        textbook=f"Newton's method, M^i_k after every {passes_per_step(SERIAL_DIM)} passes",
        claimed={"pre": (1 + SERIAL_DIM, 2), "loop": (1, 2), "post": (1, 2)},
        case=decoder_newton_serial_case,
        measure=measure_decoder_newton_serial,
    ),
)
"""Statements that the paper remarks on, leaves open or does not mention; the sizes are our own claims."""
