"""Which of two models is better, as far as their results can say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algoformer.evaluation.curve import bootstrap
from paper.archive import Results, seeds_so_far
from paper.result import Result
from paper.runs import SLOW

Decision = tuple[bool | None, str]
"""Whether something holds, None where the numbers leave it open; and the numbers."""


class Missing(Exception):
    """A run that a claim needs was not made."""


def need(results: Results, name: str) -> Result:
    """The result of that name; `Missing` if it is not there."""
    if name not in results:
        raise Missing(name)
    return results[name]


def seeds_of(results: Results, name: str) -> list[Result]:
    """A run and the same with other seeds, as far as they were made; `Missing` if the first was not."""
    need(results, name)
    return seeds_so_far(results, name)


def at_its_rate(results: Results, name: str) -> list[Result]:
    """All seeds at the common rate, or the run at the lower one if it erred less on its training batches."""
    common, slow = seeds_of(results, name), results.get(name + SLOW)
    if slow is None or differing([common[0], slow]):
        return common
    if not (common[0].history.get("error") and slow.history.get("error")):
        return common
    return [slow] if slow.history["error"][-1] < common[0].history["error"][-1] else common


def beats_at_its_rate(results: Results, own: str, other: str) -> Decision:
    """Whether one model beats another, each at the rate that suits it.

    Being behind a model at its lower rate says nothing as long as the first was not tried at that rate.
    """
    mine, theirs = at_its_rate(results, own), at_its_rate(results, other)
    outcome, words = beats(mine, theirs)
    if not _slow(theirs):
        return outcome, words
    if outcome is False and own + SLOW not in results:
        return None, f"{words} (the other at a lower rate, itself not run there)"
    return outcome, f"{words} (the other at a lower rate)"


def beats(own: Sequence[Result], other: Sequence[Result]) -> Decision:
    """Whether every run of one has a lower error than every run of the other, and the ratio of their means.

    None where some pair cannot be told apart, or training differs.
    """
    ratio = (sum(r.error for r in own) / len(own)) / (sum(r.error for r in other) / len(other))
    if differing([*own, *other]):
        return None, f"{ratio:.0%} (trained over differing steps)"
    outcomes = {_below(mine, theirs) for mine in own for theirs in other}
    if len(outcomes) == 1 and None not in outcomes:
        return outcomes.pop(), f"{ratio:.0%}"
    return None, f"{ratio:.0%} (not told apart)"


def _below(one: Result, other: Result) -> bool | None:
    """Whether the error is lower: prompt by prompt where both kept that, else by bands that lie apart."""
    if one.main.by_prompt and len(one.main.by_prompt) == len(other.main.by_prompt):
        difference = bootstrap(np.subtract(one.main.by_prompt, other.main.by_prompt))
        low, high = float(difference.low), float(difference.high)
    else:
        low, high = one.band[0] - other.band[1], one.band[1] - other.band[0]
    return True if high < 0 else (False if low > 0 else None)


def all_hold(outcomes: Sequence[bool | None]) -> bool | None:
    """Of several things that a claim says: one that fails decides, one that is open leaves it open."""
    if False in outcomes:
        return False
    return None if None in outcomes else True


def differing(results: Sequence[Result]) -> bool:
    """Whether they were trained over differing numbers of steps."""
    return len({result.steps for result in results}) > 1


def _slow(runs: Sequence[Result]) -> bool:
    return runs[0].name.endswith(SLOW)
