"""The same sets from the Hugging Face hub, for those who are online and have the package `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from algoformer.extras import require
from algoformer.language.corpora.catalog import Hub, Source
from algoformer.language.corpora.clean import plain
from algoformer.language.text import LabelledText, ParallelText

SPLITS = {"train": "train", "validation": "valid", "test": "test"}
"""The names of splits on the hub, and their names here."""


def parallel_from_hub(source: Source) -> dict[str, ParallelText]:
    """Return the splits of a parallel corpus from the hub, repaired but not yet checked for overlap."""
    hub = _place(source)

    def split(rows: Any) -> ParallelText:
        cells = [row[hub.nested] if hub.nested else row for row in rows]
        source_column, target_column = hub.columns
        return ParallelText(
            source=tuple(plain(source.repair(cell[source_column])) for cell in cells),
            target=tuple(plain(source.repair(cell[target_column])) for cell in cells),
        )

    return _splits(source, hub, split)


def labelled_from_hub(source: Source) -> tuple[dict[str, LabelledText], tuple[str, ...]]:
    """Return the splits of a labelled set as they are on the hub, and the names of its classes."""
    hub = _place(source)
    names: list[str] = []

    def split(rows: Any) -> LabelledText:
        names[:] = names or getattr(rows.features[hub.label], "names", None) or source.classes
        texts, labels = [], []
        for row in rows:
            texts.append(plain(source.repair(" ".join(row[column] or "" for column in hub.columns))))
            labels.append(int(row[hub.label]))
        if not names:
            names[:] = map(str, range(max(labels) + 1))
        return LabelledText(texts=tuple(texts), labels=tuple(labels))

    splits = _splits(source, hub, split)
    return splits, tuple(names)


def _place(source: Source) -> Hub:
    if source.hub is None:
        raise ValueError(f"{source.name} is not on the hub in this form; it is {source.where}")
    return source.hub


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
