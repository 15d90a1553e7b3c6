"""All figures at a glance: how many of their runs are done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from algoformer.evaluation import Cell, Table
from paper.manager import RunManager
from paper.options import with_steps
from paper.recipes import RECIPES
from paper.runs import Item, RunSpec, Scale, fingerprint


def overview_table(manager: RunManager, scale: Scale, *, steps: int | None = None) -> Table:
    """Return a row for each figure, the important ones first; a run of two figures is counted in the first.

    Args:
        manager: the folders of runs and results.
        scale: the scale of all figures.
        steps: the training steps of every run, instead of the scale's.
    """
    seen: set[str] = set()
    rows: list[tuple[Cell, ...]] = []
    for name, title, items in _parts(scale):
        wanted = (with_steps(item, steps) for item in items)
        runs = {fingerprint(item.settings): item for item in wanted if isinstance(item, RunSpec)}
        new = [manager.status(run) for digest, run in runs.items() if digest not in seen]
        seen |= set(runs)
        done = sum(status.state == "done" for status in new)
        rows.append((name, title, f"{done} of {len(new)}"))
    columns = ("figure", "what it shows", "runs done")
    return Table(columns=columns, rows=tuple(rows), title=f"All figures, scale {scale}")


def _parts(scale: Scale) -> Iterator[tuple[str, str, Sequence[Item]]]:
    later = []
    for recipe in RECIPES.values():
        items = recipe.items(scale)
        yield recipe.name, recipe.title.lower(), items[: recipe.main]
        if recipe.main is not None:
            later.append((recipe.name, "further seeds, controls, noise", items[recipe.main :]))
    yield from later
