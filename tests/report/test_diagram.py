from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from algoformer.model import Layers, Loop, Parallel, Program, TwoStates
from algoformer.model import presets as programs
from algoformer.model.program import default_steps
from algoformer.report.diagram import AMBER, BLUE, DARK, GREEN, INK, MUTED, PAPER, PROMPT, RED, diagram
from algoformer.report.layout import Box, lines_of, place_row, text_size, text_width
from report.test_style import luminance
from tests.random_programs import programs as random_programs

SVG = "{http://www.w3.org/2000/svg}"
DEEP = Program(
    Layers(2, name="encode", causal=False, norm=False, scaled=False, activation="relu", hidden=64),
    Loop(
        (
            Parallel(Loop(Layers(1), 4, "gate", name="fast"), Layers(0, name="still")),
            Loop(Loop(Layers(1, heads=1), 3, name="innermost"), 5, name="inner"),
        ),
        12,
        name="outer",
    ),
    Parallel(Layers(1), Layers(3, name="wide"), name="heads"),
)
PRESETS = {name: preset() for name, preset in programs.PRESETS.items()} | {"deep": DEEP}


def within(boxes: tuple[Box, ...]) -> Iterator[Box]:
    for box in boxes:
        yield box
        for row in box.rows:
            yield from within(row)


def names(program: Program) -> set[str]:
    return {box.part.name for box in within(place_row(program, 0.0, 0.0))} - {""}


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def apart(one: Box, other: Box) -> bool:
    beside = one.right < other.left or other.right < one.left
    return beside or one.bottom < other.top or other.bottom < one.top


@settings(max_examples=25)
@given(random_programs())
def test_boxes_stand_apart_and_inside_the_box_they_belong_to(program: Program) -> None:
    top = place_row(program, 0.0, 0.0)
    for one, other in combinations(top, 2):
        assert apart(one, other)
    for box in within(top):
        inside = [inner for row in box.rows for inner in row]
        for one, other in combinations(inside, 2):
            assert apart(one, other)
        header = box.top + text_size(box.part)[1]
        for inner in inside:
            assert box.left < inner.left < inner.right < box.right
            assert header < inner.top < inner.bottom < box.bottom


@settings(max_examples=25)
@given(random_programs())
def test_boxes_of_a_row_share_its_axis_and_hold_their_words(program: Program) -> None:
    for box in within(place_row(program, 0.0, 0.0)):
        assert box.top < box.axis < box.bottom
        assert text_size(box.part)[0] < box.size.width
        assert text_size(box.part)[1] < box.bottom - box.top
        for row in box.rows:
            assert len({inner.axis for inner in row}) == 1
        if isinstance(box.part, Loop):
            assert box.rows[0][0].axis == box.axis


@settings(max_examples=25)
@given(random_programs())
def test_the_picture_is_xml_that_names_every_part_and_stays_on_its_page(program: Program) -> None:
    svg = diagram(program)
    page = ElementTree.fromstring(svg)
    width, height = float(page.get("width", 0)), float(page.get("height", 0))
    assert page.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    shown = words(svg)
    for name in names(program):
        assert any(text == name or text.startswith(f"{name} × ") for text in shown)
    for box in page.iter(f"{SVG}rect"):
        left, top, across, down = (float(box.get(key, 0)) for key in ("x", "y", "width", "height"))
        assert left >= 0
        assert top >= 0
        assert left + across <= width
        assert top + down <= height
    for text in page.iter(f"{SVG}text"):
        assert 0 < float(text.get("x", 0)) < width
        assert 0 < float(text.get("y", 0)) < height


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_drawn_with_its_layers_heads_and_steps(name: str) -> None:
    program = PRESETS[name]
    shown = words(diagram(program))
    for box in within(place_row(program, 0.0, 0.0)):
        assert set(lines_of(box.part)) <= set(shown)
        if isinstance(box.part, Loop):
            assert f"{box.part.name} × {box.part.steps}".strip() in shown
    assert shown[0] == "prompt"
    assert "trace" in shown


def test_the_picture_of_the_paper() -> None:
    shown = words(diagram(programs.algoformer(), window=15))
    assert shown == [
        *(
            "prompt",
            "pre",
            "1 layer × 8 heads",
            "loop × 20",
            "input added at every step",
            "1 layer × 8 heads",
        ),
        *("post", "1 layer × 8 heads", "trace", "15 answers", "the last 15 of 20 are read out"),
    ]


def test_the_window_is_filled_in() -> None:
    def bars(window: int | None) -> list[float]:
        page = ElementTree.fromstring(diagram(programs.looped(steps=20), window=window))
        return [float(box.get("width", 0)) for box in page.iter(f"{SVG}rect") if box.get("height") == "9"]

    whole, filled = bars(15)
    assert filled == pytest.approx(whole * 15 / 20, abs=0.1)
    assert bars(None) == [whole, whole]


@pytest.mark.parametrize("inject", ["add", "gate", "none"])
def test_each_injection_is_told_and_drawn_apart(inject: str) -> None:
    pictures = {kind: diagram(programs.looped(inject=kind)) for kind in ("add", "gate", "none")}
    own = pictures.pop(inject)
    assert own not in pictures.values()
    caption = {"add": "added at every", "gate": "through gates at every", "none": "at the first step only"}
    assert caption[inject] in own


def test_every_setting_of_a_loop_is_told() -> None:
    words = {"start": "noise", "damp": 0.5, "step_signal": "sinusoid", "halt": "gate"}
    _, *told = lines_of(Loop(Layers(1), 4, "concat", **words))
    assert told == ["start noise", "damp 0.5", "sinusoid of the step added", "exit gate"]
    low = Loop(Layers(1), 3, damp=0.25)
    assert lines_of(low)[1:] == ("damp 0.25",)
    two = TwoStates((low, Layers(1)), 2, start="input")
    assert lines_of(two) == ("two states: slow, and fast inside", "input added at every step", "start input")


def test_a_program_without_a_loop_has_no_iterations() -> None:
    shown = words(diagram(programs.standard()))
    assert shown == ["prompt", "layers", "12 layers × 8 heads", "trace", "1 answer"]


def test_words_are_escaped() -> None:
    part = Layers(1)
    object.__setattr__(part, "name", "<script>&\"'")  # past the check of names, which knows no such letters
    svg = diagram(Program(part))
    assert "<script>" not in svg
    assert "<script>&\"'" in words(svg)


@pytest.mark.parametrize("window", [0, 21])
def test_a_window_that_does_not_fit_is_refused(window: int) -> None:
    with pytest.raises(ValueError, match=rf"window must lie in 1\.\.20 \(the steps\), got {window}"):
        diagram(programs.looped(), window=window)


def test_what_a_part_says_is_put_in_lines() -> None:
    assert lines_of(Layers(0, final_norm=False)) == ("positions",)
    assert lines_of(Layers(0)) == ("positions and norm",)
    plain = Layers(2, causal=False, norm=False, scaled=False, activation="relu", hidden=64)
    assert lines_of(plain)[:2] == ("2 layers × 8 heads", "full attention, no norm")
    assert lines_of(plain)[2:] == ("unscaled scores, relu", "hidden 64")
    assert text_width("wide", 14.0, bold=True) > text_width("wide", 14.0) > text_width("will", 14.0)


def test_huge_programs_are_drawn_in_no_time() -> None:
    assert default_steps(Program(Loop(Layers(1), 1_000_000))) == 1_000_000
    assert len(diagram(Program(Loop(Layers(1_000_000), 1_000_000)))) < 10_000


def test_notebooks_show_a_program_as_its_diagram() -> None:
    program = Program(Loop(Layers(1), 3))
    assert program._repr_svg_() == diagram(program)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours by the WCAG."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_every_box_in_both_schemes(scheme: str) -> None:
    def shown(color: str) -> str:
        return DARK[color] if scheme == "dark" else color

    for box in (PAPER, BLUE[0], GREEN[0], *AMBER[0]):
        for ink in (INK, MUTED):
            assert contrast(shown(ink), shown(box)) >= 4.5, (ink, box)
    assert contrast("#ffffff", shown(PROMPT)) >= 4.5
    assert contrast("#ffffff", RED) >= 4.5


def test_the_dark_scheme_changes_colours_that_are_drawn() -> None:
    drawn = diagram(DEEP)
    style = drawn[drawn.index("<style>") : drawn.index("</style>")]
    for light, dark in DARK.items():
        assert f'[fill="{light}"] {{ fill: {dark} }}' in style
        assert f'="{light}"' in drawn.replace(style, "")
