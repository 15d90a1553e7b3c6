from pathlib import Path

import pytest

from algoformer.cli import main
from tiny import TINY


@pytest.fixture
def tiny_run(tmp_path: Path) -> Path:
    """A finished run of four steps."""
    folder = tmp_path / "tiny"
    assert main(["train", *TINY, "--training.steps", "4", "--out", str(folder), "--no-evaluate"]) == 0
    return folder


@pytest.fixture
def other_news(tmp_path: Path) -> None:
    """A folder like that of AG News, with other texts."""
    (tmp_path / "ag_news").mkdir()
    for name in ("train", "valid", "test"):
        rows = "".join(f"{label},{name} number {label}\n" for label in range(4))
        (tmp_path / "ag_news" / f"{name}.csv").write_text("label,text\n" + rows)
    (tmp_path / "ag_news" / "classes.txt").write_text("one\ntwo\nthree\nfour\n")
