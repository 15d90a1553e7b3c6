"""`python -m paper table1|table2`: the paper's tables on text, from training to verdicts."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from algoformer.cli.parse import parse
from algoformer.cli.progress import training_bars
from algoformer.cli.say import say
from algoformer.cli.text_corpus import unknown_files_as_lines
from algoformer.common.devices import pick_device
from algoformer.evaluation import Cell, Table
from algoformer.training.presets import SMALL, Scale
from paper.options import PROGRAM, check_numbers, results_folder
from paper.overview import duration, minutes
from paper.reproduce import choose
from paper.text_estimates import TimedText, estimate_text, timed_texts, usual_text_device
from paper.text_items import TextItem, table_items
from paper.text_shop import TextShop
from paper.text_tables import score_table, verdict, write_table
from paper.text_targets import target_table

TABLES = {"table1": "translation, scored with BLEU", "table2": "classification, scored with accuracy"}

DESCRIPTION = """Train the models of a table, score them on whole test sets, and hold the paper's claim
against the result. At the scale smoke the text is part of the package; otherwise give --data, or prepare the
text where the sets are, and train elsewhere from --folder.

Examples:
  python -m paper table1                             small, on the CPU
  python -m paper table2 --scale short --data FOLDER --only "ag_news/*" --device cuda
  python -m paper table2 --scale short --list
  python -m paper table2 --scale short --prepare --data FOLDER --folder PACKED
"""


@dataclass(frozen=True)
class TableOptions:
    """Options of `python -m paper` for tables."""

    table: Annotated[tyro.conf.Positional[Literal["table1", "table2"]], tyro.conf.arg(help="Which.")]
    scale: Annotated[Scale, tyro.conf.arg(help="smoke: two CPU cores; short and paper: a GPU.")] = "smoke"
    only: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Only these runs, in this order; * stands for anything.")
    ] = ()
    list: Annotated[bool, tyro.conf.arg(help="Say what is done and what is missing, and stop.")] = False
    prepare: Annotated[
        bool, tyro.conf.arg(help="Do all that needs --data: pack texts into --folder, count floors; stop.")
    ] = False
    train: Annotated[bool, tyro.conf.arg(help="Whether to train what is missing, or show what is there.")] = (
        True
    )
    steps: Annotated[int | None, tyro.conf.arg(help="Training steps, instead of the scale's.")] = None
    data: Annotated[Path | None, tyro.conf.arg(help="The folder with the sets of text, or hub.")] = None
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to train.")] = "auto"
    workers: Annotated[int | None, tyro.conf.arg(help="Runs at once; by default one a core, one a GPU.")] = (
        None
    )
    max_minutes: Annotated[float | None, tyro.conf.arg(help="Stop after this long; go on later.")] = None
    folder: Annotated[Path, tyro.conf.arg(help="Where runs keep their checkpoints.")] = Path("runs")
    results: Annotated[
        Path | None, tyro.conf.arg(help="Where scores and tables go; by default reproduced/SCALE.")
    ] = None


def run_table(arguments: list[str]) -> int:
    """Train, score, judge; or list."""
    chosen = parse(TableOptions, arguments, command="", description=DESCRIPTION, program=PROGRAM)
    check_numbers(steps=chosen.steps, workers=chosen.workers, max_minutes=chosen.max_minutes)
    everything = table_items(chosen.table, chosen.scale, steps=chosen.steps)
    items = choose(everything, chosen.only)
    trains = chosen.train and not chosen.list and not chosen.prepare
    shop = TextShop(
        folder=chosen.folder,
        results=results_folder(
            chosen.results,
            chosen.scale,
            reads_only=not (chosen.train or chosen.list or chosen.prepare),
        ),
        data=chosen.data,
        device=pick_device(chosen.device) if trains else "cpu",
        workers=chosen.workers,
        max_minutes=chosen.max_minutes,
        command=shlex.join(["python", "-m", "paper", *arguments]),
    )
    if chosen.list:
        say(_status(chosen, items, shop))
        _say_failures(shop)
        return 0
    if chosen.prepare:
        with unknown_files_as_lines():
            paths = shop.prepare(items)
        for path in paths:
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
        return 0
    if chosen.train:
        bars = training_bars({item.name: item.experiment.training.steps for item in items})
        with unknown_files_as_lines(), bars as show:
            shop.make(items, show)
    say(score_table(chosen.table, everything, shop))
    targets = target_table(chosen.table, everything, shop)
    if targets.rows:
        say(targets)
    lines = list(verdict(chosen.table, everything, shop))
    for line in [*lines, SMALL] if lines and chosen.scale == "smoke" else lines:
        print(line)
    print(write_table(chosen.table, everything, shop, chosen.scale))
    missing = [item.name for item in items if shop.scores(item) is None]
    if missing:
        print(f"missing: {', '.join(missing)}")
    _say_failures(shop)
    return 1 if shop.failures else 0


def _say_failures(shop: TextShop) -> None:
    for name, reason in shop.failures.items():
        print(f"{name}: {reason}", file=sys.stderr)


def _state(item: TextItem, shop: TextShop) -> tuple[str, int]:
    """Where a run stands, in words, and the steps that need not be taken any more."""
    if shop.scores(item) is not None:
        return "done", item.experiment.training.steps
    if shop.is_damaged(item):
        return "damaged", 0
    step = shop.steps_done(item)
    return (f"step {step:,}" if step else "missing"), step


def _status(chosen: TableOptions, items: list[TextItem], shop: TextShop) -> Table:
    rows: list[tuple[Cell, ...]] = []
    known, total = timed_texts(shop.results), 0.0
    device = _device_kind(chosen, known)
    for item in items:
        state, done = _state(item, shop)
        steps = item.experiment.training.steps
        packed = "packed" if shop.packed_path(item).exists() else ""
        rest = estimate_text(item, known, device=device, done=done)
        total += 0.0 if rest is None else rest.seconds
        left = "nothing was timed yet" if rest is None else f"{duration(rest.seconds)} ({rest.basis})"
        left = "" if state == "done" else left
        rows.append((item.name, state, f"{steps:,}", f"{item.experiment.text.budget:,}", packed, left))
    return Table(
        columns=("run", "state", "steps", "tokens a step", "text", "left"),
        rows=tuple(rows),
        title=f"{chosen.table}: {TABLES[chosen.table]}",
        note=f"One after the other {minutes(total, device)} of training are left." if total else "",
    )


def _device_kind(chosen: TableOptions, known: list[TimedText]) -> str:
    if chosen.device != "auto":
        return "cpu" if chosen.device == "cpu" else "cuda"
    return usual_text_device(known, "cpu" if chosen.scale == "smoke" else "cuda")
