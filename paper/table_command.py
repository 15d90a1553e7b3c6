"""`python -m paper table1|table2`: the paper's tables on text, from training to verdicts."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from algoformer.cli.parse import parse
from algoformer.cli.say import say
from algoformer.common.devices import pick_device
from algoformer.evaluation import Cell, Table
from paper.bar import make_with_bar
from paper.manager import RunManager, choose
from paper.options import PROGRAM, RunOptions, check_numbers, results_folder, unknown_files_as_lines
from paper.runs import SMALL
from paper.text_archive import TextArchive
from paper.text_items import TextRunSpec, table_items
from paper.text_tables import score_table, verdict, write_table

TABLES = {"table1": "translation, scored with BLEU", "table2": "classification, scored with accuracy"}

DESCRIPTION = """Train the models of a table, score them on whole test sets, and hold the paper's claim
against the result. At the scale tiny the text is part of the package; otherwise give --data, or prepare the
text where the sets are, and train elsewhere from --folder.

Examples:
  python -m paper table1                             small, on the CPU
  python -m paper table2 --scale short --data FOLDER --only "ag_news/*" --device cuda
  python -m paper table2 --scale short --list
  python -m paper table2 --scale short --prepare --data FOLDER --folder PACKED
"""


@dataclass(frozen=True, kw_only=True)
class TableOptions(RunOptions):
    """Options of `python -m paper` for tables."""

    table: Annotated[tyro.conf.Positional[Literal["table1", "table2"]], tyro.conf.arg(help="The table.")]
    prepare: Annotated[
        bool, tyro.conf.arg(help="Do all that needs --data: tokenize into --folder, score baselines; stop.")
    ] = False
    data: Annotated[Path | None, tyro.conf.arg(help="The folder with the sets of text, or hub.")] = None


def run_table(arguments: list[str]) -> int:
    """Train, score, judge; or list."""
    chosen = parse(TableOptions, arguments, command="", description=DESCRIPTION, program=PROGRAM)
    check_numbers(steps=chosen.steps, workers=chosen.workers, max_minutes=chosen.max_minutes)
    everything = table_items(chosen.table, chosen.scale, steps=chosen.steps)
    items = choose(everything, chosen.only)
    trains = chosen.train and not chosen.list and not chosen.prepare
    command = shlex.join(["python", "-m", "paper", *arguments])
    reads_only = not (chosen.train or chosen.list or chosen.prepare)
    archive = TextArchive(
        folder=chosen.folder,
        results=results_folder(chosen.results, chosen.scale, reads_only=reads_only),
        data=chosen.data,
        command=command,
    )
    manager = RunManager(
        folder=chosen.folder,
        archive=archive,
        device=pick_device(chosen.device) if trains else "cpu",
        workers=chosen.workers,
        max_minutes=chosen.max_minutes,
        command=command,
    )
    if chosen.list:
        return _say_status(chosen, items, manager, archive)
    if chosen.prepare:
        with unknown_files_as_lines():
            paths = archive.prepare_all(items)
        for path in paths:
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
        return 0
    if chosen.train:
        with unknown_files_as_lines():
            make_with_bar(items, manager)
    say(score_table(chosen.table, everything, archive))
    lines = list(verdict(chosen.table, everything, archive))
    for line in [*lines, SMALL] if lines and chosen.scale == "tiny" else lines:
        print(line)
    print(write_table(chosen.table, everything, archive, chosen.scale))
    missing = [item.name for item in items if archive.find(item) is None]
    if missing:
        print(f"missing: {', '.join(missing)}")
    return 1 if manager.failures else 0


def _say_status(
    chosen: TableOptions, items: list[TextRunSpec], manager: RunManager, archive: TextArchive
) -> int:
    rows: list[tuple[Cell, ...]] = []
    for item in items:
        status = manager.status(item)
        if status.problem:
            print(f"{item.name}: {status.problem}", file=sys.stderr)
        state = f"step {status.step:,}" if status.state == "begun" else status.state
        steps, tokens = item.experiment.training.steps, item.data.batch_tokens
        packed = "packed" if archive.packed_path(item).exists() else ""
        rows.append((item.name, state, f"{steps:,}", f"{tokens:,}", packed))
    columns = ("run", "state", "steps", "tokens a step", "text")
    say(Table(columns=columns, rows=tuple(rows), title=f"{chosen.table}: {TABLES[chosen.table]}"))
    return 0
