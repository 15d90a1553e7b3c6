"""The two sets of text that are part of the package."""

from __future__ import annotations

import hashlib
from functools import cache

from algoformer.language.small.dice import Dice
from algoformer.language.small.sentences import Sentence, draw_sentence
from algoformer.language.small.topics import TOPICS, draw_text
from algoformer.language.text import Corpus, LabelledText, ParallelText

_TERMS = "part of algoformer, under its licence"
PARALLEL_SIZES = {"train": 4000, "valid": 300, "test": 500}
LABELLED_SIZES = {"train": 3000, "valid": 300, "test": 600}
HELD_OUT_SHARES = {"test": 0.12, "valid": 0.08}
"""Of all combinations of a verb and a noun, how many are kept for a split."""


@cache
def small_parallel() -> Corpus[ParallelText]:
    """German sentences with their English, from a grammar.

    Every sentence of `valid` and `test` has a verb with a noun that never stood with it in `train`, though
    both did with others. A German sentence has one English translation; two may share one.

    >>> corpus = small_parallel()
    >>> len(corpus.train), corpus.test.source[0]
    (4000, 'Jeden Tag verkaufen wir ein Bild.')
    """
    dice = Dice(20240)
    found: dict[str, dict[str, str]] = {name: {} for name in PARALLEL_SIZES}
    while any(len(found[name]) < size for name, size in PARALLEL_SIZES.items()):
        sentence = draw_sentence(dice)
        split = _split_of(sentence)
        if split is not None and len(found[split]) < PARALLEL_SIZES[split]:
            found[split].setdefault(sentence.german, sentence.english)
    splits = {
        name: ParallelText(source=tuple(pairs), target=tuple(pairs.values())) for name, pairs in found.items()
    }
    return Corpus(
        name="small_de_en",
        terms=_TERMS,
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
    )


@cache
def small_topics() -> Corpus[LabelledText]:
    """Short English texts on four topics.

    Counting words is not enough: in part of them something from another topic is named and not done.

    >>> small_topics().classes
    ('cooking', 'sport', 'music', 'travel')
    """
    dice = Dice(20241)
    found: dict[str, int] = {}
    while len(found) < sum(LABELLED_SIZES.values()):
        drawn = draw_text(dice)
        found.setdefault(drawn.text, drawn.topic)
    texts, splits, start = list(found), {}, 0
    for name, size in LABELLED_SIZES.items():
        chosen = texts[start : start + size]
        splits[name] = LabelledText(texts=tuple(chosen), labels=tuple(found[text] for text in chosen))
        start += size
    return Corpus(
        name="small_topics",
        terms=_TERMS,
        classes=tuple(TOPICS),
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
    )


def _split_of(sentence: Sentence) -> str | None:
    homes = {_home(verb, noun) for verb, noun in sentence.combinations} - {"train"}
    if len(homes) > 1:
        return None  # it would show valid what is kept for test
    return next(iter(homes), "train")


def _home(verb: str, noun: str) -> str:
    digest = hashlib.sha256(f"{verb}|{noun}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    for name, share in HELD_OUT_SHARES.items():
        if place < share:
            return name
        place -= share
    return "train"
