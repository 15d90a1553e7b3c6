"""Solvers whose algorithm is known: the controls of identification.

Run this file to identify every control at three sizes and two levels of label noise, and to write the
confusion table to results/insight/controls.json after every row. Rows of the same commit are kept, so that a
run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from algoformer import AlgoFormer, Prompt, Trace, Unroll, algorithms, programs, tasks, theory
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import Identification, filters, identify
from algoformer.problems import View, pairs
from algoformer.trace import Solver
from scripts import distill

Weights = Callable[[Tensor, Tensor, int], Tensor]
"""Weights (step, problem, feature) from features, labels and a number of steps."""


@dataclass(frozen=True)
class FromWeights:
    """A solver that answers the last question by weights computed from the examples before it."""

    weights: Weights
    view: View = pairs

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        problems = self.view(prompt)
        problem, samples = problems.questions[-1]
        features = problems.features[:, problem].double()
        labels = problems.labels[:, problem, :samples].double()
        outs = labels.shape[-1]
        shown = features[:, :samples].repeat_interleave(outs, 0)
        found = self.weights(shown, labels.mT.flatten(0, 1), unroll.steps).unflatten(1, (-1, outs))
        answers = (found * features[:, None, samples]).sum(-1)[unroll.first_step - 1 :]
        return Trace(predictions=answers[:, :, None], first_step=unroll.first_step)


def from_filter(rule: Callable[..., Tensor], *parameters: float) -> Weights:
    """Weights of a residual filter, computed in the eigenbasis of the examples."""

    def weights(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        values, vectors = torch.linalg.eigh(features.mT @ features / features.shape[1])
        solution = torch.linalg.pinv(features) @ labels[..., None]
        ratio = rule(filters.Spectrum.of(values), steps, *parameters)
        return (vectors @ ((1 - ratio) * (vectors.mT @ solution)[..., 0])[..., None])[..., 0]

    return weights


def two_steps_a_pass(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Gradient descent that takes two steps in each pass."""
    return from_filter(filters.gradient_descent, 0.2)(features, labels, 2 * steps)[1::2]


def adam(features: Tensor, labels: Tensor, steps: int, rate: float = 0.3) -> Tensor:
    """Adam on the squared error: not rotation invariant and not linear in the labels."""
    weights = features.new_zeros(features.shape[0], features.shape[2])
    first, second, found = torch.zeros_like(weights), torch.zeros_like(weights), []
    for step in range(1, steps + 1):
        rest = (features @ weights[..., None])[..., 0] - labels
        gradient = (features.mT @ rest[..., None])[..., 0] / features.shape[1]
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
        scale = (second / (1 - 0.999**step)).sqrt() + 1e-8
        weights = weights - rate * first / (1 - 0.9**step) / scale
        found.append(weights)
    return torch.stack(found)


def descent(
    step_size: float,
    *,
    residual: Callable[[Tensor], Tensor] = lambda rest: rest,
    direction: Callable[[Tensor], Tensor] = lambda gradient: gradient,
    weights: Callable[[Tensor], Tensor] = lambda found: found,
) -> Weights:
    """Gradient descent with something done to residuals, to the gradient, or to the weights it answers by."""

    def descended(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        now, found = features.new_zeros(features.shape[0], features.shape[2]), []
        for _ in range(steps):
            rest = residual((features @ now[..., None])[..., 0] - labels)
            now = now - step_size * direction((features.mT @ rest[..., None])[..., 0] / features.shape[1])
            found.append(weights(now))
        return torch.stack(found)

    return descended


def normalized(gradient: Tensor) -> Tensor:
    """The gradient with length 1."""
    return gradient / gradient.norm(dim=-1, keepdim=True)


def hashed_noise(features: Tensor, steps: int) -> Tensor:
    """Unit vectors that depend on the examples in a way no method could: (step, problem, feature)."""
    samples, dim = features.shape[1:]
    mix = torch.randn(samples * dim, steps * dim, generator=torch.Generator().manual_seed(0)).double()
    noise = torch.sin(1e3 * (features.flatten(1) @ mix)).unflatten(1, (steps, dim)).transpose(0, 1)
    return noise / noise.norm(dim=-1, keepdim=True)


def noisy(weights: Weights, size: float) -> Weights:
    """The same weights with noise of relative `size` in what is left."""

    def disturbed(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        found = weights(features, labels, steps)
        left = (torch.linalg.pinv(features) @ labels[..., None])[..., 0] - found
        return found + size * left.norm(dim=-1, keepdim=True) * hashed_noise(features, steps)

    return disturbed


def noise_only(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Weights of the right size and no meaning."""
    return 0.7 * features.shape[2] ** 0.5 * hashed_noise(features, steps)


def random_model(dim: int, examples: int, seed: int = 0, width: int = 64) -> AlgoFormer:
    """A looped transformer with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AlgoFormer(
            programs.algoformer(heads=4), dim=dim, out=1, context=2 * examples + 2, width=width
        ).eval()


@dataclass(frozen=True)
class Control:
    """A solver with its true name.

    `name` is what must be named (None: nothing may be named), `parameters` its true parameters, `build`
    makes the solver for (dim, examples). A control marked `resembles` must not be named, but the nearest
    family must be right.
    """

    build: Callable[[int, int], Solver]
    name: str | None
    parameters: Callable[[int], dict[str, float]] = lambda examples: {}
    resembles: str | None = None


def _solver(weights: Weights, name: str | None, resembles: str | None = None, **parameters: float) -> Control:
    return Control(lambda dim, examples: FromWeights(weights), name, lambda examples: parameters, resembles)


def _library(build: Callable[[int, int], Solver], name: str | None, **parameters: float) -> Control:
    return Control(build, name, lambda examples: parameters)


TEXTBOOK: dict[str, Control] = {
    "GD 0.2": _library(
        lambda d, n: algorithms.GradientDescent(step_size=0.2), "gradient descent", **{"η": 0.2}
    ),
    "GD optimal": _library(
        lambda d, n: algorithms.GradientDescent(), "gradient descent, step 2c/(λmax+λmin)", c=1.0
    ),
    "GD practical": _library(
        lambda d, n: algorithms.GradientDescent(step_size="practical"), "gradient descent, step c/λmax", c=1.8
    ),
    "heavy ball 0.2 0.5": _library(
        lambda d, n: algorithms.HeavyBall(step_size=0.2, momentum=0.5), "heavy ball", **{"η": 0.2, "β": 0.5}
    ),
    "heavy ball optimal": _library(lambda d, n: algorithms.HeavyBall(), "heavy ball, optimal"),
    "Newton fixed": Control(
        lambda d, n: algorithms.Newton(alpha=1 / (4 * n) ** 2), "Newton from αS", lambda n: {"α": 1 / 16}
    ),
    "Newton": _library(lambda d, n: algorithms.Newton(), "Newton from αS, α = c/λmax²", c=1.0),
    "ridge": Control(lambda d, n: algorithms.Ridge(strength=2.0), "ridge", lambda n: {"ρ": 2 / n}),
    "least squares": _library(lambda d, n: algorithms.LeastSquares(), "least squares"),
    "averaging": _library(lambda d, n: algorithms.Averaging(), "averaging", c=1.0),
    "zero": _library(lambda d, n: algorithms.Zero(), None),
    "conjugate gradients": _solver(filters.conjugate_gradients, "conjugate gradients"),
    "steepest descent": _solver(filters.steepest_descent, "steepest descent"),
    "Kaczmarz": _solver(filters.kaczmarz, "Kaczmarz"),
    "causal GD": _solver(
        lambda x, y, k: filters.causal_gradient_descent(x, y, k, 0.4), "causal gradient descent", **{"η": 0.4}
    ),
    "GD++": _solver(from_filter(filters.gd_plus_plus, 0.25, 0.1), "GD++", **{"η": 0.25, "γ": 0.1}),
    "Chebyshev": _solver(from_filter(filters.chebyshev, 0.1, 4.0), "Chebyshev", a=0.1, b=4.0),
    "Nesterov": _solver(from_filter(filters.nesterov, 0.2, 0.6), "Nesterov", **{"η": 0.2, "β": 0.6}),
    "proximal point": _solver(from_filter(filters.proximal_point, 0.4), "proximal point", **{"ρ": 0.4}),
    "damped Newton": _solver(
        from_filter(filters.damped_newton, 0.7, 0.2), "damped Newton", **{"η": 0.7, "ρ": 0.2}
    ),
    "Newton from αI": _solver(from_filter(filters.newton_from_identity, 0.1), "Newton from αI", **{"α": 0.1}),
    "third order": _solver(
        from_filter(filters.third_order, 0.08), "third-order iteration from αI", **{"α": 0.08}
    ),
    "ridge descent": _solver(
        from_filter(filters.ridge_descent, 0.2, 0.1), "ridge descent", **{"η": 0.2, "ρ": 0.1}
    ),
    "GD, two steps a pass": _solver(two_steps_a_pass, "gradient descent", **{"η": 0.2}),
    "GD 0.2 + 10 % noise": _solver(
        noisy(from_filter(filters.gradient_descent, 0.2), 0.1), "gradient descent", **{"η": 0.2}
    ),
    "Newton from αI + 50 % noise": _solver(
        noisy(from_filter(filters.newton_from_identity, 0.1), 0.5), None, "Newton from αI"
    ),
}
"""Textbook methods, and two of them with noise."""

SLOW: dict[str, Weights] = {
    "GD, negative weights set to 0": descent(0.02, weights=torch.relu),
    "GD on the signs of residuals": descent(0.1, residual=torch.sign),
    "GD of steps of length 0.02": descent(0.02, direction=normalized),
    "sign GD": descent(0.01, direction=torch.sign),
}
"""Slow methods that are in no family: every other slow method explains nearly all that they leave."""

NULLS: dict[str, Control] = {
    "Adam": _solver(adam, None),
    "noise": _solver(noise_only, None),
    "GD on tanh of residuals": _solver(descent(0.3, residual=torch.tanh), None),
    **{name: _solver(weights, None) for name, weights in SLOW.items()},
    "conjugate gradients + 100 % noise": _solver(noisy(filters.conjugate_gradients, 1.0), None),
    "random weights, seed 0": Control(lambda d, n: random_model(d, n, 0), None),
    "random weights, seed 1": Control(lambda d, n: random_model(d, n, 1), None),
}
"""Solvers that are in no family: none may be named."""

BUILT: dict[str, Control] = {
    "built GD": _library(
        lambda d, n: theory.gradient_descent(dim=d, examples=n, step_size=0.2),
        "gradient descent",
        **{"η": 0.2},
    ),
    "built Newton": Control(
        lambda d, n: theory.newton(dim=d, examples=n, alpha=1 / (4 * n) ** 2),
        "Newton from αS",
        lambda n: {"α": 1 / 16},
    ),
    "built heavy ball": _library(
        lambda d, n: theory.heavy_ball(dim=d, examples=n, step_size=0.2, momentum=0.5),
        "heavy ball",
        **{"η": 0.2, "β": 0.5},
    ),
    "built ridge": _library(
        lambda d, n: theory.ridge(dim=d, examples=n, step_size=0.2, penalty=0.1),
        "ridge descent",
        **{"η": 0.2, "ρ": 0.1},
    ),
    "built decoder GD": _library(
        lambda d, n: theory.decoder_gradient_descent(dim=d, points=n + 1, step_size=0.2),
        "gradient descent",
        **{"η": 0.2},
    ),
}
"""Models whose weights come from a theorem."""


LOOPS: dict[str, Control] = {
    f"distilled {name}, seed {seed}": Control(
        lambda d, n, teacher=teacher, seed=seed: student(teacher, seed), name, lambda n, true=true: true
    )
    for seed in (0, 1)
    for teacher, name, true in (
        ("gradient-descent", "gradient descent", {"η": distill.STEP_SIZE}),
        ("newton", "Newton from αI", {"α": distill.ALPHA}),
    )
}
"""Trained loops: linear attention that was distilled from an algorithm, at size (3, 12)."""


@cache
def student(teacher: str, seed: int) -> Solver:
    """Train a student of `scripts/distill.py`."""
    return cast(Solver, distill.distilled(teacher, seed=seed)[0])


def outcome(control: Control, found: Identification, examples: int) -> tuple[bool, float]:
    """Return whether the verdict is right, and the largest relative error of a parameter."""
    true = control.parameters(examples)
    off = [abs(found.nearest.parameters.get(name, 0.0) / value - 1) for name, value in true.items()]
    right = found.name == control.name
    if control.resembles is not None:
        right &= found.status == "resembles" and found.nearest.name.startswith(control.resembles)
    return right, max(off, default=0.0) if right and control.name else 0.0


SIZES: dict[tuple[int, int], dict[str, Control]] = {
    (3, 8): TEXTBOOK | NULLS | BUILT,
    (3, 12): LOOPS,
    (8, 24): TEXTBOOK | NULLS,
    (20, 40): TEXTBOOK | NULLS,
}
"""The controls of the confusion table by coordinates and examples."""

PASSES = dict.fromkeys(LOOPS, distill.PASSES)
"""Passes that are identified, where it is not 8."""


def row_of(label: str, dim: int, examples: int, noise: float) -> dict[str, Any]:
    """Identify one control at one size and noise level."""
    control = SIZES[dim, examples][label]
    task = tasks.LinearRegression(dim=dim, points=examples + 1, noise=noise)
    solver, queries = control.build(dim, examples), dim + (6 if label in BUILT else 24)
    start = time.process_time()
    found = identify(solver, task, steps=PASSES.get(label, 8), prompts=40, queries=queries)
    right, off = outcome(control, found, examples)
    nearest = found.nearest
    return (
        {"control": label, "true": control.name, "named": found.name, "status": found.status}
        | {"nearest": nearest.name, "share": round(nearest.share, 5), "right": right}
        | {"parameters": nearest.parameters, "off": off, "dim": dim, "examples": examples}
        | {"noise": noise, "null": label in NULLS, "seconds": round(time.process_time() - start, 2)}
        | {"commit": source_commit()}
    )


def is_exact(row: dict[str, Any]) -> bool:
    """Return whether a solver runs its algorithm exactly: without added noise, and without training."""
    return "noise" not in row["control"] and row["control"] not in LOOPS


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the table with its counts."""
    nulls = [row for row in rows if row["null"]]
    return {
        "right": sum(row["right"] for row in rows),
        "controls": len(rows),
        "nulls_named": sum(row["named"] is not None for row in nulls),
        "nulls": len(nulls),
        "largest_parameter_error": max((row["off"] for row in rows if is_exact(row)), default=0.0),
        "largest_parameter_error_of_loops": max(
            (row["off"] for row in rows if row["control"] in LOOPS), default=0.0
        ),
        "rows": rows,
        "setting": {
            "command": "python -m tests.insight.controls",
            "torch": torch.__version__,
            "device": "cpu",
        },
    }


def main() -> None:
    """Write the confusion table after every row; rows that the file has already are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/insight/controls.json"))
    out = parser.parse_args().out
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else []
    rows = [row for row in rows if row["commit"] == source_commit()]
    known = {(row["control"], row["dim"], row["examples"], row["noise"]) for row in rows}
    for ((dim, examples), controls), noise in itertools.product(SIZES.items(), (0.0, 0.5)):
        for label in controls:
            if (label, dim, examples, noise) not in known:
                rows.append(row_of(label, dim, examples, noise))
                print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
                write_json(out, summary(rows))
    print({key: value for key, value in summary(rows).items() if key not in ("rows", "setting")})


if __name__ == "__main__":
    main()
