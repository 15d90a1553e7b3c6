"""The two sets of text that are part of the package, generated anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from scripts.small_corpora.dice import Dice
from scripts.small_corpora.sentences import Sentence, draw_sentence
from scripts.small_corpora.topics import TOPICS, draw_text

PARALLEL_SIZES = {"train": 4000, "valid": 300, "test": 500}
LABELLED_SIZES = {"train": 3000, "valid": 300, "test": 600}
HELD_OUT_SHARES = {"test": 0.12, "valid": 0.08}
"""Of all combinations of a verb and a noun, how many are kept for a split."""


def generate_parallel() -> dict[str, Any]:
    """Return German sentences with their English translations in splits, as JSON can hold them.

    Every sentence of `valid` and `test` has a verb with a noun that never stood with it in `train`, though
    both did with others.
    """
    dice = Dice(20240)
    found: dict[str, dict[str, str]] = {name: {} for name in PARALLEL_SIZES}
    while any(len(found[name]) < size for name, size in PARALLEL_SIZES.items()):
        sentence = draw_sentence(dice)
        split = _split_of(sentence)
        if split is not None and len(found[split]) < PARALLEL_SIZES[split]:
            found[split].setdefault(sentence.german, sentence.english)
    return {
        "splits": {
            name: {"source": list(pairs), "target": list(pairs.values())} for name, pairs in found.items()
        }
    }


def generate_topics() -> dict[str, Any]:
    """Return short English texts with their topics in splits, as JSON can hold them."""
    dice = Dice(20241)
    found: dict[str, int] = {}
    while len(found) < sum(LABELLED_SIZES.values()):
        drawn = draw_text(dice)
        found.setdefault(drawn.text, drawn.topic)
    texts, splits, start = list(found), {}, 0
    for name, size in LABELLED_SIZES.items():
        chosen = texts[start : start + size]
        splits[name] = {"texts": chosen, "labels": [found[text] for text in chosen]}
        start += size
    return {"classes": list(TOPICS), "splits": splits}


GENERATORS = {"small_de_en": generate_parallel, "small_topics": generate_topics}
"""The function that generates a set of text, by the name under which the library loads it."""


def as_json(content: dict[str, Any]) -> bytes:
    """Return the bytes that a data file holds before compression."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


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
