"""`certify`: run a solver far beyond its trained depth and report what its answers and states do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.evaluation import bootstrap, evaluation_prompts
from algoformer.evaluation.curve import resampled_means
from algoformer.evaluation.solvers import full_precision, given_to, own_steps
from algoformer.insight.answers import check_solver, every_answer, precision_of
from algoformer.insight.certificate import AnswerClass, DepthCertificate, StateReport
from algoformer.insight.growth import disturbance_growth, token_radii
from algoformer.insight.instrument import LoopMap, loop_map
from algoformer.insight.stopping import recommend
from algoformer.insight.trajectory import (
    ORDER,
    TAIL,
    Trajectory,
    check_reach,
    classify,
    follow,
    read_depths,
)
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.tasks import PuzzleTask, Task
from algoformer.trace import Solver

LEAST_PROMPTS = 8
"""With fewer prompts the band of the error ratio says nothing."""

PROMPTS, PUZZLES = 12, 48
"""The default numbers of prompts, and of puzzles."""

_UNCLEAR = 2.0
"""An error holds if its band excludes that it grows by this factor."""

_FLOOR = 1e-9
"""Errors below this share of the labels' variance count as zero."""


def certify(
    solver: Solver,
    task: Task,
    *,
    reach: int = 50,
    prompts: int | None = None,
    seed: int = 0,
    trained: int | None = None,
    derivatives: bool = True,
) -> DepthCertificate:
    """Certify how a solver's answers behave to `reach` times its trained depth.

    The last question of held-out prompts is answered after many passes, or all questions where answers are
    classes: the answers are then probabilities, and the error is their squared distance from the right class
    (the Brier score), as a mean over the questions. For an `AlgoFormer` whose traced part is a loop, the
    states are followed too: each token's class at the far end, the growth of a disturbance along the
    trajectory, and for causal attention the exact spectrum of one prompt.

    Args:
        solver: anything that answers prompts.
        task: where the prompts come from.
        reach: the depth to run to, in multiples of the trained depth.
        prompts: held-out prompts; by default 12, or 48 for puzzles, many of which have hardly any error.
        seed: of the held-out prompts.
        trained: the trained depth; by default the program's own.
        derivatives: whether to measure growth and spectrum, which needs float64 copies of the model.

    Raises:
        ValueError: the model has no loop, or there are too few prompts.
    """
    check_solver(solver)
    if prompts is None:
        prompts = PUZZLES if isinstance(task, PuzzleTask) else PROMPTS
    check_count("prompts", prompts)
    if prompts < LEAST_PROMPTS:
        raise ValueError(f"prompts must be at least {LEAST_PROMPTS} for a band of the error, got {prompts}")
    if trained is not None and (type(trained) is not int or trained < 1):
        raise ValueError(
            f"trained must be a whole number of passes, at least 1, got {trained}; leave it out for the "
            "program's own"
        )
    check_reach(reach)
    prompt = _questions(evaluation_prompts(task, count=prompts, seed=seed), solver)
    prompt = given_to(solver, prompt) if isinstance(solver, torch.nn.Module) else prompt.to(torch.float64)
    trained = own_steps(solver, prompt) if trained is None else trained
    far = reach * trained
    depths = read_depths(trained, far)
    states = None
    with full_precision(solver, torch.device("cpu")):
        if isinstance(solver, AlgoFormer):
            loop = loop_map(solver, prompt)
            run = follow(loop, depths)
            answers = run.answers
            states = state_report(loop, run)
        else:
            answers = every_answer(solver, prompt, far)[[depth - 1 for depth in depths]]
    if derivatives and isinstance(solver, AlgoFormer) and states is not None:
        double = loop_map(solver, prompt.select(slice(0, 6)), dtype=torch.float64)
        states = with_growth(states, double)
    setting = {"solver": type(solver).__name__, "task": type(task).__name__, "prompts": prompts, "seed": seed}
    if prompt.classes:
        setting["error"] = "Brier score"
    setting["precision"] = str(precision_of(solver)).removeprefix("torch.")
    return _certificate(
        answers, prompt, depths, trained=trained, scale=task.scale, states=states, setting=setting
    )


def _questions(prompt: Prompt, solver: Solver) -> Prompt:
    """Return the last question of regression, which has the most samples, and all questions of a puzzle."""
    if not prompt.classes:
        return prompt.prefix()
    return prompt.for_attention(causal=getattr(solver, "causal", True))


def state_report(loop: LoopMap, run: Trajectory) -> StateReport:
    """Classify the states at the end of a run."""
    classes, periods = classify(run.tail)
    by_prompt = Counter(max(row, key=ORDER.index) for row in classes)  # the most restless token of each
    by_token = Counter(name for row in classes for name in row)
    by_read = Counter(row[token] for row in classes for token in loop.read_rows)
    cycling = Counter(str(period) for period in periods.flatten().tolist() if period)
    passes = tuple(sorted({*range(1, min(40, len(run.residual)) + 1), *run.depths}))
    largest = run.residual.amax(-1)[[step - 1 for step in passes]]
    return StateReport(
        prompts={name: by_prompt.get(name, 0) for name in ORDER},
        tokens=_shares(by_token),
        read=_shares(by_read),
        periods=dict(sorted(cycling.items(), key=lambda item: int(item[0]))),
        residual=tuple(largest.double().median(1).values.tolist()),
        passes=passes,
    )


def with_growth(states: StateReport, loop: LoopMap) -> StateReport:
    """Return the report with growth of a disturbance and, for a causal loop, the spectrum of one prompt."""
    growth, state = disturbance_growth(loop)
    radii: list[float] = []
    stable = not states.prompts["diverges"] and bool(torch.isfinite(state).all())
    if stable and loop.token_block is not None:
        radii = token_radii(loop, state)
    return replace(states, **growth.for_report(), radii=tuple(radii))


@dataclass(frozen=True)
class _Errors:
    """Errors of the answers, (depth, prompt), and the answers behind them, (depth, prompt, number)."""

    answers: Tensor
    errors: Tensor
    depths: Sequence[int]
    scale: float

    @property
    def rms(self) -> Tensor:
        """The root mean square error after the last pass, in the units of an answer."""
        return (self.errors[-1].mean() * self.scale).clamp(min=_FLOOR * self.scale).sqrt()

    def at(self, depth: int) -> Tensor:
        """Return the errors of all prompts after a pass."""
        return self.errors[list(self.depths).index(depth)]

    def peak(self, trained: int) -> int | None:
        """Return the depth of the largest error in between, if it is far above those at both ends."""
        means = self.errors.mean(1).nan_to_num(torch.inf)
        first = list(self.depths).index(trained)
        highest = first + int(means[first:].argmax())
        ends = torch.maximum(means[first], means[-1]).clamp(min=_FLOOR)
        return self.depths[highest] if means[highest] > _UNCLEAR * ends else None


def _certificate(
    answers: Tensor,
    prompt: Prompt,
    depths: Sequence[int],
    *,
    trained: int,
    scale: float,
    states: StateReport | None,
    setting: dict[str, Any],
) -> DepthCertificate:
    target = prompt.targets if prompt.clean is None else prompt.clean
    if prompt.classes:
        answers = answers.double().softmax(-1)
    gaps = (answers - target).double()  # (depth, prompt, point, out)
    # all answers of a prompt as one vector, whose squared length is the mean over the questions
    gaps, answers = (numbers.double().flatten(-2) / prompt.points**0.5 for numbers in (gaps, answers))
    found = _Errors(answers, gaps.square().sum(-1) / scale, depths, scale)
    before, after, peak = found.at(trained), found.errors[-1], found.peak(trained)
    judged = after if peak is None else found.at(peak)
    ratio, band, typical = _ratios(before, judged)
    swing = _swing(found)
    means = found.errors.mean(1)
    sound = means.nan_to_num(torch.inf)
    worst = after.nan_to_num(torch.inf).argsort(descending=True)[:3].tolist()
    close = [index for index, depth in enumerate(depths) if depth == index + 1]
    # `Converged` looks at logits, which may still move when the probabilities of classes do not
    shown = None if prompt.classes else found.answers[close]
    return DepthCertificate(
        answers=_answer_class(ratio, band, typical, swing, judged),
        peak=peak,
        trained=trained,
        far=depths[-1],
        depths=tuple(depths),
        error=tuple(means.tolist()),
        ratio=ratio,
        ratio_band=band,
        typical=typical,
        swing=swing,
        best_depth=depths[int(sound.argmin())],
        steady_from=_steady_from(found),
        stopping=recommend(shown, found.errors[close].nan_to_num(torch.inf)),
        worst=tuple((number, float(before[number]), float(after[number])) for number in worst),
        states=states,
        setting=setting,
    )


def _ratios(before: Tensor, after: Tensor) -> tuple[float, tuple[float, float], tuple[float, float, float]]:
    """Return the ratio of mean errors, its band, and the ratio of a typical prompt with its band."""
    if not bool(torch.isfinite(torch.stack([before, after])).all()):
        return math.inf, (math.inf, math.inf), (math.inf, math.inf, math.inf)
    ratio = after.mean().clamp(min=_FLOOR) / before.mean().clamp(min=_FLOOR)
    # the ratio of resampled means: where one prompt has nearly all the error, its linearization is too narrow
    means = resampled_means(np.asarray(torch.stack([before, after], dim=1).clamp(min=_FLOOR)))
    low, high = np.quantile(means[:, 1] / means[:, 0], (0.05, 0.95))
    logs = after.clamp(min=_FLOOR).log() - before.clamp(min=_FLOOR).log()
    band = bootstrap(np.asarray(logs))
    typical = float(logs.mean().exp()), float(np.exp(band.low)), float(np.exp(band.high))
    return float(ratio), (float(low), float(high)), typical


def _answer_class(
    ratio: float, band: tuple[float, float], typical: tuple[float, float, float], swing: float, after: Tensor
) -> AnswerClass:
    if not np.isfinite(ratio) or ratio > 1e6 or (float(after.mean()) > 100 and ratio > 1.2):
        return "diverge"
    # one prompt with a large error can hide that all others grow: the typical prompt counts too
    if ratio > 1.2 and (band[0] > 1 or typical[1] > 1):
        return "grow"
    if ratio < 0.8 and band[1] < 1:
        return "improve"
    if band[1] > _UNCLEAR:
        return "unclear"
    return "swing" if swing > 0.1 else "hold"


def _swing(found: _Errors) -> float:
    last = found.answers[-TAIL:]
    if not bool(torch.isfinite(last).all()):
        return float("inf")
    return float(last.std(0).square().sum(-1).mean().sqrt() / found.rms)


def _steady_from(found: _Errors) -> int | None:
    final = found.answers[-1]
    if not bool(torch.isfinite(final).all()):
        return None
    moved = (found.answers - final).square().sum(-1).mean(1).sqrt()
    unsteady = torch.nonzero(~(moved <= 0.1 * found.rms)).flatten().tolist()
    first = unsteady[-1] + 1 if unsteady else 0
    # the last passes are compared with themselves; a run that only comes close there is not steady
    compared = len(found.depths) - min(TAIL, len(found.depths) // 2)
    return found.depths[first] if first < compared else None


def _shares(counts: Counter[Any]) -> dict[str, float]:
    total = max(1, sum(counts.values()))
    return {name: counts.get(name, 0) / total for name in ORDER}
