"""The words of the code are in the notation."""

import re

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.docs
PAGE = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
SHAPE = re.compile(r'(?:Float|Int|Bool)\[Tensor, "([^"]*)"\]')


def axes_in_the_code() -> dict[str, str]:
    """Every axis word in a shape, with a file that uses it."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for shape in SHAPE.findall(path.read_text(encoding="utf-8")):
            words = (word.lstrip("*#") for word in shape.split())
            found |= {word: str(path.relative_to(ROOT)) for word in words if word.isalpha()}
    return found


def axes_on_the_page() -> set[str]:
    table = PAGE.partition("## Axes")[2].partition("```")[0]
    return {
        word
        for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
        for word in re.findall(r"\w+", row)
    }


def test_every_axis_word_is_explained() -> None:
    used = axes_in_the_code()
    assert {"batch", "step", "width"} <= set(used)
    missing = {word: path for word, path in used.items() if word not in axes_on_the_page() | {"shape"}}
    assert not missing, f"docs/notation.md does not explain {missing}"


def test_no_axis_word_is_explained_that_nobody_uses() -> None:
    assert not axes_on_the_page() - set(axes_in_the_code())
