import re

import pytest

from algoformer.report.style import MODELS, SPARE, TEXTBOOK, strokes


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


def test_one_family_comes_in_shades_from_dark_to_light() -> None:
    found = strokes([f"AlgoFormer, window {window}" for window in (5, 10, 15, 20)])
    lightness = [sum(int(stroke.color[at : at + 2], 16) for at in (1, 3, 5)) for stroke in found.values()]
    assert lightness == sorted(set(lightness))


def test_colors_are_colors() -> None:
    labels = [*MODELS, *TEXTBOOK, "a", "b", "AlgoFormer 2", "newton 2"]
    assert all(re.fullmatch("#[0-9a-f]{6}", stroke.color) for stroke in strokes(labels).values())
