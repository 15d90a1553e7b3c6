"""The examples run, stay short, and made the pictures that the repository shows."""

import re
import runpy
from pathlib import Path

import pytest

from algoformer import programs
from algoformer.report.diagram import diagram
from tests.docs.pages import ROOT, inside

pytestmark = pytest.mark.docs
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PICTURES = ROOT / "docs" / "pictures"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_is_short_and_begins_with_words(example: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert lines[0] == "# %% [markdown]"
    assert lines[1].startswith("# # ")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_runs(example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with inside(tmp_path):
        runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed, "an example shows something"
    for name in re.findall(r"\w+\.(?:svg|png)", printed):
        assert (tmp_path / name).stat().st_size > 1000
        if (PICTURES / name).exists():
            assert_same_drawing(PICTURES / name, tmp_path / name)


def assert_same_drawing(committed: Path, fresh: Path) -> None:
    """The same lines up to a few points: another matplotlib sets letters and margins a little differently."""
    old, new = (curves(path.read_text(encoding="utf-8")) for path in (committed, fresh))
    assert len(old) == len(new) > 0, f"run the example again for {committed.name}"
    for before, after in zip(old, new, strict=True):
        assert len(before) == len(after)
        gap = max(abs(a - b) for a, b in zip(before, after, strict=True))
        assert gap < 5, f"{committed.name} is off by {gap} points: run the example again"


def curves(svg: str) -> list[list[float]]:
    """The coordinates of everything that is drawn inside the axes."""
    paths = re.findall(r'<path d="([^"]*)" clip-path', svg)
    return [[float(number) for number in re.findall(r"-?\d+\.?\d*", path)] for path in paths]


def test_the_picture_of_the_readme_is_what_the_library_draws() -> None:
    drawn = diagram(programs.algoformer(), window=15)
    committed = (PICTURES / "algoformer.svg").read_text(encoding="utf-8")
    assert committed == drawn, (
        "write diagram(programs.algoformer(), window=15) to docs/pictures/algoformer.svg"
    )


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*")), ids=lambda picture: picture.name)
def test_every_picture_is_shown_somewhere(picture: Path) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert any(f"pictures/{picture.name}" in page.read_text(encoding="utf-8") for page in pages)
