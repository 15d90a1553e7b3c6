"""`algoformer theory`: verify the hand-built weights, show how they work, draw the laws they obey."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from algoformer import theory
from algoformer.cli.parse import parse
from algoformer.cli.progress import bars
from algoformer.cli.say import say
from algoformer.common.names import check_choice
from algoformer.evaluation import Table
from algoformer.extras import require
from algoformer.report import save
from algoformer.report.laws import exponential_law, power_law, weights_beside_textbook
from algoformer.training.files import write_json

DESCRIPTION = """Build the lemmas and theorems as weights; hold each to its textbook algorithm, step by step.

Examples:
  algoformer theory                          verify all, one row each
  algoformer theory newton --json rows.json  only this one; rows as JSON too
  algoformer theory show newton              the program, the subspaces, what each layer writes
  algoformer theory plot --out pictures      error against c and C; error by step beside textbooks
"""


@dataclass(frozen=True)
class VerifyOptions:
    """Options of `algoformer theory`."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(help="Which; none means all.")] = ()
    json: Annotated[Path | None, tyro.conf.arg(help="Write the rows to this file.")] = None


@dataclass(frozen=True)
class ShowOptions:
    """Options of `algoformer theory show`."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(help="Which statement.")]


@dataclass(frozen=True)
class PlotOptions:
    """Options of `algoformer theory plot`."""

    out: Annotated[Path, tyro.conf.arg(help="Folder for the pictures.")] = Path("theory")


def run_theory(arguments: list[str]) -> int:
    """Verify, show or plot."""
    if arguments and arguments[0] == "show":
        options = parse(ShowOptions, arguments[1:], command="theory show", description=DESCRIPTION)
        check_choice("statement", options.name, theory.REGISTRY)
        print(theory.show(options.name))
        return 0
    if arguments and arguments[0] == "plot":
        return _plot(parse(PlotOptions, arguments[1:], command="theory plot", description=DESCRIPTION).out)
    return _verify(parse(VerifyOptions, arguments, command="theory", description=DESCRIPTION))


def _verify(options: VerifyOptions) -> int:
    names = options.names or tuple(theory.REGISTRY)
    for name in names:
        check_choice("statement", name, theory.REGISTRY)
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
    columns = (
        "statement",
        "layers × heads claimed",
        "counted",
        "width",
        "dtype",
        "steps",
        "max deviation",
        "seconds",
    )
    rows = tuple(
        (
            report.name,
            report.claimed,
            report.counted,
            report.width,
            report.dtype,
            report.steps,
            report.max_deviation,
            round(report.seconds, 2),
        )
        for report in reports
    )
    note = "Largest difference from the textbook algorithm's own numbers, over all steps and prompts."
    return Table(columns=columns, rows=rows, title="Theorems as weights", note=note)


def _plot(folder: Path) -> int:
    require("matplotlib", extra="viz")
    with bars() as progress:
        bar = progress.add_task("measuring", total=3, note="")
        save(power_law(theory.error_against_c(), name="c", power=2), folder / "error_against_c")
        progress.advance(bar)
        save(exponential_law(theory.error_against_sink(), name="C", rate=-1), folder / "error_against_sink")
        progress.advance(bar)
        save(weights_beside_textbook(theory.error_by_step()), folder / "error_by_step")
        progress.advance(bar)
    print(f"pictures: {folder}/error_against_c.png, error_against_sink.png, error_by_step.png")
    return 0
