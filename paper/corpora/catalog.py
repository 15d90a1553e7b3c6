"""The corpora of the paper's tables: their sources, files, terms and repairs."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from algoformer.common.plain_data import read_dataclass
from algoformer.language.text import plain
from paper.corpora import clean


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The location of a corpus on the Hugging Face hub.

    Attributes:
        repository: its name there.
        columns: of the text; several are joined by a space. For translation: source, then target.
        label: the column of the class.
        config: which part of the repository; None where there is one only.
        revision: of the repository; None for its main branch.
        nested: the column that holds `columns` as an object; None if they are columns themselves.
    """

    repository: str
    columns: tuple[str, ...]
    label: str | None = None
    config: str | None = None
    revision: str | None = None
    nested: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus that is read from files or from the hub.

    Attributes:
        name: also its folder inside the data folder.
        about: one line on what it is.
        where: how a user gets it.
        terms: what it may be used for.
        credit: whom a model that was trained on it is owed to, where the terms let one be given away.
        hub: where it is on the hub; None if it is not there in this form.
        repair: undoes what the set is known to have in its text.
        spelling: brings its text to how people write, for sets that come taken apart into tokens.
        classes: names of the labels, for sets that come without `classes.txt`; empty for translation.
        test: the name of the split that is reported.
        further: further splits that are read where they are there.
    """

    name: str
    about: str
    where: str
    terms: str
    hub: Hub | None
    credit: str = ""
    repair: Callable[[str], str] = plain
    spelling: Callable[[str], str] | None = None
    classes: tuple[str, ...] = ()
    test: str = "test"
    further: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.about}) is {self.where}"


_FUNCTIONS = (
    html.unescape,
    clean.entity_remnants,
    clean.tag_breaks,
    clean.escaped_breaks,
    clean.without_moses,
)


def _read(kind: str) -> dict[str, Source]:
    """Read the sources of `corpora.json`, which names the functions for `repair` and `spelling`."""
    functions = {function.__name__: function for function in _FUNCTIONS}
    text = files("paper.corpora").joinpath("corpora.json").read_text(encoding="utf-8")
    found = {}
    for name, stored in json.loads(text)[kind].items():
        hub = read_dataclass(Hub, stored.pop("hub")) if "hub" in stored else None
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
        }
        values |= {key: functions[values[key]] for key in ("repair", "spelling") if key in values}
        found[name] = Source(name=name, hub=hub, **values)
    return found


PARALLEL: Mapping[str, Source] = _read("parallel")
"""German–English sets."""

LABELLED: Mapping[str, Source] = _read("labelled")
"""Sets for classification."""
