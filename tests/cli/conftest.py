from pathlib import Path

import pytest

from algoformer.cli import main
from tiny import TINY


@pytest.fixture
def tiny_run(tmp_path: Path) -> Path:
    """A finished run of four steps."""
    folder = tmp_path / "tiny"
    assert main(["train", *TINY, "--steps", "4", "--out", str(folder), "--no-evaluate"]) == 0
    return folder
