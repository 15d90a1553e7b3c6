"""How results decide each of the paper's claims: the outcome, and the numbers that say so.

Every decision is a function of results by name. A run that was not made decides nothing (`Missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from algoformer.evaluation import Curve
from algoformer.model import Layers
from algoformer.report import show
from paper.archive import Results
from paper.comparison import (
    Decision,
    Missing,
    all_hold,
    at_its_rate,
    beats,
    beats_at_its_rate,
    differing,
    need,
    seeds_of,
)
from paper.result import Result
from paper.runs import FAR, FIXED_STEP

TASKS = ("representation", "autoregressive", "chain")

CLEARLY = 2.0
""""Significantly" in the paper is read as at least this factor."""

STEADY = 1.05
"""An error that changes by less than this factor counts as the same."""


def errors_fall_with_samples(results: Results) -> Decision:
    """At a quarter, a half, three quarters and all samples, no error is above an earlier one's band."""
    rises, words, missing = [], [], []
    for name in (f"{task}/{model}" for task in TASKS for model in ("algoformer", "standard", "looped")):
        if name not in results:
            missing.append(name)
            continue
        curve = results[name].main.by_sample[results[name].trained_depth]
        text = f"{name} {show(curve.error[0])} → {show(curve.final)}"
        words.append(text)
        if _rises(curve):
            rises.append(text)
    if rises:
        return False, f"rises beyond its band: {', '.join(rises)}"
    return _so_far([True] * len(words), words, missing)


def _so_far(outcomes: Sequence[bool | None], words: Sequence[str], missing: Sequence[str]) -> Decision:
    """A claim about all of several things: one that fails decides, one that is missing leaves it open."""
    if not words:
        raise Missing(missing[0])
    text = "; ".join(words)
    if not missing:
        return all_hold(outcomes), text
    return (False if False in outcomes else None), f"so far {text}; not run: {', '.join(missing)}"


def _rises(curve: Curve) -> bool:
    places = sorted({round(quarter * (len(curve.x) - 1) / 4) for quarter in range(5)})
    pairs = [(early, late) for early in places for late in places if early < late]
    return any(curve.low[late] > curve.high[early] for early, late in pairs)


def beats_both_on_all_tasks(results: Results) -> Decision:
    """On every task, with every seed against every seed of the other.

    Each model stands at the rate that suits it, where a lower one was tried; controls are named beside it.
    """
    outcomes, words, missing, seeds = [], [], [], []
    for task in TASKS:
        for other in ("standard", "looped"):
            absent = [name for name in (f"{task}/algoformer", f"{task}/{other}") if name not in results]
            if absent:
                missing += [name for name in absent if name not in missing]
                continue
            outcome, text = beats_at_its_rate(results, f"{task}/algoformer", f"{task}/{other}")
            outcomes.append(outcome)
            words.append(f"{task}: {text} of {other}'s")
            seeds.append(len(seeds_of(results, f"{task}/algoformer")))
    holds, because = _so_far(outcomes, words, missing)
    because += f" ({min(seeds)} seed{'' if min(seeds) == 1 else 's'})"
    return holds, "; ".join([because, *_beside_controls(results)])


def _beside_controls(results: Results) -> list[str]:
    """AlgoFormer's error as a share of the baselines' that have its number of parameters."""
    return [
        f"{task} beside {other}: {beats([results[f'{task}/algoformer']], [results[f'{task}/{other}']])[1]}"
        for task in TASKS
        for other in ("standard-3", "looped-3")
        if {f"{task}/algoformer", f"{task}/{other}"} <= set(results)
    ]


def chain_needs_pre_and_post(results: Results) -> Decision:
    """AlgoFormer and standard have at most half the looped transformer's error, in the mean over seeds."""
    models = [seeds_of(results, f"chain/{name}") for name in ("algoformer", "standard", "looped")]
    own, plain, loop = (sum(run.error for run in runs) / len(runs) for runs in models)
    ratio = loop / max(own, plain)
    words = (
        f"AlgoFormer {show(own)}, standard {show(plain)}, looped {show(loop)}: "
        f"{show(ratio)} times the worse of the two"
    )
    if differing([run for runs in models for run in runs]):
        return None, f"{words} (trained over differing steps)"
    return ratio >= CLEARLY, words


def wider_window_is_steadier(results: Results) -> Decision:
    """S = error at 200 over the least error, trained at a fixed depth of 20: falls as ΔT grows."""
    runs = [need(results, f"loops/fixed-20-{window}") for window in (5, 10, 15)]
    unrest = [run.main.by_step.at(FAR) / min(run.main.by_step.error) for run in runs]
    falls = all(later <= earlier * STEADY for earlier, later in pairwise(unrest))
    words = ", ".join(f"ΔT = {w}: {show(s)}" for w, s in zip((5, 10, 15), unrest, strict=True))
    if differing(runs):
        return None, f"S = error at 200 / least error: {words} (trained over differing steps)"
    if max(unrest) < STEADY:
        return False, f"S = error at 200 / least error is the same for all: {words}"
    return falls and unrest[0] > unrest[-1] * STEADY, f"S = error at 200 / least error: {words}"


def steady_beyond_training(results: Results) -> Decision:
    """Trained at a fixed depth of 20, the error at 200 is no larger, and has stopped moving."""
    fixed = need(results, "loops/fixed-20-15").main.by_step
    growth = fixed.at(FAR) / fixed.at(20)
    moving = abs(fixed.at(FAR) - fixed.at(FAR - 1)) / fixed.at(FAR)
    words = f"fixed depth: error at 200 / at 20 = {show(growth)}, last move {show(moving)}"
    held = results.get("loops/holding-20-15")
    if held is not None:
        words += f"; with random burn-in {show(held.main.by_step.at(FAR) / held.main.by_step.at(20))}"
    if 1.0 < growth < STEADY and moving < 0.01:
        return None, f"{words}: stable, but not improving"
    return growth <= 1.0 and moving < 0.01, words


def more_layers_and_heads_help(results: Results) -> Decision:
    """The error falls from 1 to 3 layers and from 1 to 8 heads; what comes after may be worse."""
    rows = {
        "layers": {count: f"layers/algoformer-{count}" for count in (1, 2, 3, 4)},
        "heads": {count: f"heads/algoformer-{count}" for count in (1, 2, 4, 8, 16)},
    }
    rows["heads"][_heads_of_one_layer(results)] = "layers/algoformer-1"
    outcomes, words, missing = [], [], []
    for what, names in rows.items():
        known = {count: at_its_rate(results, name)[0] for count, name in names.items() if name in results}
        missing += [name for name in list(names.values())[:-1] if name not in results]
        words.append(f"{what} " + ", ".join(f"{n}: {_with_steps(result)}" for n, result in known.items()))
        for earlier, later in pairwise(list(names.values())[:-1]):
            if earlier in results and later in results:
                outcomes.append(beats_at_its_rate(results, later, earlier)[0])
    if not outcomes:
        raise Missing(missing[0])
    return _so_far(outcomes, words, list(dict.fromkeys(missing)))


def _heads_of_one_layer(results: Results) -> int:
    known = results.get("layers/algoformer-1")
    first = known.experiment.program.parts[0] if known is not None and known.experiment is not None else None
    return first.heads if isinstance(first, Layers) else 8


def _with_steps(result: Result) -> str:
    return f"{show(result.error)} ({result.steps:,} steps)"


def beats_standard_of_as_many_layers(results: Results) -> Decision:
    """With bands apart at 1, 2, 3 and 4 layers."""
    outcomes, words, missing = [], [], []
    for count in (1, 2, 3, 4):
        names = [f"layers/algoformer-{count}", f"layers/standard-{count}"]
        absent = [name for name in names if name not in results]
        missing += absent
        if not absent:
            outcome, text = beats_at_its_rate(results, *names)
            outcomes.append(outcome)
            words.append(f"{count}: {text}")
    same = [
        f"{count} against {3 * count} (same parameters): "
        + beats_at_its_rate(results, f"layers/algoformer-{count}", f"layers/standard-{3 * count}")[1]
        for count in (1, 2, 3, 4)
        if {f"layers/algoformer-{count}", f"layers/standard-{3 * count}"} <= set(results)
    ]
    holds, because = _so_far(outcomes, words, missing)
    because = "error as a share of standard's with as many layers: " + because
    return holds, "; ".join([because, *same])


def early_lead_then_newton(results: Results) -> Decision:
    """After 5 iterations ahead of both; Newton reaches rounding by 30; the trained model does not."""
    own, newton = (need(results, f"linear/{name}").main.by_step for name in ("algoformer", "newton"))
    descent = _better_descent(results, "linear", 5)
    early = own.at(5) < min(descent.at(5), newton.at(5))
    pairs = zip(own.x, own.error, newton.error, strict=False)
    crossing = next((f"{x:g}" for x, mine, theirs in pairs if x > 5 and theirs < mine), "nowhere")
    exact = newton.at(30) < 1e-10
    return early and exact and own.final > newton.final, (
        f"after 5: AlgoFormer {show(own.at(5))}, gradient descent {show(descent.at(5))}, Newton "
        f"{show(newton.at(5))}; Newton ahead from {crossing} and at {show(newton.at(30))} after 30; "
        f"AlgoFormer ends at {show(own.final)}"
    )


def noise_slows_convergence(results: Results) -> Decision:
    """Iterations until Newton has made 99 % of its way, without noise and with σ = 1."""
    counts = []
    for group in ("linear", "linear-noise-0.1", "linear-noise-1"):
        counts.append(iterations_to_settle(need(results, f"{group}/newton").main.by_step))
    words = f"Newton has made 99 % of its way after {counts[0]}, {counts[1]}, {counts[2]} iterations"
    limits = {
        name: results.get(f"linear-noise-1/{name}") for name in ("algoformer", "oracle", "least-squares")
    }
    known = [f"{name} {show(result.error)}" for name, result in limits.items() if result is not None]
    if known:
        words += "; only the limit changes, at σ = 1: " + ", ".join(known)
    return counts[2] > counts[0] + 1, words


def iterations_to_settle(curve: Curve, share: float = 0.01) -> int:
    """The first x from which on the error stays within `share` of the way from its start to its end."""
    way = abs(curve.error[0] - curve.final)
    settled = curve.x[-1]
    for x, error in zip(reversed(curve.x), reversed(curve.error), strict=True):
        if abs(error - curve.final) > share * way:
            break
        settled = x
    return int(settled)


def solves_by_gradient_descent(results: Results) -> Decision:
    """A model below gradient descent on the true features, after as many iterations, does something else.

    It is held against the better of two: one step that is best for all prompts, and one for each prompt.
    """
    own = need(results, "representation/algoformer")
    depth = own.trained_depth
    words = []
    for name, what in {FIXED_STEP: "one step for all", "gd": "1.8/λ_max of each prompt"}.items():
        curve = need(results, f"representation/{name}").main.by_step
        words.append(f"{show(curve.at(depth))} ({what}), {show(curve.final)} after {curve.x[-1]:g}")
    descent = _better_descent(results, "representation", depth)
    below = own.band[1] < descent.low[descent.x.index(depth)]
    return (False if below else None), (
        f"AlgoFormer {show(own.error)} after {depth}; gradient descent on Φ* after {depth}: "
        + "; ".join(words)
    )


def _better_descent(results: Results, group: str, depth: int) -> Curve:
    both = [need(results, f"{group}/{name}").main.by_step for name in (FIXED_STEP, "gd")]
    return min(both, key=lambda curve: curve.at(depth))
