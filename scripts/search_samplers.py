"""Compare samplers on the benchmark of loop programs, without training anything.

    python -m scripts.search_samplers results/search/benchmark.json results/search/samplers

A sampler draws a point of the space and is given the nearest program of the table that it has not had yet,
with its stored curve. Methods are compared by the lowest final error of the programs that they trained to the
end, over the budget spent: a program that halving stops after a ninth of its steps costs a ninth.
Writes OUT.json, OUT.svg and OUT.png, and beside them a plot of what mattered in the table, importance.svg (of
chain-samplers: chain-importance.svg).
"""

from __future__ import annotations

import math
import random
import shlex
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from algoformer.common.devices import source_commit
from algoformer.common.files import read_json, write_json
from algoformer.common.plain_data import read_dataclass
from algoformer.report.axes import logarithmic
from algoformer.report.canvas import finish, panels, save
from algoformer.report.plots import importance_figure
from algoformer.report.style import INK, strokes
from algoformer.search import SearchSpace

BUDGET = 30
"""Full trainings that every method may spend."""

SEEDS = 100
"""Repetitions of every method."""

REDUCTION = 3
"""One program in three goes on at a rung."""

METHODS = {
    "random": ("random", False),
    "random + halving": ("random", True),
    "TPE": ("tpe", False),
    "TPE + halving": ("tpe", True),
}
"""Methods: the sampler, and whether successive halving stops programs at the rungs."""

Row = Mapping[str, Any]


class TableSampler(BaseSampler):
    """A sampler whose draws are replaced by the nearest programs of a table that are still free."""

    def __init__(self, inner: BaseSampler, rows: Sequence[Row], space: SearchSpace, seed: int) -> None:
        self.inner, self.rows, self.space = inner, rows, space
        self.free = set(range(len(rows)))
        self.draw = random.Random(seed)
        self.last = -1

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        """Return the whole space: the table decides about all parameters together."""
        return self.space.distributions()

    def sample_relative(
        self, study: Any, trial: Any, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of a program of the table."""
        wanted = self.inner.sample_relative(study, trial, search_space)
        if set(wanted) == set(self.space.names):
            self.last = min(
                sorted(self.free), key=lambda row: self._distance(wanted, self.rows[row]["params"])
            )
        else:  # the first draws of TPE are random, and so are all of a random sampler
            self.last = self.draw.choice(sorted(self.free))
        self.free.remove(self.last)
        return dict(self.rows[self.last]["params"])

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        """Refuse: no parameter is drawn alone."""
        raise AssertionError(f"{name} was drawn alone")

    def _distance(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        """Return the sum of differences: 1 for another word, the share of its range for a number."""
        total = 0.0
        for name in self.space.names:
            values: Any = getattr(self.space, name)
            if name == "lr":
                total += abs(math.log(one[name] / other[name])) / math.log(values[1] / values[0])
            elif isinstance(values[0], str):
                total += one[name] != other[name]
            elif len(values) > 1:
                total += abs(one[name] - other[name]) / (max(values) - min(values))
        return total


def run(rows: Sequence[Row], space: SearchSpace, method: str, seed: int) -> list[tuple[float, float]]:
    """Return the spent budget and the lowest final error so far, after each trial."""
    kind, halving = METHODS[method]
    steps = [int(step) for step in rows[0]["curve"]]
    inner = TPESampler(seed=seed, multivariate=True) if kind == "tpe" else RandomSampler(seed=seed)
    sampler = TableSampler(inner, rows, space, seed)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=steps[0], reduction_factor=REDUCTION)
    study = optuna.create_study(sampler=sampler, pruner=pruner if halving else optuna.pruners.NopPruner())
    spent, best, history = 0.0, math.inf, []
    while spent < BUDGET and sampler.free:
        trial = study.ask(space.distributions())
        curve = rows[sampler.last]["curve"]
        state, reached = optuna.trial.TrialState.COMPLETE, steps[-1]
        for step in steps:
            trial.report(curve[str(step)], step)
            if step < steps[-1] and trial.should_prune():
                state, reached = optuna.trial.TrialState.PRUNED, step
                break
        final = curve[str(steps[-1])] if state is optuna.trial.TrialState.COMPLETE else None
        study.tell(trial, final, state=state)
        spent += reached / steps[-1]
        best = best if final is None else min(best, final)
        history.append((spent, best))
    return history


def best_at(history: Sequence[tuple[float, float]], budget: float) -> float:
    """Return the lowest error that was known when this budget was spent."""
    return min((error for spent, error in history if spent <= budget + 1e-9), default=math.inf)


def budget_for(history: Sequence[tuple[float, float]], error: float) -> float:
    """Return the budget after which an error was reached; infinite if it was not within the whole one."""
    return next((spent for spent, best in history if best <= error and spent <= BUDGET + 1e-9), math.inf)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies; some of them may be infinite."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, round(share * (len(ranked) - 1)))]


def compare(rows: Sequence[Row], space: SearchSpace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run every method with every seed; return the numbers and the curves of the figure."""
    histories = {method: [run(rows, space, method, seed) for seed in range(SEEDS)] for method in METHODS}
    target = statistics.median(best_at(one, BUDGET) for one in histories["random"])
    finals = sorted(row["curve"][list(row["curve"])[-1]] for row in rows)
    numbers: dict[str, Any] = {}
    for method, several in histories.items():
        needed = [budget_for(one, target) for one in several]
        numbers[method] = {
            "best": [
                quantile([best_at(one, BUDGET) for one in several], share) for share in (0.05, 0.5, 0.95)
            ],
            "budget": [_finite(quantile(needed, share)) for share in (0.05, 0.5, 0.95)],
            "reached": sum(map(math.isfinite, needed)) / len(needed),
            "programs": statistics.median(len(one) for one in several),
            "rank": statistics.median(1 + finals.index(best_at(one, BUDGET)) for one in several),
        }
    grid = [1 + 0.5 * place for place in range(2 * (BUDGET - 1) + 1)]
    curves = {
        method: [
            [quantile([best_at(one, x) for one in several], share) for share in (0.25, 0.5, 0.75)]
            for x in grid
        ]
        for method, several in histories.items()
    }
    return {"target": target, "methods": numbers}, {"budget": grid, "curves": curves}


def rank_correlations(rows: Sequence[Row]) -> dict[str, float]:
    """Return Spearman's correlation of the error at each validation with the final one."""
    ranks = {step: np.argsort(np.argsort([row["curve"][step] for row in rows])) for step in rows[0]["curve"]}
    last = ranks[list(ranks)[-1]]
    return {step: round(float(np.corrcoef(rank, last)[0, 1]), 3) for step, rank in ranks.items()}


def importance(rows: Sequence[Row], space: SearchSpace) -> dict[str, float]:
    """Return the importance of each parameter over the whole table (PED-ANOVA)."""
    study = optuna.create_study()
    for row in rows:
        final = list(row["curve"].values())[-1]
        study.add_trial(
            optuna.trial.create_trial(params=row["params"], distributions=space.distributions(), value=final)
        )
    return dict(optuna.importance.get_param_importances(study))


def figure(drawn: Mapping[str, Any], target: float, hand_made: float) -> Any:
    """Draw the best error over the budget: medians, with the middle half of the seeds as bands."""
    picture, (axes,) = panels(1, "Samplers on the table of loop programs")
    styles = strokes(drawn["curves"])
    for method, values in drawn["curves"].items():
        shown = [
            (x, *three)
            for x, three in zip(drawn["budget"], values, strict=True)
            if all(map(math.isfinite, three))
        ]
        x, low, middle, high = zip(*shown, strict=True)
        color = styles[method].color
        axes.plot(x, middle, label=method, color=color, linewidth=2)
        axes.fill_between(x, low, high, color=color, alpha=0.14, linewidth=0)
    axes.axhline(
        target, color=INK, linewidth=1, alpha=0.55, linestyle=(0, (3, 2)), label="random search's best"
    )
    axes.axhline(hand_made, color=INK, linewidth=1, alpha=0.55, linestyle=(0, (1, 2)), label="1+1+1")
    axes.set_xlabel("budget in full trainings", color=INK)
    axes.set_ylabel("lowest validation error", color=INK)
    axes.set_xlim(1, BUDGET)
    shown_errors = [one for values in drawn["curves"].values() for three in values for one in three]
    finite = [one for one in shown_errors if math.isfinite(one)]
    logarithmic(axes, min(finite) / 1.1, max(finite) * 1.1)
    return finish(picture, axes)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def main(arguments: list[str]) -> int:
    """Compare the samplers, write numbers and figure, print the numbers."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    table = read_json(Path(arguments[0]))
    space = read_dataclass(SearchSpace, table["settings"]["space"])
    rows = [row for row in table["programs"] if row["curve"]]
    began = time.monotonic()
    numbers, drawn = compare(rows, space)
    hand_made = list(rows[0]["curve"].values())[-1]
    about = {
        "command": shlex.join(["python", "-m", "scripts.search_samplers", *arguments]),
        "commit": source_commit(),
        "optuna": optuna.__version__,
        "seconds": round(time.monotonic() - began),
        "seeds": SEEDS,
        "budget": BUDGET,
        "programs": len(rows),
    }
    out = Path(arguments[1])
    numbers |= {"rank_correlation": rank_correlations(rows), "importance": importance(rows, space)}
    write_json(out.with_suffix(".json"), about | numbers)
    save(figure(drawn, numbers["target"], hand_made), out)
    mattered = importance_figure(numbers["importance"], title="What mattered in the table of loop programs")
    save(mattered, out.with_name(out.name.replace("samplers", "importance")))
    print(f"random search's best after {BUDGET} trainings: {numbers['target']:.4f}; 1+1+1: {hand_made:.4f}")
    for method, found in numbers["methods"].items():
        print(method, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
