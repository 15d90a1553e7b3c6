import re

import pytest

from algoformer.report.style import (
    COLORS,
    INK,
    MODELS,
    SPARE,
    TEXTBOOK,
    following_mode,
    page_colors,
    strokes,
)


@pytest.mark.parametrize(
    ("label", "family"),
    [
        ("AlgoFormer", "algoformer"),
        ("algoformer (20, 15)", "algoformer"),
        ("looped transformer", "looped"),
        ("standard, 12 layers", "standard"),
        ("gradient descent", "gradient"),
        ("gd", "gd"),
        ("Newton", "newton"),
        ("least-squares", "least"),
    ],
)
def test_what_a_label_names_decides_its_stroke(label: str, family: str) -> None:
    assert strokes(["something", label, "else"])[label] == (MODELS | TEXTBOOK)[family]


def test_two_letters_inside_a_word_name_nothing() -> None:
    assert strokes(["budgdet"])["budgdet"].color == SPARE[0]


def test_models_are_solid_and_textbook_methods_dashed() -> None:
    assert all(stroke.solid for stroke in MODELS.values())
    assert not any(stroke.solid for stroke in TEXTBOOK.values())


def test_strangers_are_dashed_if_they_are_textbook_methods() -> None:
    found = strokes(["mine", "lasso"], textbook=["lasso"])
    assert found["mine"].solid
    assert not found["lasso"].solid
    assert found["mine"].color != found["lasso"].color


def test_several_models_of_one_family_differ_in_color_and_marker() -> None:
    found = strokes([f"AlgoFormer, window {window}" for window in (5, 10, 15, 20)])
    assert len({stroke.color for stroke in found.values()}) == 4
    assert len({stroke.marker for stroke in found.values()}) == 4
    assert next(iter(found.values())) == MODELS["algoformer"]
    assert all(stroke.solid for stroke in found.values())


def luminance(color: str) -> float:
    """Relative luminance by the WCAG."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("name", "pair"), COLORS.items())
def test_every_color_has_contrast_on_white_and_on_black(name: str, pair: tuple[str, str]) -> None:
    light, dark = pair
    assert 1.05 / (luminance(light) + 0.05) >= 3
    assert (luminance(dark) + 0.05) / (luminance("#0f1419") + 0.05) >= 4.5


def test_pages_and_pictures_share_one_table_of_colors() -> None:
    light, dark = COLORS["model"]
    assert f"--model:{light}" in page_colors()
    assert f"--model:{dark}" in page_colors()
    assert following_mode(f"stroke: {light}; fill: {INK}") == "stroke: var(--model); fill: currentColor"


def test_colors_are_colors() -> None:
    labels = [*MODELS, *TEXTBOOK, "a", "b", "AlgoFormer 2", "newton 2"]
    assert all(re.fullmatch("#[0-9a-f]{6}", stroke.color) for stroke in strokes(labels).values())
