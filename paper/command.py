"""`python -m paper`: the paper's figures, from training to pictures and verdicts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from algoformer.cli import COMMANDS, exit_code
from algoformer.cli import main as run_algoformer
from algoformer.cli.parse import parse
from algoformer.cli.say import say
from algoformer.common.devices import pick_device
from algoformer.common.names import check_choice
from algoformer.evaluation import Cell, Table
from algoformer.extras import require
from algoformer.report import save
from paper.archive import Archive
from paper.bar import make_with_bar
from paper.computation import say_comparison
from paper.corpora import register_corpora
from paper.manager import RunManager, choose
from paper.options import PROGRAM, RunOptions, check_numbers, results_folder, what_to_reproduce, with_steps
from paper.overview import overview_table
from paper.recipes import RECIPES, Recipe, recipe_of
from paper.runs import SMALL, BaselineSpec, Item, Scale
from paper.summary import all_items, headline_table, verdict_table, write_page
from paper.table_command import TABLES, run_table

DESCRIPTION = f"""Train what a figure of the paper needs, measure it, draw it. Runs are found again by the
hash of their configuration, so that the same command goes on where it was stopped.

What there is: {", ".join(f"{name} ({recipe.title.lower()})" for name, recipe in RECIPES.items())}
And on text, with options of their own: {", ".join(f"{name} ({what})" for name, what in TABLES.items())}

Examples:
  python -m paper fig5                              the whole figure, small, on the CPU
  python -m paper fig2 --scale short --list         what is done and what is missing
  python -m paper fig2 --scale short --only chain/algoformer "representation/*" --device cuda
  python -m paper fig2 --scale short --no-train     draw what is there
  python -m paper verdicts --scale short --list     all figures, and how many of their runs are done
  python -m paper computation                       the share of the work that is outside the loop
  python -m paper verdicts --scale short            what the results say about the paper's claims
  python -m paper evaluate dbpedia --data-folder .  a command of algoformer that knows the paper's corpora
"""


NAMES = (*RECIPES, "verdicts", *TABLES, "computation")
"""Everything that can be reproduced."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(RunOptions):
    """Options of `python -m paper`."""

    figure: Annotated[tyro.conf.Positional[str], tyro.conf.arg(help=f"One of {', '.join(NAMES)}.")]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code, as `algoformer.cli.main` does."""
    words = sys.argv[1:] if arguments is None else arguments
    return exit_code(lambda: run_paper(words), name=PROGRAM)


def run_paper(arguments: list[str]) -> int:
    """Train, measure, draw; or list. A command of `algoformer` is run with the paper's corpora."""
    register_corpora()
    if arguments[:1] and arguments[0] in COMMANDS:
        return run_algoformer(arguments)
    if what_to_reproduce(arguments) in TABLES:
        return run_table(arguments)
    chosen = parse(ReproduceOptions, arguments, command="", description=DESCRIPTION, program=PROGRAM)
    check_choice("figure or table", chosen.figure, NAMES)
    check_numbers(steps=chosen.steps, workers=chosen.workers, max_minutes=chosen.max_minutes)
    if chosen.figure == "verdicts":
        return say_verdicts(chosen)
    if chosen.figure == "computation":
        return say_comparison()
    recipe = recipe_of(chosen.figure)
    everything = [with_steps(item, chosen.steps) for item in recipe.items(chosen.scale)]
    items = choose(everything, chosen.only)
    archive = open_archive(chosen)
    manager = RunManager(
        folder=chosen.folder,
        archive=archive,
        device="cpu" if chosen.list or not chosen.train else pick_device(chosen.device),
        workers=chosen.workers,
        max_minutes=chosen.max_minutes,
        command=shlex.join(["python", "-m", "paper", *arguments]),
    )
    if chosen.list:
        say(status_table(recipe, items, manager, chosen.scale))
        for item in items:
            if problem := manager.status(item).problem:
                print(f"{item.name}: {problem}", file=sys.stderr)
        return 0
    wanted = items if chosen.train else [item for item in items if isinstance(item, BaselineSpec)]
    make_with_bar(wanted, manager)
    draw(recipe, everything, archive, chosen.scale)
    return say_what_is_there(recipe, items, manager, archive.folder)


def open_archive(chosen: ReproduceOptions) -> Archive:
    """The folder of results, with a line for each file in it that cannot be read."""
    reads_only = not chosen.list and (chosen.figure == "verdicts" or not chosen.train)
    archive = Archive(results_folder(chosen.results, chosen.scale, reads_only=reads_only))
    for line in archive.refused:
        print(f"left out: {line}", file=sys.stderr)
    return archive


def say_verdicts(chosen: ReproduceOptions) -> int:
    """Print what the results say about the paper's claims, and write it into the results' README.md."""
    about_training = {
        "--only": chosen.only,
        "--no-train": not chosen.train,
        "--workers": chosen.workers,
        "--max-minutes": chosen.max_minutes,
    }
    given = [option for option, value in about_training.items() if value]
    if given:
        words = "verdicts takes all results that there are and trains nothing"
        raise ValueError(f"{words}: leave out {', '.join(given)}")
    archive = open_archive(chosen)
    if chosen.list:
        manager = RunManager(folder=chosen.folder, archive=archive)
        say(overview_table(manager, chosen.scale, steps=chosen.steps))
        return 0
    results = archive.by_name(with_steps(item, chosen.steps) for item in all_items(chosen.scale))
    say(verdict_table(results))
    say(headline_table(results))
    if chosen.scale == "tiny":
        print(SMALL)
    print(write_page(results, chosen.scale, archive.folder))
    return 0


def draw(recipe: Recipe, items: Sequence[Item], archive: Archive, scale: Scale) -> None:
    """Draw the recipe's pictures from the results that there are."""
    try:
        require("matplotlib", extra="viz")
    except ModuleNotFoundError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        return
    for name, figure in recipe.draw(archive.by_name(items), scale):
        picture, _ = save(figure, archive.folder / name)
        print(picture)


def say_what_is_there(recipe: Recipe, items: Sequence[Item], manager: RunManager, folder: Path) -> int:
    """Print how many results are there, which stand over other steps, which are missing; 1 if one failed."""
    found = [manager.status(item) for item in items]
    done = sum(status.state == "done" for status in found)
    print(f"{recipe.name}: {done} of {len(items)} results in {folder}")
    unfinished = [status for status in found if status.state != "done"]
    other = [
        f"{status.item.name} ({status.result.steps:,})" for status in unfinished if status.result is not None
    ]
    if other:
        print(f"over other steps: {', '.join(other)}")
    missing = [status.item.name for status in unfinished if status.result is None]
    if missing:
        print(f"missing: {', '.join(missing)}")
    return 1 if manager.failures else 0


def status_table(recipe: Recipe, items: Sequence[Item], manager: RunManager, scale: Scale) -> Table:
    """Return one row for each run: whether it is done, its steps and its error."""
    rows: list[tuple[Cell, ...]] = []
    for item in items:
        status = manager.status(item)
        if isinstance(item, BaselineSpec):
            rows.append((item.name, status.state, "a textbook method", None))
            continue
        steps = item.experiment.training.steps
        result = status.result
        words = _state_words(status.state, None if result is None else result.steps)
        begun = status.state == "begun"
        progress = f"{status.step:,} of {steps:,}" if begun else f"{steps:,}"
        rows.append((item.name, words, progress, None if result is None else result.error))
    return Table(
        columns=("run", "state", "steps", "error"),
        rows=tuple(rows),
        title=f"{recipe.name}, scale {scale}: {recipe.title.lower()}",
    )


def _state_words(state: str, steps: int | None) -> str:
    if state == "other steps" and steps is not None:
        return f"has {steps:,} steps"
    return "trained, not measured" if state == "trained" else state
