"""`algoformer reproduce table1|table2`: the paper's tables on text, from training to verdicts."""

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
from algoformer.cli.train import pick_device
from algoformer.evaluation import Table
from algoformer.experiments.reproduce import choose
from algoformer.experiments.scales import Scale
from algoformer.experiments.text_tables import (
    TableName,
    TextItem,
    TextShop,
    score_table,
    table_items,
    verdict,
    write_table,
)

TABLES = {"table1": "translation, scored with BLEU", "table2": "classification, scored with accuracy"}

DESCRIPTION = """Train the models of a table, score them on whole test sets, and hold the paper's claim
against the result. At the scale smoke the text is part of the package; otherwise give --data.

Examples:
  algoformer reproduce table1                             small, on the CPU
  algoformer reproduce table2 --scale short --data FOLDER --only "ag_news/*" --device cuda
  algoformer reproduce table2 --scale short --list
"""


@dataclass(frozen=True)
class TableOptions:
    """Options of `algoformer reproduce` for tables."""

    table: Annotated[tyro.conf.Positional[Literal["table1", "table2"]], tyro.conf.arg(help="Which.")]
    scale: Annotated[Scale, tyro.conf.arg(help="smoke: two CPU cores; short and paper: a GPU.")] = "smoke"
    only: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Only these runs, in this order; * stands for anything.")
    ] = ()
    list: Annotated[bool, tyro.conf.arg(help="Say what is done and what is missing, and stop.")] = False
    train: Annotated[bool, tyro.conf.arg(help="Whether to train what is missing, or show what is there.")] = (
        True
    )
    steps: Annotated[int | None, tyro.conf.arg(help="Training steps, instead of the scale's.")] = None
    data: Annotated[Path | None, tyro.conf.arg(help="The folder with the sets of text, or hub.")] = None
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to train.")] = "auto"
    max_minutes: Annotated[float | None, tyro.conf.arg(help="Of one run; go on later.")] = None
    folder: Annotated[Path, tyro.conf.arg(help="Where runs keep their checkpoints.")] = Path("runs")
    results: Annotated[
        Path | None, tyro.conf.arg(help="Where scores and tables go; by default reproduced/SCALE.")
    ] = None


def run_table(arguments: list[str]) -> int:
    """Train, score, judge; or list."""
    chosen = parse(TableOptions, arguments, command="reproduce", description=DESCRIPTION)
    if chosen.steps is not None and chosen.steps < 1:
        raise ValueError(f"steps must be at least 1, got {chosen.steps}")
    everything = table_items(chosen.table, chosen.scale, steps=chosen.steps)
    items = choose(everything, chosen.only)
    shop = TextShop(
        folder=chosen.folder,
        results=chosen.results or Path("reproduced") / chosen.scale,
        data=chosen.data,
        device="cpu" if chosen.list or not chosen.train else pick_device(chosen.device),
        max_minutes=chosen.max_minutes,
        command=shlex.join(["algoformer", "reproduce", *arguments]),
    )
    if chosen.list:
        say(_status(chosen.table, items, shop))
        return 0
    if chosen.train:
        with training_bars({item.name: item.experiment.training.steps for item in items}) as show:
            for item in items:
                if not shop.make(item, show):
                    print(f"{item.name}: out of time, goes on with the same command", file=sys.stderr)
    say(score_table(chosen.table, everything, shop))
    for line in verdict(chosen.table, everything, shop):
        print(line)
    print(write_table(chosen.table, everything, shop))
    return 0


def _status(table: TableName, items: list[TextItem], shop: TextShop) -> Table:
    rows = tuple(
        (
            item.name,
            "missing" if shop.scores(item) is None else "done",
            f"{item.experiment.training.steps:,}",
            f"{item.experiment.text.budget:,}",
        )
        for item in items
    )
    return Table(
        columns=("run", "state", "steps", "tokens a step"), rows=rows, title=f"{table}: {TABLES[table]}"
    )
