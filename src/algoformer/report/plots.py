"""Curves as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from algoformer.evaluation import Curve, Evaluation
from algoformer.report.axes import Figure, count_axis, label, log_limits, logarithmic, positive
from algoformer.report.canvas import draw, finish, literal, mark_training, panels
from algoformer.report.style import Stroke, strokes

ERROR = "squared error / d"
WRONG = "share of wrong answers"


def error_by_sample(
    curves: Sequence[Curve | Evaluation], *, title: str = "", compact: bool = False
) -> Figure:
    """Error against the number of in-context samples, on a linear and on a logarithmic scale.

    Trained models are solid with their bands, textbook methods dashed. An evaluation stands for its
    `by_sample`. A compact figure has the logarithmic scale only and can be read on a phone.
    """
    drawn = [item.by_sample if isinstance(item, Evaluation) else item for item in curves]
    _check(drawn, "samples")
    figure, all_axes = panels(1 if compact else 2, title, compact=compact)
    styles = _styles(curves)
    for axes in all_axes:
        draw(axes, drawn, styles)
        count_axis(axes, min(curve.x[0] for curve in drawn), max(curve.x[-1] for curve in drawn))
    if not compact:
        label(all_axes[0], "in-context samples", ERROR)
        # curves may rise beyond it, as least squares does where it interpolates noise
        all_axes[0].set_ylim(0, 1.05 * max(positive(curve.high[0] for curve in drawn), default=1.0))
    label(all_axes[-1], "in-context samples", f"{ERROR}, log scale")
    logarithmic(all_axes[-1], *log_limits(drawn, styles))
    return finish(figure, all_axes[0])


def error_by_step(
    curves: Sequence[Curve | Evaluation],
    *,
    trained: int | None = None,
    title: str = "",
    log_x: bool = False,
    compact: bool = False,
) -> Figure:
    """Error on the last sample against iterations, log scale; a mark where training stopped.

    A curve of a single point belongs to a solver that does not iterate and is drawn as a level. An
    evaluation stands for its `by_step`. Where answers are classes, the error is the share of wrong answers.
    """
    drawn = [item.by_step if isinstance(item, Evaluation) else item for item in curves]
    _check(drawn, "iterations")
    figure, (axes,) = panels(1, title, compact=compact)
    styles = _styles(curves)
    first = min(curve.x[0] for curve in drawn)
    last = max(max(curve.x[-1] for curve in drawn), first + 1)
    low, high = log_limits(drawn, styles)
    draw(axes, drawn, styles, levels=(first, last), floor=low)
    count_axis(axes, first, last, log=log_x)
    classes = any(isinstance(item, Evaluation) and item.unsolved is not None for item in curves)
    label(axes, "iterations", WRONG if classes else f"{ERROR}, last sample")
    logarithmic(axes, low, high)
    if trained is not None:
        mark_training(axes, trained)
    return finish(figure, axes)


def training_loss(
    runs: Mapping[str, Sequence[Mapping[str, float | int]]],
    *,
    title: str = "",
    value: str = "loss",
    compact: bool = False,
) -> Figure:
    """Plot a column of each run's metrics against the training step, on a log scale."""
    if not runs:
        raise ValueError("there is no run to draw")
    figure, (axes,) = panels(1, title, compact=compact)
    styles = strokes(runs)
    losses: list[float] = []
    for name, rows in runs.items():
        if not rows or any("step" not in row or value not in row for row in rows):
            raise ValueError(f"the metrics of {name!r} need rows with 'step' and {value!r}")
        steps = [float(row["step"]) for row in rows]
        values = [float(row[value]) for row in rows]
        axes.plot(steps, values, label=literal(name), color=styles[name].color, linewidth=1.6)
        losses += positive(values)
    if losses:
        logarithmic(axes, min(losses) / 1.2, max(losses) * 1.2)
    label(axes, "training step", f"training {value}")
    axes.margins(x=0.01)
    return finish(figure, axes)


def _styles(curves: Sequence[Curve | Evaluation]) -> dict[str, Stroke]:
    textbook = [item.label for item in curves if isinstance(item, Evaluation) and item.parameters is None]
    return strokes((item.label for item in curves), textbook=textbook)


def _check(curves: Sequence[Curve], axis: str) -> None:
    if not curves:
        raise ValueError("there is no curve to draw")
    labels = [curve.label for curve in curves]
    for curve in curves:
        if curve.axis != axis:
            raise ValueError(f"this plot runs along {axis}, but {curve.label!r} runs along {curve.axis}")
        if labels.count(curve.label) > 1:
            raise ValueError(
                f"two curves are both labelled {curve.label!r}: a legend could not tell them apart"
            )
