from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from algoformer.report import save
from made_up_results import constructed
from paper.panels import Drawn
from paper.recipes import RECIPES
from paper.runs import RunSpec

EVERYTHING = {
    name: {item.name: constructed(item) for item in recipe.items("short")} for name, recipe in RECIPES.items()
}


def picture(drawn: Iterator[Drawn], name: str) -> Figure:
    """Return one picture; those after it are not drawn."""
    return next(figure for found, figure in drawn if found == name)


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("name", "pictures", "panels"),
    [
        ("fig2", ["fig2", "fig2-models", "fig2-noise"], 3),
        ("fig3", ["fig3"], 6),
        ("fig4", ["fig4"], 3),
        ("fig5", ["fig5"], 3),
        ("depth", ["depth"], 3),
    ],
)
@pytest.mark.parametrize("scale", ["tiny", "short"])
def test_a_figure_is_drawn_from_results_alone(name, pictures, panels, scale, tmp_path: Path) -> None:
    results = {item.name: constructed(item) for item in RECIPES[name].items(scale)}
    drawn = dict(RECIPES[name].draw(results, scale))
    if scale == "short":
        assert list(drawn) == pictures
    assert name in drawn
    if scale == "short" or name in ("fig2", "fig5"):
        assert len(drawn[name].axes) == panels
    if scale == "short":
        for path in save(drawn[name], tmp_path / name):
            assert path.stat().st_size > 5_000


@pytest.mark.parametrize("name", RECIPES)
def test_without_results_nothing_is_drawn(name: str) -> None:
    assert list(RECIPES[name].draw({}, "short")) == []


def test_figure_2_shows_models_seeds_and_references_near_and_far() -> None:
    figure = picture(RECIPES["fig2"].draw(EVERYTHING["fig2"], "short"), "fig2")
    assert legend_of(figure)[:4] == ["AlgoFormer", "standard", "looped", "oracle"]
    first = figure.axes[0]
    # three models, oracle, linear in x; two loops beyond training; two more seeds for three models
    assert len(first.get_lines()) == 5 + 2 + 6
    assert first.get_title() == "regression with representation, 8,000 steps"


def test_every_model_has_a_row_with_its_seeds() -> None:
    drawn = dict(RECIPES["fig2"].draw(EVERYTHING["fig2"], "short"))
    first, second, _ = drawn["fig2-models"].axes
    names = [tick.get_text() for tick in first.get_yticklabels()]
    assert len(names) == 13
    assert names[:2] == ["AlgoFormer", "AlgoFormer, a third of the rate"]
    bands = [line for line in second.get_lines() if len(line.get_xdata()) == 2]
    assert len(bands) >= 13 + 2 * 3, "two more seeds of the three models"
    only = {
        name: run for name, run in EVERYTHING["fig2"].items() if name.endswith(("/algoformer", "/looped"))
    }
    assert "fig2-models" not in dict(RECIPES["fig2"].draw(only, "short")), "those are in the figure itself"


def test_an_oracle_that_is_far_below_all_models_is_left_out() -> None:
    def lines(oracle: float) -> list[float]:
        run = constructed(next(i for i in RECIPES["fig2"].items("short") if i.name == "chain/oracle"), oracle)
        results = EVERYTHING["fig2"] | {"chain/oracle": run}
        axes = picture(RECIPES["fig2"].draw(results, "short"), "fig2-models").axes[2]
        return [float(line.get_xdata()[0]) for line in axes.get_lines()]

    least = EVERYTHING["fig2"]["chain/algoformer"].error
    assert least / 2 in lines(least / 2)
    assert 1e-14 not in lines(1e-14)


def rows_of(figure: Figure) -> list[str]:
    return [tick.get_text() for tick in figure.axes[0].get_yticklabels()]


def test_the_ablation_is_a_dot_plot_with_a_ring_at_the_farthest_depth() -> None:
    ((_, figure),) = RECIPES["depth"].draw(EVERYTHING["depth"], "short")
    assert len(rows_of(figure)) == 8
    bands = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2]
    assert len(bands) == 8 + 7, "seven variants have a second seed"
    run = EVERYTHING["depth"]["depth-linear/holding"]
    ring, dot = (float(line.get_xdata()[0]) for line in figure.axes[0].get_lines()[1:3])
    assert dot == pytest.approx(run.error)
    assert ring == pytest.approx(run.error * run.growth(1000))


def test_the_ablation_leaves_out_what_changes_two_things() -> None:
    results = dict(EVERYTHING["depth"])
    item = next(item for item in RECIPES["depth"].items("short") if item.name == "depth-linear/gate")
    assert isinstance(item, RunSpec)
    results["depth-linear/gate"] = constructed(item.with_steps(20_000))
    del results["depth-representation/gate"], results["depth-representation/gate-seed1"]
    ((_, figure),) = RECIPES["depth"].draw(results, "short")
    assert not any("gated" in label for label in rows_of(figure))


def test_a_second_seed_alone_is_drawn_as_well() -> None:
    results = {name: run for name, run in EVERYTHING["depth"].items() if "/late" in name}
    del results["depth-linear/late-fixed"]
    ((_, figure),) = RECIPES["depth"].draw(results, "short")
    assert [axes.get_title() for axes in figure.axes] == ["with a delayed curriculum, 5,000 steps"]
    assert rows_of(figure) == ["random burn-in", "fixed depth"]


def test_a_run_over_other_steps_says_so() -> None:
    results = dict(EVERYTHING["fig2"])
    item = next(item for item in RECIPES["fig2"].items("short") if item.name == "chain/looped")
    assert isinstance(item, RunSpec)
    results["chain/looped"] = constructed(item.with_steps(9_000))
    figure = picture(RECIPES["fig2"].draw(results, "short"), "fig2")
    assert "looped (9,000 steps)" in legend_of(figure)
    assert figure.axes[2].get_title() == "chain of thought, 6,000 steps"
    rows = picture(RECIPES["fig2"].draw(results, "short"), "fig2-models").axes[0].get_yticklabels()
    assert "looped (9,000 steps)" in [row.get_text() for row in rows]


def test_a_part_of_a_figure_is_drawn_with_what_there_is() -> None:
    only = {"chain/algoformer": EVERYTHING["fig2"]["chain/algoformer"]}
    figure = picture(RECIPES["fig2"].draw(only, "short"), "fig2")
    assert [len(axes.get_lines()) for axes in figure.axes] == [2], "no empty panels"
    assert figure.axes[0].get_title() == "chain of thought, 6,000 steps"
    assert legend_of(figure) == ["AlgoFormer"]


def test_textbook_methods_alone_make_no_figure() -> None:
    for name in ("fig2", "fig3", "fig5"):
        references = {key: run for key, run in EVERYTHING[name].items() if run.steps is None}
        assert references
        assert list(RECIPES[name].draw(references, "short")) == []


def test_another_seed_over_other_steps_is_not_drawn_as_a_repeat() -> None:
    item = next(item for item in RECIPES["fig2"].items("short") if item.name == "chain/looped-seed1")
    assert isinstance(item, RunSpec)
    lines = []
    for again in (item, item.with_steps(77)):
        results = {"chain/looped": EVERYTHING["fig2"]["chain/looped"], item.name: constructed(again)}
        lines.append(len(picture(RECIPES["fig2"].draw(results, "short"), "fig2").axes[0].get_lines()))
    assert lines == [3, 2]


def test_sizes_over_other_steps_stand_apart_in_figure_4() -> None:
    results = dict(EVERYTHING["fig4"])
    item = next(item for item in RECIPES["fig4"].items("short") if item.name == "layers/algoformer-1")
    assert isinstance(item, RunSpec)
    results[item.name] = constructed(item.with_steps(16_000))
    figure = picture(RECIPES["fig4"].draw(results, "short"), "fig4")
    assert "AlgoFormer, L + L + L layers (16,000 steps)" in legend_of(figure)
    layers, _, heads = figure.axes
    data = [list(bars.lines[0].get_xdata()) for bars in layers.containers]
    assert data[:2] == [[2, 3, 4], [1]]
    assert [list(bars.lines[0].get_xdata()) for bars in heads.containers] == [[1, 2, 4, 16], [8]]


def test_a_single_size_is_no_sweep() -> None:
    only = {"layers/algoformer-1": EVERYTHING["fig4"]["layers/algoformer-1"]}
    assert list(RECIPES["fig4"].draw(only, "short")) == []


def test_figure_3_has_a_row_for_each_way_to_train_that_was_run() -> None:
    held = {name: run for name, run in EVERYTHING["fig3"].items() if not name.startswith("loops/fixed")}
    figure = picture(RECIPES["fig3"].draw(held, "short"), "fig3")
    assert len(figure.axes) == 3
    assert len({round(axes.get_position().y0, 3) for axes in figure.axes}) == 1
    assert all("random burn-in" in axes.get_title() for axes in figure.axes)


def test_models_stand_in_order_before_textbook_methods_whichever_panel_lacks_one() -> None:
    textbook = ["gradient descent, one step for all", "gradient descent, a step for each prompt"]
    windows = sorted({int(name.rpartition("-")[2]) for name in EVERYTHING["fig3"] if "loops/" in name})
    for missing in (f"loops/fixed-{depth}-{windows[0]}" for depth in (10, 20, 30)):
        results = {name: run for name, run in EVERYTHING["fig3"].items() if name != missing}
        figure = picture(RECIPES["fig3"].draw(results, "short"), "fig3")
        assert legend_of(figure) == ["T = 10", "T = 20", "T = 30", *textbook]
    # also where the panel that has the missing model has no textbook method
    names = ("linear/algoformer", "linear/newton", "linear-noise-1/algoformer-10-10")
    figure = picture(
        RECIPES["fig5"].draw({name: EVERYTHING["fig5"][name] for name in names}, "short"), "fig5"
    )
    assert legend_of(figure) == ["AlgoFormer (20, 15)", "AlgoFormer (10, 10)", "Newton"]


def test_figure_4_has_a_point_for_each_size() -> None:
    figure = picture(RECIPES["fig4"].draw(EVERYTHING["fig4"], "short"), "fig4")
    layers, slower, heads = figure.axes
    for axes in (layers, slower):
        data = [list(bars.lines[0].get_xdata()) for bars in axes.containers]
        assert data == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    assert list(heads.containers[0].lines[0].get_xdata()) == [1, 2, 4, 8, 16]
