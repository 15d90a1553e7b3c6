from dataclasses import replace

import pytest

from algoformer.report.style import method_color
from evaluation.known import line
from paper.figures import Panel, Series, Sweep, panel_figure, sweep_figure

MODEL = line(label="AlgoFormer")
BOOK = line(label="Newton", error=(1.0, 1e-9), low=(0.8, 1e-10), high=(1.2, 1e-8))


def test_each_panel_has_its_curves_and_the_legend_each_label_once() -> None:
    figure = panel_figure(
        [Panel(title="one", curves=(MODEL, BOOK)), Panel(title="two", curves=(MODEL,))],
        title="both",
        note="so",
    )
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["AlgoFormer", "Newton"]
    assert figure.legends[0].get_title().get_text() == "so"
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 1]


def test_beyond_and_repeats_have_the_color_of_their_model_and_no_label() -> None:
    panel = Panel(title="", curves=(MODEL,), beyond=(MODEL,), repeats=(MODEL,))
    (axes,) = panel_figure([panel], title="").axes
    lines = axes.get_lines()
    assert len({drawn.get_color() for drawn in lines}) == 1
    assert [str(drawn.get_label()).startswith("_") for drawn in lines] == [False, True, True]


def test_an_empty_panel_stays_empty_and_an_empty_figure_is_refused() -> None:
    figure = panel_figure([Panel(title="", curves=()), Panel(title="", curves=(MODEL,))], title="")
    assert [len(axes.get_lines()) for axes in figure.axes] == [0, 1]
    with pytest.raises(ValueError, match="no curve to draw"):
        panel_figure([Panel(title="", curves=())], title="")


def test_samples_and_iterations_do_not_share_a_figure() -> None:
    other = replace(MODEL, axis="iterations")
    with pytest.raises(ValueError, match="along the same axis"):
        panel_figure([Panel(title="", curves=(MODEL,)), Panel(title="", curves=(other,))], title="")


def test_errors_of_one_size_have_a_linear_axis_and_others_a_logarithmic_one() -> None:
    near = line(label="AlgoFormer", error=(1.5, 1.2), low=(1.4, 1.1), high=(1.6, 1.3))
    panels = [Panel(title="", curves=(near,)), Panel(title="", curves=(MODEL, BOOK))]
    figure = panel_figure(panels, title="")
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    low, high = figure.axes[0].get_ylim()
    assert 1.0 < low < 1.2 < 1.5 < high < 1.8


def test_bands_stay_inside_the_axes() -> None:
    wide = line(label="AlgoFormer", error=(0.87, 0.88), low=(0.7, 0.7), high=(1.1, 1.05))
    (axes,) = panel_figure([Panel(title="", curves=(wide,))], title="").axes
    low, high = axes.get_ylim()
    assert low < 0.7
    assert high > 1.1


def test_a_title_that_is_wider_than_the_figure_is_broken() -> None:
    words = (
        "AlgoFormer on regression with representation, trained to T and run far beyond it, and further still"
    )
    figure = panel_figure([Panel(title="", curves=(MODEL,))], title=words)
    (title,) = figure.texts
    assert title.get_text().replace("\n", " ") == words
    box = title.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_one_scale_for_all_panels() -> None:
    panels = [Panel(title="", curves=(MODEL, BOOK)), Panel(title="", curves=(MODEL,))]
    limits = [axes.get_ylim() for axes in panel_figure(panels, title="", same_scale=True).axes]
    assert limits[0] == limits[1]


def test_rows_of_panels() -> None:
    figure = panel_figure([Panel(title=str(n), curves=(MODEL,)) for n in range(5)], title="", rows=2)
    assert len(figure.axes) == 5
    places = {(round(axes.get_position().x0, 2), round(axes.get_position().y0, 2)) for axes in figure.axes}
    assert len(places) == 5
    assert len({y for _, y in places}) == 2


def test_a_sweep_has_bands_as_bars() -> None:
    one = Series(label="AlgoFormer", x=(1, 2), error=(0.2, 0.1), low=(0.1, 0.05), high=(0.3, 0.2))
    figure = sweep_figure([Sweep(title="layers", over="layers", series=(one,))], title="")
    (axes,) = figure.axes
    (bars,) = axes.containers
    assert list(bars.lines[0].get_ydata()) == [0.2, 0.1]
    ends = bars.lines[2][0].get_segments()
    assert [[round(float(y), 9) for _, y in segment] for segment in ends] == [[0.1, 0.3], [0.05, 0.2]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
    with pytest.raises(ValueError, match="no series to draw"):
        sweep_figure([Sweep(title="", over="", series=())], title="")


def test_a_method_has_one_color_in_all_panels_of_a_sweep() -> None:
    def series(label: str) -> Series:
        return Series(label=label, x=(1,), error=(0.2,), low=(0.1,), high=(0.3,))

    layers = ("AlgoFormer, L layers", "standard, L layers", "standard, 3 L layers")
    shown = [
        Sweep(title="layers", over="layers", series=tuple(map(series, layers))),
        Sweep(title="heads", over="heads", series=(series("AlgoFormer, 1 layer"),)),
    ]
    lines = [bars.lines[0] for axes in sweep_figure(shown, title="").axes for bars in axes.containers]
    colors = [line.get_color() for line in lines]
    assert colors[0] == colors[3] == method_color("AlgoFormer")
    assert colors[1] == colors[2] == method_color("standard")
    assert [line.get_linestyle() for line in lines] == ["-", "-", "--", "-"]
