"""The committed results of this room keep what the page says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algoformer.insight import DepthCertificate, Identification

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "insight"
PAGE = (ROOT / "docs" / "inside-the-loop.md").read_text(encoding="utf-8")
MODELS = sorted(path.parent.name for path in RESULTS.glob("*/identification.json"))
CERTIFIED = sorted(path.parent.name for path in RESULTS.glob("*/certificate.json"))


def test_at_least_95_of_100_controls_are_right_and_no_null_is_named() -> None:
    table = json.loads((RESULTS / "controls.json").read_text(encoding="utf-8"))
    rows = table["rows"]
    assert table["right"] == sum(row["right"] for row in rows)
    assert table["right"] >= 0.95 * len(rows)
    assert all(row["named"] is None for row in rows if row["null"])
    exact = [row for row in rows if "noise" not in row["control"]]
    assert max(row["off"] for row in exact) < 0.01
    assert len({(row["dim"], row["examples"]) for row in rows}) == 3
    assert {row["noise"] for row in rows} == {0.0, 0.5}
    assert f"{table['right']} of {table['controls']}" in PAGE


@pytest.mark.parametrize("name", MODELS)
def test_the_page_has_the_verdict_of_every_model(name: str) -> None:
    found = Identification.from_json((RESULTS / name / "identification.json").read_text(encoding="utf-8"))
    assert found.setting["command"]
    assert found.setting["commit"] != "unknown"
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    nearest = found.nearest
    shown = [
        nearest.name,
        f"{nearest.share:.2f} [{nearest.low:.2f}, {nearest.high:.2f}]",
        f"{found.ceiling:.2f}",
    ]
    assert all(text in row for text in shown), row


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_page_has_the_certificate_of_every_model(name: str) -> None:
    found = DepthCertificate.from_json((RESULTS / name / "certificate.json").read_text(encoding="utf-8"))
    assert found.states is not None
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| certificate of `{name}` |"))
    assert f"{found.answers}" in row
    assert f"× {found.ratio:.2f}" in row
    gaps = [
        abs(one - two)
        for one, two, settled in zip(
            found.states.predicted, found.states.observed, found.states.settled, strict=True
        )
        if settled and two is not None
    ]
    assert all(gap < 0.02 for gap in gaps)
