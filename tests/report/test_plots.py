import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from algoformer.evaluation import Curve, Evaluation
from algoformer.insight import DepthCertificate
from algoformer.report import error_by_sample, error_by_step, inline_svg, save, training_loss
from algoformer.report.axes import log_limits
from algoformer.report.canvas import svg_text
from algoformer.report.insight_plots import certificate_figures
from algoformer.report.style import INK, strokes
from evaluation.known import line, one

ROWS = [{"step": 10, "loss": 2.0}, {"step": 20, "loss": 0.5}]


def by_samples() -> list[Curve]:
    return [
        line(label="AlgoFormer"),
        line(label="Newton", error=(1.0, 1e-9), low=(0.8, 1e-10), high=(1.2, 1e-8)),
    ]


def by_steps() -> list[Curve]:
    return [replace(curve, axis="iterations", x=(1.0, 30.0)) for curve in by_samples()]


def lines_of(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(drawn.get_label()): (list(drawn.get_xdata()), list(drawn.get_ydata()))
        for drawn in axes.get_lines()
        if not str(drawn.get_label()).startswith("_")
    }


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_both_panels_show_the_curves_as_they_are() -> None:
    figure = error_by_sample(by_samples(), title="here")
    for axes in figure.axes:
        assert lines_of(axes) == {
            "AlgoFormer": ([0, 1], [1.0, 0.5]),
            "Newton": ([0, 1], [1.0, 1e-9]),
        }
        assert axes.get_xlabel() == "in-context samples"
        assert axes.get_ylabel().startswith("squared error / scale")
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    assert legend_of(figure) == ["AlgoFormer", "Newton"]
    assert figure.get_suptitle() == "here"


def test_wrong_answers_are_not_called_squared_errors() -> None:
    curve = by_steps()[0]
    result = Evaluation(
        label=curve.label,
        by_sample=by_samples()[0],
        by_step=curve,
        steps=30,
        prompts=4,
        scale=1.0,
        against="clean",
        unsolved=curve,
    )
    assert error_by_step([result]).axes[0].get_ylabel() == "share of wrong answers"
    assert error_by_step([replace(result, unsolved=None)]).axes[0].get_ylabel().startswith("squared error")


def test_iterations_are_drawn_on_a_log_axis_with_a_mark_at_the_trained_depth() -> None:
    figure = error_by_step(by_steps(), trained=20)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert lines_of(axes)["AlgoFormer"] == ([1, 30], [1.0, 0.5])
    assert [text.get_text() for text in axes.texts] == ["trained to 20"]
    assert [20, 20] in [list(drawn.get_xdata()) for drawn in axes.get_lines()]
    assert not error_by_step(by_steps()).axes[0].texts


def test_the_band_is_the_curves_own_and_for_models_only() -> None:
    (axes,) = error_by_step(by_steps()).axes
    (band,) = axes.collections
    corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
    assert corners == {(1, 0.9), (1, 1.1), (30, 0.4), (30, 0.6)}


def test_models_are_solid_and_textbook_methods_dashed() -> None:
    (axes,) = error_by_step(by_steps()).axes
    model, newton = axes.get_lines()[:2]
    assert not model.is_dashed()
    assert newton.is_dashed()


def test_an_evaluation_stands_for_its_curves() -> None:
    model = replace(one(), label="mine", parameters=3)
    textbook = replace(model, label="other", parameters=None)
    results = [
        replace(item, by_sample=line(label=item.label), by_step=line(label=item.label, axis="iterations"))
        for item in (model, textbook)
    ]
    for figure in (error_by_sample(results), error_by_step(results)):
        assert legend_of(figure) == ["mine", "other"]
        solid, dashed = figure.axes[0].get_lines()[:2]
        assert (solid.is_dashed(), dashed.is_dashed()) == (False, True)


def test_a_solver_that_does_not_iterate_is_a_level() -> None:
    level = line(label="standard", axis="iterations", x=(1.0,), error=(0.3,), low=(0.2,), high=(0.4,))
    (axes,) = error_by_step([*by_steps(), level]).axes
    assert lines_of(axes)["standard"] == ([1, 30], [0.3, 0.3])


def test_what_cannot_be_seen_is_said_in_the_legend() -> None:
    sick = line(label="sick", axis="iterations", x=(1.0, 30.0), error=(1.0, math.nan))
    deep = line(label="least squares", axis="iterations", x=(1.0, 30.0), error=(1e-14, 1e-14))
    assert legend_of(error_by_step([*by_steps(), sick, deep])) == [
        "AlgoFormer",
        "Newton",
        "sick (not finite at 1 of 2)",
        "least squares (below 4e-4)",
    ]


@pytest.mark.parametrize("errors", [(math.nan, math.nan), (0.0, 0.0), (math.inf, 1e300)])
def test_curves_with_nothing_to_see_can_still_be_drawn(errors: tuple[float, float]) -> None:
    curve = line(error=errors, low=errors, high=errors)
    svg_text(error_by_sample([curve]))
    svg_text(error_by_step([replace(curve, axis="iterations")], trained=1))


def test_the_log_axis_shows_the_models_well() -> None:
    curves = [
        line(label="AlgoFormer", error=(1.0, 1e-3), low=(0.9, 9e-4)),
        line(label="Newton", error=(0.5, 1e-29)),
        line(label="gradient descent", error=(0.5, 1e20)),
    ]
    low, high = log_limits(curves, strokes(curve.label for curve in curves))
    assert 1e-7 < low < 1e-4
    assert 1 < high < 10


def test_a_textbook_picture_goes_down_to_rounding() -> None:
    curves = [line(label="Newton", error=(0.5, 1e-29))]
    assert log_limits(curves, strokes(["Newton"]))[0] == 1e-16


def test_losses_are_drawn_as_they_were_logged() -> None:
    figure = training_loss({"AlgoFormer": ROWS, "looped": ROWS[:1]}, title="t")
    assert lines_of(figure.axes[0]) == {"AlgoFormer": ([10, 20], [2.0, 0.5]), "looped": ([10], [2.0])}
    assert legend_of(figure) == ["AlgoFormer", "looped"]
    assert figure.axes[0].get_yscale() == "log"


def test_labels_are_text_and_not_formulas() -> None:
    figure = error_by_sample([line(label="_a $x_1$ & <b>")])
    assert legend_of(figure) == ["\u200b_a \\$x_1\\$ & <b>"]
    svg_text(figure)


DRAWINGS: list[Callable[[], Figure]] = [
    lambda: error_by_sample(by_samples()),
    lambda: error_by_step(by_steps(), trained=20, log_x=True),
    lambda: training_loss({"AlgoFormer": ROWS}),
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_the_same_figure_gives_the_same_bytes(draw: Callable[[], Figure], tmp_path: Path) -> None:
    one_files = save(draw(), tmp_path / "deep" / "one")
    two_files = save(draw(), tmp_path / "two.5")
    assert [path.name for path in one_files + two_files] == ["one.png", "one.svg", "two.5.png", "two.5.svg"]
    assert [path.read_bytes() for path in one_files] == [path.read_bytes() for path in two_files]
    text = one_files[1].read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    assert "Matplotlib" not in text


def test_figures_stay_out_of_pyplot() -> None:
    assert error_by_sample(by_samples()).canvas.manager is None


def test_a_picture_in_a_page_takes_the_pages_ink() -> None:
    figure = error_by_sample(by_samples())
    before = svg_text(figure)
    text = inline_svg(figure)
    assert text.count(INK) == 1  # the color that currentColor has in light mode
    assert "currentColor" in text
    assert "#ffffff" not in text
    assert svg_text(figure) == before


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no curve"):
        error_by_sample([])
    with pytest.raises(ValueError, match="no curve"):
        error_by_step([])
    with pytest.raises(ValueError, match="no run"):
        training_loss({})
    with pytest.raises(ValueError, match=r"'a' need rows with 'step' and 'loss'"):
        training_loss({"a": [{"step": 1}]})


def test_curves_along_another_axis_are_refused() -> None:
    with pytest.raises(ValueError, match="runs along iterations"):
        error_by_sample(by_steps())


def test_two_curves_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="both labelled 'a'"):
        error_by_sample([line(), line()])


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"'matplotlib'.*pip install 'algoformer\[viz\]'"):
        error_by_sample(by_samples())


@pytest.mark.parametrize(("name", "words"), [("sudoku", "Brier score"), ("linear", "squared error / scale")])
def test_a_certificate_is_drawn_with_the_name_of_its_error(name: str, words: str) -> None:
    file = Path(__file__).parents[2] / "results" / "insight" / name / "certificate.json"
    figure = certificate_figures(DepthCertificate.from_json(file.read_text(encoding="utf-8")))["depth"]
    assert figure.axes[0].get_ylabel() == words
