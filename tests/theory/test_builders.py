"""What builders have in common: error laws in c and C, single precision, refusals that name the argument."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch

from algoformer import theory
from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory import DOUBLE, SINGLE, Network, alpha_limit
from algoformer.trace import Solver, Unroll

from .linearized import fitted_power, fitted_rate, regression
from .written import normal


@dataclass(frozen=True, kw_only=True)
class Construction:
    """A builder without constants and dtype, its textbook and prompts, and where its laws are measured."""

    build: Callable[..., AlgoFormer]
    textbook: Solver
    prompt: Prompt
    steps: int = 100
    single_steps: int = 100
    single_close: float = 5e-2
    shown: Callable[[Prompt], Prompt] = lambda prompt: prompt
    c: Sequence[float] = (0.2, 0.1, 0.05, 0.025, 0.0125)
    sink: Sequence[float] = (6.0, 7.0, 8.0, 9.0, 10.0)

    def gap(
        self, *, steps: int | None = None, dtype: torch.dtype = torch.float64, **constants: float
    ) -> float:
        """The largest deviation from the textbook with changed constants (those of `SINGLE` in float32)."""
        unroll = Unroll(steps=steps or self.steps)
        base = SINGLE if dtype == torch.float32 else DOUBLE
        model = self.build(constants=replace(base, **constants), dtype=dtype)
        with torch.no_grad():
            found = model(self.shown(self.prompt).to(dtype), unroll).predictions
        return float((found - self.textbook(self.prompt, unroll).predictions).abs().max())


def lemma_prompt() -> Prompt:
    xs, weights = normal(16, 13, 4), normal(16, 4, 3, seed=1)
    return Prompt.of_pairs(xs, xs @ weights + 0.1 * normal(16, 13, 3, seed=2)).prefix()


EIGHT = {"dim": 3, "examples": 8}
NOISY = regression(3, 9, noise=0.5).prefix()
PREFIXES = regression(3, 12, noise=0.5)
ALPHA = alpha_limit(pairs(PREFIXES)) / 2
CONSTRUCTIONS = {
    "lemma": Construction(
        build=partial(theory.gradient_descent_step, dim=4, out=3, examples=12, step_size=0.4),
        textbook=GradientDescent(step_size=0.4),
        prompt=lemma_prompt(),
        steps=50,
        shown=theory.prepared,
        c=(3e-2, 1e-2, 3e-3, 1e-3),
        sink=(6.0, 8.0, 10.0, 12.0, 14.0),
    ),
    "ridge": Construction(
        build=partial(theory.ridge, **EIGHT, step_size=0.3, penalty=0.2),
        textbook=GradientDescent(step_size=0.3, penalty=0.2),
        prompt=NOISY,
    ),
    "heavy_ball": Construction(
        build=partial(theory.heavy_ball, **EIGHT, step_size=0.4, momentum=0.5),
        textbook=HeavyBall(step_size=0.4, momentum=0.5),
        prompt=NOISY,
    ),
    "newton": Construction(
        build=partial(theory.newton, dim=4, examples=10, alpha=1 / 40**2),
        textbook=Newton(alpha=1 / 40**2),
        prompt=regression(4, 11).prefix(),
        steps=16,
        single_steps=12,
        sink=(7.0, 8.0, 9.0, 10.0, 11.0),
    ),
    "decoder": Construction(
        build=partial(theory.decoder_gradient_descent, dim=3, points=8, step_size=0.1),
        textbook=GradientDescent(step_size=0.1),
        prompt=regression(3, 8, noise=0.1),
        single_steps=50,
    ),
    "decoder_newton": Construction(
        build=partial(theory.decoder_newton, dim=3, points=12, alpha=ALPHA),
        textbook=Newton(alpha=ALPHA),
        prompt=PREFIXES,
        steps=8,
        single_steps=15,
        single_close=2e-2,
        c=(0.8, 0.4, 0.2, 0.1, 0.05),
    ),
}


@pytest.mark.theorem
@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_the_error_falls_with_the_square_of_c(name: str) -> None:
    case = CONSTRUCTIONS[name]
    assert fitted_power([(c, case.gap(c=c)) for c in case.c]) == pytest.approx(2, rel=0.05)


@pytest.mark.theorem
@pytest.mark.parametrize("name", [name for name in CONSTRUCTIONS if name != "decoder_newton"])
def test_the_error_falls_exponentially_with_the_sink_s_score(name: str) -> None:
    case = CONSTRUCTIONS[name]
    assert fitted_rate([(sink, case.gap(sink=sink)) for sink in case.sink]) == pytest.approx(-1, rel=0.05)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_single_precision_keeps_two_digits(name: str) -> None:
    case = CONSTRUCTIONS[name]
    assert case.gap(steps=case.single_steps, dtype=torch.float32) < case.single_close


@pytest.mark.parametrize("name", ["decoder", "decoder_newton"])
def test_an_answer_does_not_depend_on_what_comes_later(name: str) -> None:
    case = CONSTRUCTIONS[name]
    changed = case.prompt.rows.clone()
    changed[:, 9:] += 1
    with torch.no_grad():
        before, after = (
            case.build()(shown, Unroll(steps=10)).predictions
            for shown in (case.prompt, replace(case.prompt, rows=changed))
        )
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert not torch.equal(before[:, :, 5:], after[:, :, 5:])


GOOD: dict[Callable[..., AlgoFormer], dict[str, Any]] = {
    theory.copy: {"dim": 2, "order": 2, "length": 5},
    theory.gradient_descent_step: {"dim": 3, "out": 1, "examples": 5, "step_size": 0.1},
    theory.representation: {"network": Network(dim=4), "out": 1, "examples": 5, "step_size": 0.1},
    theory.autoregressive: {"network": Network(dim=9), "order": 3, "length": 8, "step_size": 0.1},
    theory.chain: {"dim": 3, "layers": 2, "examples": 4, "step_size": 0.1, "slope": 0.5},
    theory.newton: {"dim": 4, "out": 1, "examples": 10, "alpha": 1e-3},
    theory.ridge: {"dim": 3, "out": 1, "examples": 8, "step_size": 0.3, "penalty": 0.2},
    theory.heavy_ball: {"dim": 3, "out": 1, "examples": 8, "step_size": 0.3, "momentum": 0.5},
    theory.decoder_gradient_descent: {"dim": 3, "points": 8, "step_size": 0.1},
    theory.decoder_newton: {"dim": 3, "points": 8, "alpha": 0.1},
    theory.decoder_newton_serial: {"dim": 3, "points": 8, "alpha": 0.1},
}
"""Every builder with arguments that it accepts."""

COUNTS = ("dim", "out", "examples", "points", "layers", "order")
NUMBERS = {
    "step_size": "step_size must be a positive number below 2/λ_max",
    "alpha": "alpha must be a positive number",
}


def refused(builder: Callable[..., AlgoFormer], words: str, **wrong: object) -> None:
    with pytest.raises(ValueError, match=words):
        builder(**(GOOD[builder] | wrong))


@pytest.mark.parametrize("builder", GOOD)
def test_counts_start_at_one(builder: Callable[..., AlgoFormer]) -> None:
    for name in set(COUNTS) & set(GOOD[builder]):
        refused(builder, f"{name} must be at least 1, got 0", **{name: 0})


@pytest.mark.parametrize("value", [0.0, -0.1, math.inf, math.nan])
@pytest.mark.parametrize("builder", GOOD)
def test_step_size_and_alpha_must_be_positive(builder: Callable[..., AlgoFormer], value: float) -> None:
    for name in set(NUMBERS) & set(GOOD[builder]):
        refused(builder, f"{NUMBERS[name]}.*, got {value}", **{name: value})


@pytest.mark.parametrize(
    ("builder", "wrong", "words"),
    [
        (theory.copy, {"length": 0}, "length must be at least 1, got 0"),
        (theory.representation, {"out": 5}, "out must be at most dim=4, so that a label fits a row; got 5"),
        (theory.newton, {"out": 5}, "out must be at most dim=4"),
        (theory.ridge, {"out": 4}, "out must be at most dim=3"),
        (theory.ridge, {"penalty": -0.1}, "penalty must be a number ≥ 0"),
        (theory.ridge, {"penalty": math.inf}, "penalty must be a number ≥ 0"),
        (theory.ridge, {"penalty": math.nan}, "penalty must be a number ≥ 0"),
        (theory.heavy_ball, {"momentum": -0.1}, r"momentum must lie in \[0, 1\)"),
        (theory.heavy_ball, {"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        (theory.heavy_ball, {"momentum": math.nan}, r"momentum must lie in \[0, 1\)"),
        (theory.autoregressive, {"length": 3}, "length must be at least 4, got 3"),
        (
            theory.autoregressive,
            {"order": 2},
            "network must read order=2 rows, so that its dim is a multiple",
        ),
        (theory.chain, {"slope": 0.0}, r"slope must lie in \(0, 1\], got 0.0; at 0 the activation loses"),
        (theory.chain, {"slope": 1.5}, r"slope must lie in \(0, 1\], got 1.5"),
    ],
)
def test_bad_arguments_are_named(
    builder: Callable[..., AlgoFormer], wrong: dict[str, float], words: str
) -> None:
    refused(builder, words, **wrong)


def test_a_keyword_that_no_builder_takes_is_refused() -> None:
    with pytest.raises(TypeError, match="dtyp"):
        theory.newton(dim=2, examples=4, alpha=1e-3, dtyp=torch.float32)  # type: ignore[call-arg]
