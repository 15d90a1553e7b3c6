"""The two small sets of text that are part of the package; `scripts/small_corpora` generated them."""

from __future__ import annotations

import json
import lzma
from functools import cache
from importlib.resources import files
from typing import Any

from algoformer.language.text import Corpus, LabelledText, ParallelText

TERMS = "part of algoformer, under its licence"


@cache
def small_parallel() -> Corpus[ParallelText]:
    """Return German sentences with their English translations, generated from a grammar.

    Every sentence of `valid` and `test` has a verb with a noun that never stood with it in `train`, though
    both did with others. A German sentence has one English translation; two may share one.

    >>> corpus = small_parallel()
    >>> len(corpus.train), corpus.test.source[0]
    (4000, 'Jeden Tag verkaufen wir ein Bild.')
    """
    splits = _read("small_de_en")["splits"]
    train, valid, test = (
        ParallelText(source=tuple(splits[name]["source"]), target=tuple(splits[name]["target"]))
        for name in ("train", "valid", "test")
    )
    return Corpus(name="small_de_en", terms=TERMS, train=train, valid=valid, test=test)


@cache
def small_topics() -> Corpus[LabelledText]:
    """Return short English texts on four topics.

    Counting words is not enough: part of them name something from another topic that was not done.

    >>> small_topics().classes
    ('cooking', 'sport', 'music', 'travel')
    """
    stored = _read("small_topics")
    train, valid, test = (
        LabelledText(
            texts=tuple(stored["splits"][name]["texts"]), labels=tuple(stored["splits"][name]["labels"])
        )
        for name in ("train", "valid", "test")
    )
    classes = tuple(stored["classes"])
    return Corpus(name="small_topics", terms=TERMS, classes=classes, train=train, valid=valid, test=test)


def _read(name: str) -> dict[str, Any]:
    packed = files("algoformer.language").joinpath("data", f"{name}.json.xz").read_bytes()
    stored: dict[str, Any] = json.loads(lzma.decompress(packed))
    return stored
