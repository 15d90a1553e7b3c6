"""Section 4 of the paper and what goes beyond it, as a table: claims, models, prompts, textbooks.

The states inside the models are compared as well as their answers: M_k and w_k for Newton's method, w^i_k in
the decoder, M^i_k in the decoder's Newton method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import step_size_limit
from algoformer.theory.decoder import decoder_gradient_descent
from algoformer.theory.decoder_newton import decoder_newton
from algoformer.theory.heavy_ball import heavy_ball
from algoformer.theory.newton import alpha_limit, newton
from algoformer.theory.ridge import ridge
from algoformer.theory.statement import Measurement, Sizes, Statement, largest_deviation, measured
from algoformer.trace import Solver, Trace, Unroll

ALPHA = 1 / 150**2
"""Below 2/λ_max(S)² for all of 4000 prompts of 40 normal examples of 20 numbers."""

MOMENTUM = 0.6
PENALTY = 0.1
MATRIX_DIM = 5
MATRIX_POINTS = 16

_PROMPTS_AT_ONCE = 16


def prompts(sizes: Sizes) -> Prompt:
    """Linear regression, every point asked."""
    task = LinearRegression(dim=sizes.dim, points=sizes.examples + 1)
    return task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)


@torch.inference_mode()
def deviation_inside(
    model: AlgoFormer,
    textbook: Solver,
    prompt: Prompt,
    steps: int,
    *,
    read: Callable[[Tensor, Prompt], Tensor],
    iterates: Callable[[Prompt], Iterator[Tensor]],
) -> float:
    """`largest_deviation` of the answers and of what `read` finds in the state after every step."""
    keep = tuple(f"loop[{step}]" for step in range(1, steps + 1))
    worst = 0.0
    for start in range(0, prompt.batch, _PROMPTS_AT_ONCE):
        chunk = prompt.select(slice(start, start + _PROMPTS_AT_ONCE))
        trace = model(chunk, Unroll(steps=steps, keep=keep))
        gaps = [trace.predictions - textbook(chunk, Unroll(steps=steps)).predictions]
        for address, expected in zip(keep, islice(iterates(chunk), steps), strict=True):
            gaps.append(read(trace.states[address], chunk) - expected)
        for gap in gaps:
            worst = max(worst, gap.abs().nan_to_num(nan=torch.inf).max().item())
    return worst


def prefix_moments(prompt: Prompt) -> tuple[Tensor, Tensor]:
    """Σ x xᵀ and Σ y x over the pairs before each point: (batch, point, dim, dim) and (batch, point, dim, 1)."""
    features, labels = prompt.part(0), prompt.part(1)[..., :1]
    gram = (features[..., :, None] * features[..., None, :]).cumsum(dim=1)
    cross = (features * labels).cumsum(dim=1)[..., None]
    return tuple(torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1) for sums in (gram, cross))  # type: ignore[return-value]


def inverses(gram: Tensor, alpha: float) -> Iterator[Tensor]:
    """M_1, M_2, ... of Newton's method, as in the paper's equation."""
    inverse = alpha * gram
    while True:
        inverse = 2 * inverse - inverse @ gram @ inverse
        yield inverse


# Theorem 4.1


def _newton_case(sizes: Sizes) -> tuple[Prompt, float]:
    prompt = prompts(sizes).prefix()
    return prompt, min(ALPHA, alpha_limit(pairs(prompt)) / 2)


def build_newton(sizes: Sizes) -> AlgoFormer:
    """Theorem 4.1 with an α that suits the prompts."""
    _, alpha = _newton_case(sizes)
    return newton(dim=sizes.dim, examples=sizes.examples, alpha=alpha, constants=sizes.constants)


def measure_newton(sizes: Sizes) -> Measurement:
    """Against Newton's method: answers, M_k x at every x token, and w_k = Σ y_i M_k x_i."""
    prompt, alpha = _newton_case(sizes)
    model, steps = build_newton(sizes), sizes.steps or 20
    image = blueprint_of(model).space.run("image")

    def read(state: Tensor, chunk: Prompt) -> Tensor:
        images = state[:, ::2, image]
        weights = (images * chunk.part(1)[..., :1]).sum(dim=1, keepdim=True)
        return torch.cat([images, weights], dim=1)

    def iterates(chunk: Prompt) -> Iterator[Tensor]:
        gram, cross = (moments[:, -1] for moments in prefix_moments(chunk))
        for inverse in inverses(gram, alpha):
            yield torch.cat([chunk.part(0) @ inverse.mT, (inverse @ cross).mT], dim=1)

    deviation = deviation_inside(model, Newton(alpha=alpha), prompt, steps, read=read, iterates=iterates)
    return measured(model, deviation, steps)


# Theorem 4.2


def _decoder_case(sizes: Sizes) -> tuple[Prompt, float]:
    prompt = prompts(sizes)
    return prompt, min(0.5, 0.8 * step_size_limit(pairs(prompt)))


def build_decoder(sizes: Sizes) -> AlgoFormer:
    """Theorem 4.2 with a step size that suits every prefix."""
    _, step_size = _decoder_case(sizes)
    return decoder_gradient_descent(
        dim=sizes.dim, points=sizes.examples + 1, step_size=step_size, constants=sizes.constants
    )


def measure_decoder(sizes: Sizes) -> Measurement:
    """Against gradient descent at every prefix: answers and w^i_k."""
    prompt, step_size = _decoder_case(sizes)
    model, steps = build_decoder(sizes), sizes.steps or 100
    held = blueprint_of(model).space.run("weights")

    def iterates(chunk: Prompt) -> Iterator[Tensor]:
        gram, cross = prefix_moments(chunk)
        counts = torch.arange(gram.shape[1]).clamp(min=1)[:, None, None]
        weights = torch.zeros_like(cross)
        while True:
            weights = weights - step_size * (gram @ weights - cross) / counts
            yield weights[..., 0]

    deviation = deviation_inside(
        model,
        GradientDescent(step_size=step_size),
        prompt,
        steps,
        read=lambda state, _: state[:, 1::2, held],
        iterates=iterates,
    )
    return measured(model, deviation, steps)


# Ridge regression


@dataclass(frozen=True, kw_only=True)
class PenalizedDescent:
    """w ← w - η (∇L(w) + λ w) from 0 on all examples before the one question: the textbook of `ridge`."""

    step_size: float
    penalty: float

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """The answers after each step."""
        gram, cross = (moments[:, -1] for moments in prefix_moments(prompt))
        count = max(prompt.reads[-1] // 2, 1)
        weights, answers = torch.zeros_like(cross), []
        for _ in range(unroll.steps):
            gradient = (gram @ weights - cross) / count + self.penalty * weights
            weights = weights - self.step_size * gradient
            answers.append(prompt.part(0)[:, -1:] @ weights)
        return Trace(predictions=torch.stack(answers[unroll.first_step - 1 :]), first_step=unroll.first_step)


def _ridge_case(sizes: Sizes) -> tuple[Prompt, float]:
    prompt = prompts(sizes).prefix()
    return prompt, min(0.5, 1.6 / (2 / step_size_limit(pairs(prompt)) + PENALTY))


def build_ridge(sizes: Sizes) -> AlgoFormer:
    """Ridge regression with λ = 0.1."""
    _, step_size = _ridge_case(sizes)
    return ridge(
        dim=sizes.dim,
        examples=sizes.examples,
        step_size=step_size,
        penalty=PENALTY,
        constants=sizes.constants,
    )


def measure_ridge(sizes: Sizes) -> Measurement:
    """Against gradient descent on the ridge loss."""
    prompt, step_size = _ridge_case(sizes)
    model, steps = build_ridge(sizes), sizes.steps or 50
    textbook = PenalizedDescent(step_size=step_size, penalty=PENALTY)
    return measured(model, largest_deviation(model, textbook, prompt, steps), steps)


# Momentum


def _heavy_ball_case(sizes: Sizes) -> tuple[Prompt, float]:
    prompt = prompts(sizes).prefix()
    return prompt, min(0.5, 0.8 * step_size_limit(pairs(prompt)))


def build_heavy_ball(sizes: Sizes) -> AlgoFormer:
    """Gradient descent with momentum 0.6."""
    _, step_size = _heavy_ball_case(sizes)
    return heavy_ball(
        dim=sizes.dim,
        examples=sizes.examples,
        step_size=step_size,
        momentum=MOMENTUM,
        constants=sizes.constants,
    )


def measure_heavy_ball(sizes: Sizes) -> Measurement:
    """Against Polyak's heavy ball."""
    prompt, step_size = _heavy_ball_case(sizes)
    model, steps = build_heavy_ball(sizes), sizes.steps or 50
    textbook = HeavyBall(step_size=step_size, momentum=MOMENTUM)
    return measured(model, largest_deviation(model, textbook, prompt, steps), steps)


# Newton's method in a decoder


def _matrix_case(sizes: Sizes) -> tuple[Prompt, float]:
    task = LinearRegression(dim=min(sizes.dim, MATRIX_DIM), points=min(sizes.examples + 1, MATRIX_POINTS))
    prompt = task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)
    return prompt, alpha_limit(pairs(prompt)) / 2


def build_decoder_newton(sizes: Sizes) -> AlgoFormer:
    """Newton's method at every prefix, with at most 5 numbers in x: the heads grow like 2 dim²."""
    prompt, alpha = _matrix_case(sizes)
    return decoder_newton(dim=prompt.dim, points=prompt.points, alpha=alpha, constants=sizes.constants)


def measure_decoder_newton(sizes: Sizes) -> Measurement:
    """Against Newton's method at every prefix: answers and M^i_k."""
    prompt, alpha = _matrix_case(sizes)
    model, steps = build_decoder_newton(sizes), sizes.steps or 20
    space = blueprint_of(model).space
    rows = [space.run(f"inverse_{row}") for row in range(prompt.dim)]
    deviation = deviation_inside(
        model,
        Newton(alpha=alpha),
        prompt,
        steps,
        read=lambda state, _: torch.stack([state[:, 1::2, row] for row in rows], dim=-2),
        iterates=lambda chunk: inverses(prefix_moments(chunk)[0], alpha),
    )
    return measured(model, deviation, steps)


STATEMENTS_BEYOND = (
    Statement(
        name="newton",
        reference="Lemma and Theorem 4.1",
        textbook="M_k and w_k of Newton's method",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        measure=measure_newton,
        build=build_newton,
    ),
    Statement(
        name="decoder",
        reference="Lemma and Theorem 4.2, causal",
        textbook="gradient descent, w^i_k for every prefix i",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (2, 2)},
        measure=measure_decoder,
        build=build_decoder,
    ),
    Statement(
        name="ridge",
        reference="remark after Theorem 3.1",
        textbook=f"gradient descent on the ridge loss, λ = {PENALTY}",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (1, 1)},
        measure=measure_ridge,
        build=build_ridge,
    ),
    Statement(
        name="heavy_ball",
        reference="beyond the paper",
        textbook=f"gradient descent with momentum {MOMENTUM}",
        claimed={"pre": (1, 2), "loop": (1, 2), "post": (1, 1)},
        measure=measure_heavy_ball,
        build=build_heavy_ball,
    ),
    Statement(
        name="decoder_newton",
        reference=f"left open after Theorem 4.2, d ≤ {MATRIX_DIM}; ours: 2d, 2d², 2d heads",
        textbook="M^i_k of Newton's method for every prefix i",
        claimed={
            "copy": (1, 1),
            "moments": (1, 2 * MATRIX_DIM),
            "loop": (1, 2 * MATRIX_DIM**2),
            "post": (1, 2 * MATRIX_DIM),
        },
        measure=measure_decoder_newton,
        build=build_decoder_newton,
    ),
)
"""The statements of Section 4, then those beyond the paper."""
