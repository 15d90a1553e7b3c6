"""The page that `evaluate` and `train` leave beside their numbers."""

from pathlib import Path

import pytest

from algoformer.cli import main, report_page


def evaluated(run: Path, out: Path) -> str:
    assert main(["evaluate", str(run), "--against", "newton", "--prompts", "8", "--out", str(out)]) == 0
    return (out / "report.html").read_text(encoding="utf-8")


def test_the_report_opens_with_words_and_holds_the_model(tiny_run: Path, tmp_path: Path) -> None:
    page = evaluated(tiny_run, tmp_path)
    assert page.index('id="conclusion"') < page.index('id="try"') < page.index("How well it does")
    assert "On 8 new prompts" in page
    assert '"format": 1' in page
    assert f"--out {tmp_path}" in page, "the command stands in the page"
    assert not (tmp_path / "explorer.html").exists()


def test_a_large_explorer_lies_beside_the_report(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "INSIDE", 1000)
    page = evaluated(tiny_run, tmp_path)
    assert "<script" not in page
    assert '<a href="explorer.html">' in page
    assert '"format": 1' in (tmp_path / "explorer.html").read_text(encoding="utf-8")


def test_a_model_that_the_explorer_cannot_run_gets_a_page_that_says_why(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(contender: object) -> None:
        raise ValueError("the page cannot run the part 'memory'")

    monkeypatch.setattr(report_page, "explore", refuse)
    page = evaluated(tiny_run, tmp_path)
    assert "<script" not in page
    assert "This model has no explorer: the page cannot run the part &#39;memory&#39;." in page
    assert "How well it does" in page
