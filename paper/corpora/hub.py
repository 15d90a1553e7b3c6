"""The same sets from the Hugging Face hub, for those who are online and have the package `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from algoformer.extras import require
from algoformer.language.text import LabelledText, ParallelText, plain
from paper.corpora.catalog import Hub, Source

SPLITS = {"train": "train", "validation": "valid", "test": "test"}
"""The names of splits on the hub, and their names here."""


def from_hub(source: Source) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the splits of a corpus from the hub, repaired but not checked for overlap, and its classes."""
    if source.hub is None:
        raise ValueError(f"{source.name} is not on the hub in this form; it is {source.where}")
    hub = source.hub
    names: list[str] = []

    def parallel(rows: Any) -> ParallelText:
        cells = [row[hub.nested] if hub.nested else row for row in rows]
        sides = [tuple(plain(source.repair(cell[column])) for cell in cells) for column in hub.columns]
        return ParallelText(source=sides[0], target=sides[1])

    def labelled(rows: Any) -> LabelledText:
        names[:] = names or getattr(rows.features[hub.label], "names", None) or source.classes
        labels = tuple(int(row[hub.label]) for row in rows)
        joined = (" ".join(row[column] or "" for column in hub.columns) for row in rows)
        names[:] = names or map(str, range(max(labels) + 1))
        return LabelledText(texts=tuple(plain(source.repair(text)) for text in joined), labels=labels)

    splits = _splits(source, hub, parallel if hub.label is None else labelled)
    return splits, tuple(names)


def _splits(source: Source, hub: Hub, read: Callable[[Any], Any]) -> dict[str, Any]:
    datasets = require("datasets", extra="hub")
    try:
        found: Mapping[str, Any] = datasets.load_dataset(hub.repository, hub.config, revision=hub.revision)
    except (OSError, ValueError, RuntimeError) as error:
        # being offline, a moved repository and a refused download all end here, in the hub's own words
        raise ValueError(f"{source.name} could not be loaded from {hub.repository}: {error}") from error
    splits = {SPLITS[name]: read(rows) for name, rows in found.items() if name in SPLITS}
    for name in ("train", "test"):
        if name not in splits:
            raise ValueError(f"{hub.repository} has no split {name!r}, only {', '.join(found)}")
    return splits
