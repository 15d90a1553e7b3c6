"""The tables of the page have the numbers of the committed results, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algoformer.insight import DepthCertificate, Identification
from algoformer.insight.gates import MEASUREMENT

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "insight"
PAGE = (ROOT / "docs" / "inside-the-loop.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())
MODELS = ("linear", "linear-bf16", "linear-log", "linear-mean", "representation", "representation-mean")
CERTIFIED = ("linear", "linear-bf16", "representation", "sudoku", "tatoeba_de_en", "books", "dbpedia")


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / path).read_text(encoding="utf-8"))
    return found


def verdict(path: str) -> Identification:
    return Identification.from_json((RESULTS / path).read_text(encoding="utf-8"))


def cells(start: str) -> list[str]:
    """Return the cells of the one row of the page that starts like this."""
    (row,) = {line for line in PAGE.splitlines() if line.startswith(start)}
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def left(values: list[float] | tuple[float, ...], *, digits: int = 2) -> str:
    """Write shares that are left, as the page does."""

    def short(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.{digits}g}"

    return ", ".join(short(value) for value in values)


def failed(found: Identification) -> str:
    names = [gate.name for gate in found.failed_gates]
    kept = [gate.name for gate in found.gates if gate.passed and gate.name != MEASUREMENT]
    if len(kept) < 2:
        return "all" if not kept else f"all but {kept[0]}"
    return ", ".join(names)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    found = verdict(f"{name}/identification.json")
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |") and " of 40 |" in line]
    nearest, share, ceiling, passes, influence, gates = row.strip(" |").split(" | ")[2:]
    one = found.nearest
    assert nearest.startswith(str(one))
    assert share == f"{one.share:.2f} [{one.low:.2f}, {one.high:.2f}]"
    assert ceiling == f"{found.ceiling:.2f}"
    assert passes == f"{found.passes[0]} to {found.passes[1]}"
    assert influence == f"first {found.rests_on} of {len(found.influence)}"
    assert gates == failed(found)


def test_the_shipped_linear_model() -> None:
    found = verdict("linear/identification.json")
    assert f"There are {len(found.families)} families" in PROSE
    assert f"Newton's iteration, which explains {100 * found.nearest.share:.0f} % of the remaining" in PROSE
    descent = max(one.share for one in found.families if one.name.startswith("gradient descent"))
    assert f"Gradient descent explains {100 * descent:.0f} %, and the best *spectral filter*" in PROSE
    assert f"eigendirections of the Gram matrix, {100 * found.ceiling:.0f} %." in PROSE
    assert f"passes 1 to 4, {left(found.error[:3])} and {left(found.error[3:4])} of the" in PROSE
    assert f"by {found.foreign[0]:.2f} of a label's variance (least squares: {found.foreign[1]:.2f})" in PROSE
    assert f"--out identified # {found.setting['cpu_seconds']:.0f} s of CPU time" in PROSE
    certified = read("linear/certificate.json")["setting"]["cpu_seconds"]
    assert f"--out certified # {certified:.0f} s: 1000" in PROSE
    ceilings = [verdict(f"linear/{name}.json").ceiling for name in ("identification", "seed1", "seed2")]
    assert "that of the best filter {:.2f}, {:.2f} and {:.2f}".format(*ceilings) in PROSE
    for name in ("identification", "seed1", "seed2"):
        influence = verdict(f"linear/{name}.json").influence
        unread = [place + 1 for place, value in enumerate(influence) if value < 1e-3 * max(influence)]
        assert unread == [34, 35, 39, 40]
    assert "In all three sets, examples 34, 35, 39 and 40 of 40 have no influence on its answers" in PROSE


@pytest.mark.parametrize("noise", [0, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_standard_transformers_by_layer(noise: float, seed: int) -> None:
    run = read(f"training/standard-noise{noise:g}-seed{seed}.json")
    found = run["training"][-1]
    name = f"noise {noise:g}" if noise else "no noise"
    first, last = found["passes"]
    assert cells(f"| standard, {name}, seed {seed} |")[1:] == [
        left(found["left"]),
        found["nearest"],
        f"{found['share']:.2f} [{found['low']:.2f}, {found['high']:.2f}]",
        f"{found['ceiling']:.2f}",
        f"{first} to {last}",
        f"{run['error'][-1]:.2g}",
    ]


@pytest.mark.parametrize("path", sorted((RESULTS / "depth").glob("*/layer*.json")), ids=str)
def test_layers_of_chains(path: Path) -> None:
    found = verdict(str(path.relative_to(RESULTS)))
    (again,) = [gate.value for gate in found.gates if gate.name == MEASUREMENT]
    assert cells(f"| {path.stem.removeprefix('layer')} | `{path.parent.name}` |")[2:] == [
        left([found.error[index] for index in (0, 1, 2, 5)]).replace(", ", "; "),
        found.status,
        found.nearest.name,
        f"{found.nearest.share:.2f}",
        f"{found.ceiling:.2f}",
        f"{again:.2f}",
    ]


@pytest.mark.parametrize("path", sorted((RESULTS / "depth").glob("*/identification.json")), ids=str)
def test_loops_on_series(path: Path) -> None:
    found = verdict(str(path.relative_to(RESULTS)))
    nearest = found.nearest
    error, oracle = found.setting["error"][-1], found.setting["oracle_error"]
    assert cells(f"| `{path.parent.name}` | 0.")[1:] == [
        f"{error:.4f}; {oracle:.4f}",
        left([found.error[index] for index in (0, 1, 2, 5)]).replace(", ", "; "),
        found.status,
        str(nearest),
        f"{nearest.share:.2f} [{nearest.low:.2f}, {nearest.high:.2f}]",
        f"{found.ceiling:.2f}",
    ]
    assert 1.25 < error / oracle < 1.5
    assert "order of examples" in {gate.name for gate in found.failed_gates}
    assert found.ceiling < 0.35


def is_loop(row: dict[str, Any]) -> bool:
    return str(row["control"]).startswith("distilled ")


GROUPS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "zero": lambda row: row["control"] == "zero",
    "null": lambda row: row["null"],
    "noise": lambda row: " + " in row["control"] and not row["null"],
    "built": lambda row: row["control"].startswith("built "),
    "loop": is_loop,
}


def group_of(row: dict[str, Any]) -> str:
    """Return the row of the confusion table that a control counts in."""
    return next((name for name, holds in GROUPS.items() if holds(row)), "textbook")


@pytest.mark.parametrize(
    ("start", "group"),
    [
        ("textbook methods and closed forms", "textbook"),
        ("zero weights", "zero"),
        ("textbook methods with noise in what is left", "noise"),
        ("not in any family: Adam, noise, noisy conjugate gradients, changed GD, random weights", "null"),
        ("hand-built from theorems", "built"),
        ("trained: loops distilled from gradient descent and Newton's iteration, two seeds each", "loop"),
    ],
)
def test_confusion(start: str, group: str) -> None:
    rows = [row for row in read("controls.json")["rows"] if group_of(row) == group]
    named, right = sum(row["named"] is not None for row in rows), sum(row["right"] for row in rows)
    assert cells(f"| {start} |")[1:] == [f"{named} of {len(rows)}", f"{right} of {len(rows)}"]


def test_parameters_of_controls() -> None:
    found = read("controls.json")
    assert f"to within {found['largest_parameter_error']:.0e}" in PROSE
    assert f"to within {100 * found['largest_parameter_error_of_loops']:.1f} %" in PROSE


@pytest.mark.parametrize("name", CERTIFIED)
def test_certificates(name: str) -> None:
    found, row = read(f"{name}/certificate.json"), cells(f"| `{name}`, ")
    states = found["states"]
    assert row[3] == ", ".join(f"{kind} {count}" for kind, count in states["prompts"].items() if count)
    assert row[4] == f"{min(states['predicted']):.3f} to {max(states['predicted']):.3f}"
    span = f"({found['trained']} to {found['far']} passes)"
    if "shift" in found:
        assert row[1] == ("hold" if max(found["shift"]) <= 0.1 else "move")
        changed = f"answer changes at {found['tokens_changed']} of {found['tokens']} tokens"
        bleu = [f"{value:.1f} at {depth}" for depth, value, *_ in found["bleu"]]
        parts = [f"largest change of a probability {max(found['shift']):.2g} {span}", changed]
        assert row[2] == "; ".join(parts + (["BLEU " + ", ".join(bleu)] if bleu else []))
    else:
        low, high = found["ratio_band"]
        assert row[1] == found["answers"]
        assert (
            row[2]
            == f"error × {found['ratio']:.2f} [{low:.2f}, {high:.2f}] {span}, swing {found['swing']:.2f}"
        )


def test_what_the_page_says_of_certificates() -> None:
    linear, older = read("linear/certificate.json"), read("linear-bf16/certificate.json")
    trained = linear["depths"].index(linear["trained"])
    ratio = older["error"][trained] / linear["error"][trained]
    assert f"{ratio:.0f} times smaller than that of `linear-bf16`" in PROSE
    assert max(linear["states"]["radii"]) > 1
    sudoku = read("sudoku/certificate.json")["states"]
    assert f"the states of {sudoku['prompts']['cycles']} of them cycle, mostly with period 2" in PROSE
    assert max(sudoku["periods"], key=sudoku["periods"].get) == "2"


@pytest.mark.parametrize("path", sorted((RESULTS / "depth").glob("*/certificate.json")), ids=str)
def test_known_cases(path: Path) -> None:
    found = DepthCertificate.from_json(path.read_text(encoding="utf-8"))
    low, high = found.ratio_band
    assert cells(f"| `{path.parent.name}` | {found.answers} |")[1:] == [
        found.answers,
        f"× {found.ratio:.2f} [{low:.2f}, {high:.2f}]",
        f"{found.error_at(found.trained):.2g}",
        str(found.best_depth),
    ]


def test_similarity() -> None:
    found = read("similarity.json")["by_pass"]
    one, other = found["trained and Newton"][4], found["trained and least squares"][4]
    random, late = found["random weights and Newton"][4], found["trained and Newton, 25 examples or more"][4]
    assert f"is {one:.2f} between pass 5 of the shipped linear model and Newton's iteration" in PROSE
    assert f"{other:.2f} between that pass and plain least squares, and {random:.2f} between" in PROSE
    assert f"with 25 examples or more the first number falls to {late:.2f}" in PROSE
