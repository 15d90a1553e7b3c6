"""All figures at a glance: what is done and how long the rest takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from algoformer.evaluation import Cell, Table
from algoformer.training.presets import Scale
from paper.estimates import estimate
from paper.options import with_steps
from paper.recipes import RECIPES
from paper.reproduce import Status, Workshop
from paper.runs import Item, TrainedRun, fingerprint


def overview_table(shop: Workshop, scale: Scale, *, kind: str, steps: int | None = None) -> Table:
    """A row for each figure, the important ones first; what two figures need is counted in the first.

    Args:
        shop: where runs and results are.
        scale: of all figures.
        kind: of the device that the rest is estimated for.
        steps: of every run, instead of the scale's.
    """
    seen: set[str] = set()
    rows: list[tuple[Cell, ...]] = []
    total = 0.0
    for name, title, items in _parts(scale):
        wanted = (with_steps(item, steps) for item in items)
        runs = {fingerprint(item.settings): item for item in wanted if isinstance(item, TrainedRun)}
        new = [shop.status(run) for digest, run in runs.items() if digest not in seen]
        seen |= set(runs)
        left = sum(_left(status, shop, kind) for status in new)
        done = sum(status.state == "done" for status in new)
        rows.append((name, title, f"{done} of {len(new)}", minutes(left, kind)))
        total += left
    return Table(
        columns=("figure", "what it shows", "runs done", "left"),
        rows=tuple(rows),
        title=f"All figures, scale {scale}",
        note=f"One after the other {minutes(total, kind)} are left.",
    )


def _parts(scale: Scale) -> Iterator[tuple[str, str, Sequence[Item]]]:
    later = []
    for recipe in RECIPES.values():
        items = recipe.items(scale)
        yield recipe.name, recipe.title.lower(), items[: recipe.main]
        if recipe.main is not None:
            later.append((recipe.name, "further seeds, controls, noise", items[recipe.main :]))
    yield from later


def _left(status: Status, shop: Workshop, kind: str) -> float:
    if status.state in ("done", "trained") or not isinstance(status.item, TrainedRun):
        return 0.0
    return estimate(status.item, shop.archive.results, device=kind, done=status.step).seconds


def minutes(seconds: float, kind: str) -> str:
    """A time on a kind of device.

    >>> minutes(630.0, "cuda"), minutes(60.0, "cpu")
    ('10.5 GPU minutes', '1.0 minutes of one CPU core')
    """
    return f"{seconds / 60:.1f} {'minutes of one CPU core' if kind == 'cpu' else 'GPU minutes'}"


def duration(seconds: int | float) -> str:
    """A time as people say it.

    >>> [duration(seconds) for seconds in (8, 100, 9000)]
    ['8 s', '1.7 min', '2.5 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
