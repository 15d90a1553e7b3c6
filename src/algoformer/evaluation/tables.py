"""Tables of evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from algoformer.common.tables import Cell, Table
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.evaluation import Evaluation


def summary_table(evaluations: Sequence[Evaluation], *, samples: Sequence[int] | None = None) -> Table:
    """Return one row per solver: parameters, iterations, errors at a few numbers of samples, and the band.

    Args:
        evaluations: the evaluations, in the order of the rows.
        samples: the numbers of in-context samples to show; None means a quarter, a half and all of those
            measured (10, 20 and 40 of 40). A cell is None where a solver was not measured.
    """
    if not evaluations:
        raise ValueError("a summary needs at least one evaluation")
    if all(result.unsolved is not None for result in evaluations):
        return _class_table(evaluations)
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
    return Table(columns=columns, rows=rows, note=_note(evaluations))


def _class_table(evaluations: Sequence[Evaluation]) -> Table:
    rows = tuple(
        (result.label, result.parameters, result.steps, result.error, 1 - curve.final, 1 - high, 1 - low)
        for result in evaluations
        if (curve := result.unsolved) is not None
        for low, high in [(curve.low[-1], curve.high[-1])]
    )
    columns = ("solver", "parameters", "iterations", "wrong answers", "solved", "5 %", "95 %")
    note = (
        f"Share of wrong answers, and share of {evaluations[0].prompts} prompts without a wrong answer, with "
        "its bootstrap band."
    )
    return Table(columns=columns, rows=rows, note=note)


def depth_table(curves: Sequence[Curve], *, trained: int, depths: Sequence[int] = (200,)) -> Table:
    """Return one row per curve along iterations: error at the trained depth, at others, and their ratios.

    A ratio of 1 means that the loop is stable. A cell is None where a curve has no point.
    """
    for curve in curves:
        if curve.axis != "iterations":
            found = f"{curve.label!r} runs along {curve.axis}"
            raise ValueError(f"depth_table needs curves along iterations, {found}")
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
    return Table(columns=tuple(columns), rows=tuple(rows), note=note)


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
