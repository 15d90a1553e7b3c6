"""Stored pictures name the error as the library does."""

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from algoformer.report.plots import ERROR

ROOT = Path(__file__).parents[2]


def test_stored_pictures_divide_the_squared_error_by_the_scale_of_the_task() -> None:
    """Otherwise they are to be drawn again: by examples/three_solvers.py, `python -m paper.shipped`, and
    `python -m paper FIGURE --scale short --no-train --results results/short`, which train nothing.
    """
    pictures = [path for folder in ("docs", "results") for path in sorted((ROOT / folder).rglob("*.svg"))]
    # Matplotlib writes each text as a comment above its outlines
    found = [(path, re.findall(r"<!-- (squared error.*?) -->", path.read_text())) for path in pictures]
    labels = [(path, one) for path, ones in found for one in ones]
    assert labels
    assert not [(path.name, one) for path, one in labels if not one.startswith(ERROR)]
