"""How results decide each of the paper's claims: the outcome, and the numbers that say so.

Every decision is a function of results by name. A run that was not made decides nothing (`Missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from algoformer.evaluation import Curve
from algoformer.experiments.pictures import Results
from algoformer.experiments.result import Result
from algoformer.experiments.runs import FAR, FIXED_STEP
from algoformer.model.cost import Cost, cost
from algoformer.model.presets import algoformer, looped, standard
from algoformer.model.program import Program
from algoformer.report.numbers import show
from algoformer.trace import Unroll

TASKS = ("representation", "autoregressive", "chain")

MODELS: dict[str, Program] = {"standard": standard(), "looped": looped(), "AlgoFormer": algoformer()}

CLEARLY = 2.0
""""Significantly" in the paper is read as at least this factor."""

STEADY = 1.05
"""An error that changes by less than this factor counts as the same."""

Decision = tuple[bool | None, str]
"""Whether the claim holds, None where the numbers leave it open; and the numbers."""


class Missing(Exception):
    """A run that a claim needs was not made."""


def need(results: Results, name: str) -> Result:
    """The result of that name; `Missing` if it is not there."""
    if name not in results:
        raise Missing(name)
    return results[name]


def errors_fall_with_samples(results: Results) -> Decision:
    """At a quarter, a half, three quarters and all samples, no error is above an earlier one's band."""
    rises, words = [], []
    for task in TASKS:
        for model in ("algoformer", "standard", "looped"):
            name = f"{task}/{model}"
            result = need(results, name)
            curve = result.main.by_sample[result.trained_depth]
            text = f"{name} {show(curve.error[0])} → {show(curve.final)}"
            if _rises(curve):
                rises.append(text)
            if model == "algoformer":
                words.append(text)
    if rises:
        return False, f"rises beyond its band: {', '.join(rises)}"
    return True, "; ".join(words)


def _rises(curve: Curve) -> bool:
    places = sorted({round(quarter * (len(curve.x) - 1) / 4) for quarter in range(5)})
    pairs = [(early, late) for early in places for late in places if early < late]
    return any(curve.low[late] > curve.high[early] for early, late in pairs)


def beats_both_on_all_tasks(results: Results) -> Decision:
    """With bands apart on every task; seeds, where there are several, all together."""
    outcomes, words = [], []
    for task in TASKS:
        own = _seeds(results, f"{task}/algoformer")
        for other in ("standard", "looped"):
            outcome, text = _beats(own, _seeds(results, f"{task}/{other}"))
            outcomes.append(outcome)
            words.append(f"{task}: {text} of {other}'s")
    seeds = min(len(_seeds(results, f"{task}/algoformer")) for task in TASKS)
    return _all(outcomes), "; ".join(words) + f" ({seeds} seed{'' if seeds == 1 else 's'})"


def chain_needs_pre_and_post(results: Results) -> Decision:
    """AlgoFormer and standard have at most half the looped transformer's error."""
    own, plain, loop = (need(results, f"chain/{name}") for name in ("algoformer", "standard", "looped"))
    ratio = loop.error / max(own.error, plain.error)
    return ratio >= CLEARLY, (
        f"AlgoFormer {show(own.error)}, standard {show(plain.error)}, looped {show(loop.error)}: "
        f"{show(ratio)} times the worse of the two"
    )


def wider_window_is_steadier(results: Results) -> Decision:
    """S = error at 200 over the least error, trained at a fixed depth of 20: falls as ΔT grows."""
    unrest = []
    for window in (5, 10, 15):
        curve = need(results, f"loops/fixed-20-{window}").main.by_step
        unrest.append(curve.at(FAR) / min(curve.error))
    falls = all(later <= earlier * STEADY for earlier, later in pairwise(unrest))
    words = ", ".join(f"ΔT = {w}: {show(s)}" for w, s in zip((5, 10, 15), unrest, strict=True))
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
    return growth <= 1.0 and moving < 0.01, words


def more_layers_and_heads_help(results: Results) -> Decision:
    """The error falls from 1 to 3 layers and from 1 to 8 heads; what comes after may be worse."""
    layers = [need(results, f"layers/algoformer-{count}") for count in (1, 2, 3)]
    heads = [need(results, f"heads/algoformer-{count}") for count in (1, 2, 4)] + [layers[0]]
    outcomes = [_beats([later], [earlier])[0] for row in (layers, heads) for earlier, later in pairwise(row)]
    words = f"layers 1, 2, 3: {_listed(layers)}; heads 1, 2, 4, 8: {_listed(heads)}"
    for name, label in {"layers/algoformer-4": "4 layers", "heads/algoformer-16": "16 heads"}.items():
        if name in results:
            words += f"; {label}: {show(results[name].error)}"
    return _all(outcomes), words


def beats_standard_of_as_many_layers(results: Results) -> Decision:
    """With bands apart at 1, 2, 3 and 4 layers."""
    outcomes, words = [], []
    for count in (1, 2, 3, 4):
        own = need(results, f"layers/algoformer-{count}")
        outcome, text = _beats([own], [need(results, f"layers/standard-{count}")])
        outcomes.append(outcome)
        words.append(f"{count}: {text}")
    for count in (1, 2, 3, 4):
        same = results.get(f"layers/standard-{3 * count}")
        if same is not None:
            own = need(results, f"layers/algoformer-{count}")
            words.append(f"{count} against {3 * count} (same parameters): {_beats([own], [same])[1]}")
    return _all(outcomes), "error as a share of standard's with as many layers: " + ", ".join(words)


def early_lead_then_newton(results: Results) -> Decision:
    """After 5 iterations ahead of both; Newton reaches rounding by 30; the trained model does not."""
    own, newton = (need(results, f"linear/{name}").main.by_step for name in ("algoformer", "newton"))
    descent = _better_descent(results, "linear", 5)
    early = own.at(5) < min(descent.at(5), newton.at(5))
    pairs = zip(own.x, own.error, newton.error, strict=False)
    crossing = next((f"{x:g}" for x, mine, theirs in pairs if x > 5 and theirs < mine), "nowhere")
    exact = newton.at(30) < 1e-10
    return early and exact and own.at(FAR) > newton.at(FAR), (
        f"after 5: AlgoFormer {show(own.at(5))}, gradient descent {show(descent.at(5))}, Newton "
        f"{show(newton.at(5))}; Newton ahead from {crossing} and at {show(newton.at(30))} after 30; "
        f"AlgoFormer ends at {show(own.at(FAR))}"
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


def ends_cost_little(results: Results) -> Decision:
    """The share of pre and post in all evaluations of a layer, by counting."""
    near, far = (_share_of_ends(Unroll(steps=steps, window=1)) for steps in (20, FAR))
    training = _share_of_ends(Unroll(steps=20, window=15))
    return abs(near - 0.1) < 0.02 and abs(far - 0.01) < 0.002, (
        f"{near:.1%} of the layers at T = 20 and {far:.1%} at T = 200 when answering; {training:.0%} of a "
        "training step's forward pass, where post runs on 15 states"
    )


def costs_no_more_than_standard(results: Results) -> Decision:
    """A training step in evaluations of a layer, going back through one counting as two."""
    step = Unroll(steps=20, window=15, grad_steps=15)
    counts = {name: _bill(program, step).units for name, program in MODELS.items()}
    words = ", ".join(f"{name} {count}" for name, count in counts.items())
    times = [results.get(f"representation/{name}") for name in ("standard", "algoformer")]
    measured = [
        result.seconds_a_step for result in times if result is not None and result.seconds_a_step is not None
    ]
    text = f"a training step in layers: {words}"
    if len(measured) == 2:
        text += f"; measured with the recommended recipe {show(measured[1] / measured[0])} times standard's"
    return counts["AlgoFormer"] < STEADY * counts["standard"], text


def fewer_parameters(results: Results) -> Decision:
    """Parameters without positions, read-in and read-out."""
    counts = {name: _bill(program, None).core_parameters for name, program in MODELS.items()}
    words = ", ".join(f"{name} {count / 1e6:.2f} M" for name, count in counts.items())
    return counts["AlgoFormer"] < counts["standard"], words


def solves_by_gradient_descent(results: Results) -> Decision:
    """A model below gradient descent on the true features, after as many iterations, does something else.

    It is held against the better of two: one step that is best for all prompts, and one for each prompt.
    """
    own = need(results, "representation/algoformer")
    depth = own.trained_depth
    words = []
    for name, what in {FIXED_STEP: "one step for all", "gd": "1.8/λ_max of each prompt"}.items():
        curve = need(results, f"representation/{name}").main.by_step
        words.append(f"{show(curve.at(depth))} ({what}), {show(curve.at(FAR))} after {FAR}")
    descent = _better_descent(results, "representation", depth)
    below = own.band[1] < descent.low[descent.x.index(depth)]
    return (False if below else None), (
        f"AlgoFormer {show(own.error)} after {depth}; gradient descent on Φ* after {depth}: "
        + "; ".join(words)
    )


def _better_descent(results: Results, group: str, depth: int) -> Curve:
    both = [need(results, f"{group}/{name}").main.by_step for name in (FIXED_STEP, "gd")]
    return min(both, key=lambda curve: curve.at(depth))


def _bill(program: Program, unroll: Unroll | None) -> Cost:
    return cost(program, dim=20, out=1, context=82, unroll=unroll)


def _share_of_ends(unroll: Unroll) -> float:
    parts = {part.name: part.work.layers for part in _bill(algoformer(), unroll).parts}
    return (parts["pre"] + parts["post"]) / sum(parts.values())


def _seeds(results: Results, name: str) -> list[Result]:
    further = (results.get(f"{name}-seed{seed}") for seed in (1, 2))
    return [need(results, name), *(result for result in further if result is not None)]


def _beats(own: Sequence[Result], other: Sequence[Result]) -> Decision:
    """Whether all bands of one lie below all of the other's; None where they overlap or training differs."""
    ratio = (sum(r.error for r in own) / len(own)) / (sum(r.error for r in other) / len(other))
    if len({result.steps for result in (*own, *other)}) > 1:
        return None, f"{ratio:.0%} (trained over differing steps)"
    if max(result.band[1] for result in own) < min(result.band[0] for result in other):
        return True, f"{ratio:.0%}"
    if max(result.band[1] for result in other) < min(result.band[0] for result in own):
        return False, f"{ratio:.0%}"
    return None, f"{ratio:.0%} (bands overlap)"


def _all(outcomes: Sequence[bool | None]) -> bool | None:
    if False in outcomes:
        return False
    return None if None in outcomes else True


def _listed(results: Sequence[Result]) -> str:
    return ", ".join(show(result.error) for result in results)
