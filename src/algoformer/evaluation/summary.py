"""Measurements as tables: plain rows for terminals, pages and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from algoformer.evaluation.curve import Curve
from algoformer.evaluation.evaluation import Evaluation

Cell = str | int | float | None
"""What a table holds; None is a number that does not exist."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns, not yet formatted.

    >>> Table(columns=("solver", "error"), rows=(("newton", 1e-4),)).column("error")
    (0.0001,)
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("a table has at least one column")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns need as many cells in a row, got {row}")

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells under one heading."""
        if name not in self.columns:
            raise ValueError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return tuple(row[self.columns.index(name)] for row in self.rows)


def summary_table(
    evaluations: Sequence[Evaluation], *, samples: Sequence[int] | None = None, title: str = ""
) -> Table:
    """One row for each solver: parameters, iterations, error at a few numbers of in-context samples, band.

    Args:
        evaluations: what to show, in this order.
        samples: at which numbers of samples; None means a quarter, a half and all of those measured (10, 20
            and 40 of 40). Where a solver was not measured at one of them, its cell is None.
        title: over the table.
    """
    if not evaluations:
        raise ValueError("a summary needs at least one evaluation")
    most = max(result.by_sample.x[-1] for result in evaluations)
    chosen = sorted({most // 4, most // 2, most}) if samples is None else list(samples)
    heads = tuple(f"{count:g} sample{'' if count == 1 else 's'}" for count in chosen)
    rows = tuple(
        (
            result.label,
            result.parameters,
            result.steps,
            *(_error_at(result.by_sample, count) for count in chosen),
            result.by_sample.low[-1],
            result.by_sample.high[-1],
        )
        for result in evaluations
    )
    columns = ("solver", "parameters", "iterations", *heads, "5 %", "95 %")
    return Table(columns=columns, rows=rows, title=title, note=_note(evaluations))


def depth_table(
    curves: Sequence[Curve], *, trained: int, depths: Sequence[int] = (200,), title: str = ""
) -> Table:
    """One row for each curve along iterations: error at the trained depth, at others, and their ratios.

    A ratio of 1 means that the loop holds its answer. Where a curve does not reach, the cell is None.
    """
    for curve in curves:
        if curve.axis != "iterations":
            raise ValueError(
                f"depth_table needs curves along iterations, {curve.label!r} runs along {curve.axis}"
            )
    columns = ["solver", f"T = {trained}"]
    for depth in depths:
        columns += [f"T = {depth}", f"{depth} ÷ {trained}"]
    rows = []
    for curve in curves:
        start = _error_at(curve, trained)
        row: list[Cell] = [curve.label, start]
        for depth in depths:
            end = _error_at(curve, depth)
            row += [end, None if not start or end is None else end / start]
        rows.append(tuple(row))
    note = "Error on the last sample after T iterations, and by how much it grew beyond the trained depth."
    return Table(columns=tuple(columns), rows=tuple(rows), title=title, note=note)


def _error_at(curve: Curve, x: int | float) -> float | None:
    return curve.at(x) if x in curve.x else None


def _note(evaluations: Sequence[Evaluation]) -> str:
    prompts = sorted({result.prompts for result in evaluations})
    kinds = sorted({result.against for result in evaluations})
    words = {"clean": "answers without noise", "shown": "answers as shown, noise included"}
    note = (
        f"Squared error divided by the task's scale, mean over {', '.join(map(str, prompts))} prompts, "
        f"against {' / '.join(words[kind] for kind in kinds)}. "
        "5 % and 95 %: bootstrap band at the largest number of samples."
    )
    for result in evaluations:
        if result.broken:
            note += f" {result.label}: not a finite number on {result.broken} of {result.prompts} prompts."
    return note
