"""The comparison of samplers on a table: what is drawn, what is spent, what is reached."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

pytest.importorskip("optuna")
pytest.importorskip("matplotlib")

import optuna

from algoformer.search import SearchSpace
from scripts import search_samplers
from scripts.search_samplers import METHODS, best_at, budget_for, compare, run

SPACE = SearchSpace(width=(8, 16, 32), heads=(1, 2), lr=(1e-3, 1e-1))
optuna.logging.set_verbosity(optuna.logging.ERROR)


def table(count: int = 40) -> list[dict[str, Any]]:
    """Programs whose error depends on the learning rate and the kind, and falls with the steps."""
    draw, rows = random.Random(0), []
    for _ in range(count):
        params = {name: draw.choice(getattr(SPACE, name)) for name in SPACE.names if name != "lr"}
        params["lr"] = 10 ** draw.uniform(-3, -1)
        error = abs(math.log10(params["lr"]) + 2) + (params["kind"] != "nested") + draw.random() * 0.01
        rows.append({"params": params, "curve": {str(step): error + 9 / step for step in range(1, 10)}})
    return rows


@pytest.mark.parametrize("method", METHODS)
def test_every_program_is_drawn_at_most_once_and_the_budget_is_what_was_trained(method: str) -> None:
    history = run(table(), SPACE, method, seed=1)
    spent = [one for one, _ in history]
    costs = [later - earlier for earlier, later in zip([0.0, *spent], spent, strict=False)]
    assert len(history) <= 40
    allowed = (1 / 9, 3 / 9, 1.0) if METHODS[method][1] else (1.0,)
    assert all(min(abs(cost - one) for one in allowed) < 1e-9 for cost in costs)
    best = [error for _, error in history]
    assert best == sorted(best, reverse=True)
    finals = {row["curve"]["9"] for row in table()}
    assert {error for error in best if math.isfinite(error)} <= finals


def test_without_halving_a_budget_of_the_whole_table_finds_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_samplers, "BUDGET", 100)
    lowest = min(row["curve"]["9"] for row in table())
    assert run(table(), SPACE, "random", seed=0)[-1] == (40.0, lowest)


def test_budgets_and_errors_are_read_from_a_history() -> None:
    history = [(1.0, 0.9), (1.5, 0.9), (2.5, 0.4)]
    assert [best_at(history, spent) for spent in (0.5, 1.0, 2.0, 3.0)] == [math.inf, 0.9, 0.9, 0.4]
    assert [budget_for(history, error) for error in (1.0, 0.5, 0.1)] == [1.0, 2.5, math.inf]


def test_the_budget_of_random_search_is_its_own_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_samplers, "BUDGET", 12)
    monkeypatch.setattr(search_samplers, "SEEDS", 9)
    numbers, drawn = compare(table(), SPACE)
    assert numbers["methods"]["random"]["best"][1] == numbers["target"]
    assert numbers["methods"]["random"]["reached"] >= 0.5
    assert len(drawn["budget"]) == len(drawn["curves"]["TPE"])
    # on a smooth table TPE with halving is ahead of random search
    assert numbers["methods"]["TPE + halving"]["best"][1] < numbers["target"]
