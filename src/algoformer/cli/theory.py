"""`algoformer theory`: verify the hand-built weights, show how they work, plot their errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from algoformer.cli.parse import parse
from algoformer.cli.progress import bars
from algoformer.cli.say import say
from algoformer.common.tables import Table
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from algoformer import theory

DESCRIPTION = """Build the lemmas and theorems as weights, and compare each with its textbook algorithm.

Statements: codes, copy, gradient_descent, representation, autoregressive, chain, newton, decoder, ridge,
heavy_ball, decoder_newton, decoder_newton_serial.

Examples:
  algoformer theory                          verify all, one row each
  algoformer theory newton --json rows.json  only this one; rows as JSON too
  algoformer theory show newton              program, subspaces, layers
  algoformer theory plot --out plots         errors by c, by C and by step
"""


@dataclass(frozen=True)
class VerifyOptions:
    """Options of `algoformer theory`."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()  # Statements to verify; none means all.
    json: Path | None = None  # Write the rows to this file.


@dataclass(frozen=True)
class ShowOptions:
    """Options of `algoformer theory show`."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STATEMENT", help="One of those above.")]


@dataclass(frozen=True)
class PlotOptions:
    """Options of `algoformer theory plot`."""

    out: Path = Path("theory")  # Folder for the plots.


def run_theory(arguments: list[str]) -> int:
    """Verify, show or plot."""
    if arguments and arguments[0] == "show":
        options = parse(ShowOptions, arguments[1:], command="theory show", description=DESCRIPTION)
        from algoformer import theory

        print(theory.show(options.name))
        return 0
    if arguments and arguments[0] == "plot":
        return _plot(parse(PlotOptions, arguments[1:], command="theory plot", description=DESCRIPTION).out)
    if sum(word.partition("=")[0] == "--json" for word in arguments) > 1:
        raise ValueError("--json is given more than once; give it once, as the rows go to one file")
    return _verify(parse(VerifyOptions, arguments, command="theory", description=DESCRIPTION))


def _verify(options: VerifyOptions) -> int:
    from algoformer import theory
    from algoformer.common.files import write_json

    names = options.names or tuple(theory.REGISTRY)
    if options.json is not None and options.json.is_dir():
        raise ValueError(f"--json {options.json} is a folder; name a file in it")
    reports = []
    with bars() as progress:
        bar = progress.add_task("verifying", total=len(names), note="")
        for report in theory.verify(names):
            reports.append(report)
            progress.update(bar, completed=len(reports), note=report.name)
    say(_table(reports))
    if options.json is not None:
        write_json(options.json, [report.to_data() for report in reports])
    broken = [report.name for report in reports if not report.holds]
    if broken:
        print(f"algoformer theory: does not hold: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _table(reports: Iterable[theory.Report]) -> Table:
    rows = [
        {
            "statement": report.name,
            "holds": "yes" if report.holds else "NO",
            "max deviation": report.max_deviation,
            "steps": report.steps,
            "layers × heads claimed": report.claimed,
            "counted": report.counted,
            "width": report.width,
            "dtype": report.dtype,
            "seconds": round(report.seconds, 2),
        }
        for report in reports
    ]
    cells = tuple(tuple(row.values()) for row in rows)
    note = "Largest difference from the textbook algorithm's iterates, over all steps and prompts."
    return Table(columns=tuple(rows[0]), rows=cells, title="Theorems as weights", note=note)


def _plot(folder: Path) -> int:
    from algoformer import theory
    from algoformer.extras import require
    from algoformer.report import save
    from algoformer.report.plots import exponential_law, power_law, weights_beside_textbook

    require("matplotlib", extra="viz")
    with bars() as progress:
        bar = progress.add_task("measuring", total=3, note="")
        save(power_law(theory.error_against_c(), name="c", power=2), folder / "error_against_c")
        progress.advance(bar)
        save(exponential_law(theory.error_against_sink(), name="C", rate=-1), folder / "error_against_sink")
        progress.advance(bar)
        save(weights_beside_textbook(theory.error_by_step()), folder / "error_by_step")
        progress.advance(bar)
    print(f"plots: {printable(str(folder))}/error_against_c.png, error_against_sink.png, error_by_step.png")
    return 0
