"""An identification as a sentence and as a table of text."""

from __future__ import annotations

import textwrap

from algoformer.insight.gates import MEASUREMENT, Gate
from algoformer.insight.identification import Identification
from algoformer.insight.verdict import FamilyShare

_COLUMNS = 6
"""Passes that a table shows at most."""

WIDTH = 80
"""Characters in a line of text."""


def sentence(found: Identification) -> str:
    """Return the verdict with its share, its ceiling and its limits."""
    nearest, status = found.nearest, found.status
    if status == "does not learn":
        return "does not learn: its answers hardly depend on the labels of the prompt."
    if status == "exact least squares":
        return "exact least squares from the first pass on."
    if status == "does not iterate":
        return f"does not iterate: every pass gives the same answer; nearest is {_explained(nearest, '')}."
    window = _window(found)
    if status == "runs":
        return f"runs {_explained(nearest, window)}.{_ties(found)}"
    limits = f"any filter of the spectrum {_percent(max(found.ceiling, nearest.share))}"
    if status == "resembles":
        return f"resembles {_explained(nearest, window)}, {limits}{_failures(found)}.{_ties(found)}"
    return f"none of these. Nearest: {_explained(nearest, window)}, {limits}{_failures(found)}.{_ties(found)}"


def table(found: Identification, *, families: int = 5) -> str:
    """Return the shares by pass, pace, gates and influence as text of at most 80 columns."""
    shown = _shown_passes(found)
    head = f"{'pass':38}" + "".join(f"{index:>7}" for index in shown)
    lines = [head, _row("left, share of least squares", found.error, shown, _short)]
    for name, values in found.ceilings.items():
        lines.append(_row(f"{name} explains", values, shown))
    lines += [_row(one.name, one.by_pass, shown) for one in found.families[:families]]
    lines.append(_row("gradient-flow time", found.pace, shown, _short))
    gates = [f"{gate.name} {'yes' if gate.passed else 'no'} ({gate.value:.3g})" for gate in _tested(found)]
    lines += ["", filled("symmetries: " + " · ".join(gates))]
    again = next((gate.value for gate in found.gates if gate.name == MEASUREMENT), 1.0)
    lines.append(
        filled(f"measurement: what is left, measured again with other queries, correlates to {again:.3f}")
    )
    lines.append(filled(_influence(found)))
    if found.refit is not None:
        again_with = f"{_explained(found.refit.families[0], _window(found))}, any filter "
        lines.append(filled(f"examples weighted by position: {again_with}{_percent(found.refit.ceiling)}"))
    if found.probes is not None:
        lines += ["", "linear probes of the states at the questions, held-out R²:", str(found.probes)]
    return "\n".join(lines)


def _explained(share: FamilyShare, window: str) -> str:
    band = f"[{share.low:.3f}, {share.high:.3f}]"
    return f"{share}, which explains {share.share:.3f} {band} of what is left{window}"


def _window(found: Identification) -> str:
    first, last = found.passes
    return f" in pass {first}" if first == last else f" in passes {first} to {last}"


def _ties(found: Identification) -> str:
    names = found.cannot_be_told_apart
    return f" Cannot be told apart from it: {', '.join(names)}." if names else ""


def _failures(found: Identification) -> str:
    names = [gate.name for gate in found.failed_gates]
    return f"; lacks symmetries of such methods ({', '.join(names)})" if names else ""


def _influence(found: Identification) -> str:
    count = len(found.influence)
    total = sum(found.influence_least_squares)
    exact = sum(found.influence_least_squares[: found.rests_on]) / total if total else 0.0
    moved, reference = found.foreign
    return (
        f"influence: examples 1 to {found.rests_on} of {count} have 98 % (least squares {_percent(exact)}); "
        f"foreign labels in the last quarter move answers by {_short(moved)} "
        f"(least squares {_short(reference)})"
    )


def _shown_passes(found: Identification) -> list[int]:
    last = len(found.error)
    return list(range(1, last + 1)) if last <= _COLUMNS else [*range(1, _COLUMNS), last]


def _row(name: str, values: tuple[float, ...], shown: list[int], form: object = None) -> str:
    write = form if callable(form) else _share
    cells = [write(values[index - 1]) if index <= len(values) else "" for index in shown]
    return f"{name:38}" + "".join(f"{cell:>7}" for cell in cells)


def _share(value: float) -> str:
    return f"{max(value, 0.0):.2f}" if value > -0.005 else "< 0"


def _short(value: float) -> str:
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _percent(value: float) -> str:
    return f"{value:.3f}"


def _tested(found: Identification) -> list[Gate]:
    return [gate for gate in found.gates if gate.name != MEASUREMENT]


def filled(text: str) -> str:
    """Return a paragraph in lines that fit a terminal; further lines are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
