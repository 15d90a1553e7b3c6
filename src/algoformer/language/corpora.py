"""Corpora by name: the two small sets of the package, and those that are registered from outside."""

from __future__ import annotations

import inspect
import json
import lzma
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from algoformer.common.names import Registry
from algoformer.language.text import Corpus, LabelledText, ParallelText

TERMS = "part of algoformer, under its licence"


def small_parallel() -> Corpus[ParallelText]:
    """Return German sentences with their English translations, generated from a grammar.

    Every sentence of `valid` and `test` has a verb with a noun that never stood with it in `train`, though
    both did with others. A German sentence has one English translation; two may share one.

    >>> corpus = small_parallel()
    >>> len(corpus.train), corpus.test.source[0]
    (4000, 'Jeden Tag verkaufen wir ein Bild.')
    """
    return _read("small_de_en", ParallelText)


def small_topics() -> Corpus[LabelledText]:
    """Return short English texts on four topics.

    Counting words is not enough: part of them name something from another topic that was not done.

    >>> small_topics().classes
    ('cooking', 'sport', 'music', 'travel')
    """
    return _read("small_topics", LabelledText)


CORPORA: Registry[Callable[..., Corpus[Any]]] = Registry(
    "corpus",
    {"small_de_en": small_parallel, "small_topics": small_topics},
    group="algoformer.corpora",
    register="algoformer.language.register_corpus (in a checkout, python -m paper COMMAND knows the paper's)",
)
"""Functions that return a corpus, by name: those of the package, and those registered from outside."""


def register_corpus(name: str, load: Callable[..., Corpus[Any]]) -> None:
    """Make a corpus known by name, so that data and commands accept it.

    A package can also name the function in the entry point group `algoformer.corpora`.

    Args:
        name: the name, as in `TranslationData(corpus=name)` and `train --data.corpus NAME`.
        load: returns the corpus, of `ParallelText` or `LabelledText`. It is called when the text is needed,
            with those of the keywords `data`, `strict` and `kind` that it takes: the first two are those of
            `load_parallel`, the last is the class of the splits that are wanted.

    Raises:
        ValueError: the name belongs to another corpus.
    """
    CORPORA.register(name, load)


def load_parallel(name: str, *, data: Path | str | None = None, strict: bool = False) -> Corpus[ParallelText]:
    """Return sentences with their translations.

    Args:
        name: small_de_en, or the name of a registered corpus.
        data: the folder to read a registered corpus from, or what else its function accepts, such as "hub".
        strict: refuse files with unknown content, where the function of the corpus knows their checksums.

    Raises:
        ValueError: there is no such corpus, or its function refuses to load it.
    """
    return _load(name, ParallelText, data, strict)


def load_labelled(name: str, *, data: Path | str | None = None, strict: bool = False) -> Corpus[LabelledText]:
    """Return texts with a class each.

    Args:
        name: small_topics, or the name of a registered corpus.
        data: and `strict`: as for `load_parallel`.

    Raises:
        ValueError: there is no such corpus, or its function refuses to load it.
    """
    return _load(name, LabelledText, data, strict)


def check_kind(name: str, found: type, wanted: type) -> None:
    """Refuse a corpus whose splits are of another class than those that are wanted."""
    if not issubclass(found, wanted):
        parallel = wanted is ParallelText
        is_for, data = ("classification", "labels") if parallel else ("translation", "translation")
        raise ValueError(f"{name!r} is a corpus for {is_for}; give --data {data}, or choose another corpus")


def _load(name: str, kind: type, data: Path | str | None, strict: bool) -> Corpus[Any]:
    load = CORPORA.find(name)
    taken = inspect.signature(load).parameters
    options = {"data": data, "strict": strict, "kind": kind}
    corpus = load(**{option: value for option, value in options.items() if option in taken})
    check_kind(name, type(corpus.train), kind)
    return corpus


@cache
def _read(name: str, kind: Any) -> Corpus[Any]:
    packed = files("algoformer.language").joinpath("data", f"{name}.json.xz").read_bytes()
    stored = json.loads(lzma.decompress(packed))
    splits = {
        split: kind(**{column: tuple(values) for column, values in columns.items()})
        for split, columns in stored["splits"].items()
    }
    return Corpus(name=name, terms=TERMS, classes=tuple(stored.get("classes", ())), **splits)
