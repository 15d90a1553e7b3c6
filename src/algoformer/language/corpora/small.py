"""The two small sets of text that are part of the package; `scripts/small_corpora` generated them."""

from __future__ import annotations

import json
import lzma
from functools import cache
from importlib.resources import files
from typing import Any

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


@cache
def _read(name: str, kind: Any) -> Corpus[Any]:
    packed = files("algoformer.language").joinpath("data", f"{name}.json.xz").read_bytes()
    stored = json.loads(lzma.decompress(packed))
    splits = {
        split: kind(**{column: tuple(values) for column, values in columns.items()})
        for split, columns in stored["splits"].items()
    }
    return Corpus(name=name, terms=TERMS, classes=tuple(stored.get("classes", ())), **splits)
