"""From the names of corpora to tokens: what a run reads, here or packed into a file for another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from algoformer.language.corpora import load_labelled, load_parallel, together
from algoformer.language.packing import PackedText
from algoformer.language.text import Corpus, LabelledText, ParallelText
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTexts, encode_pairs, encode_texts
from algoformer.language.training.experiment import TextSettings
from algoformer.training.plain_data import as_data

RATIO = 3.0
"""Pairs one of whose sides is so many times as long as the other are not trained on."""

DECIDING = ("kind", "corpora", "lowercase", "vocabulary", "longest")
"""Settings that the tokens depend on."""


def prepare_text(settings: TextSettings, *, data: Path | str | None = None) -> PackedText:
    """Read the corpora, learn the tokenizer from the training split alone, and tokenize every split.

    Training and validation pairs that are too long for the model are left out, and notes say how many.
    Test splits stay whole. Needs the package `tokenizers`; training on the result does not.

    Args:
        settings: which corpora, and how they become tokens.
        data: the data folder, as for `load_parallel`.
    """
    corpus = _corpus(settings, data)
    if settings.lowercase:
        corpus = corpus.mapped(str.lower, note="all text, references too, is lower case")
    tokenizer = Tokenizer.train(_texts(corpus.train), vocabulary=settings.vocabulary)
    splits: dict[str, TokenPairs | TokenTexts] = {}
    for name, split in corpus.splits().items():
        longest = None if name.startswith("test") else settings.longest
        if isinstance(split, LabelledText):
            splits[name] = encode_texts(tokenizer, split, longest=longest)
        else:
            ratio = RATIO if name.startswith("train") else None
            splits[name] = encode_pairs(tokenizer, split, longest=longest, ratio=ratio)
    card: dict[str, Any] = {
        "corpus": corpus.name,
        "classes": list(corpus.classes),
        "notes": list(corpus.notes),
        "files": dict(corpus.files),
        "terms": corpus.terms,
        "settings": _deciding(settings),
    }
    return PackedText(splits=splits, tokenizer=tokenizer, card=card)


def check_text(text: PackedText, settings: TextSettings) -> None:
    """Refuse tokens that were made with other settings than the run's.

    Raises:
        ValueError: naming the setting that differs, or the split that is missing.
    """
    found = text.card.get("settings")
    found = found if isinstance(found, dict) else {}
    for name, wanted in _deciding(settings).items():
        if found.get(name) != wanted:
            raise ValueError(
                f"the packed text was made with {name}={str(found.get(name))[:60]}, the run has {wanted}; "
                "pack it again, or train with its own settings"
            )
    kind = TokenPairs if settings.kind == "translation" else TokenTexts
    for name in ("train", "valid"):
        if not isinstance(text.splits.get(name), kind) or not len(text.splits[name]):
            raise ValueError(f"the packed text has nothing to read for {settings.kind} in its split {name!r}")


def classes_of(text: PackedText) -> tuple[str, ...]:
    """The names of the labels; none for translation."""
    names = text.card.get("classes", ())
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def _deciding(settings: TextSettings) -> dict[str, Any]:
    return {name: as_data(getattr(settings, name)) for name in DECIDING}


def _corpus(settings: TextSettings, data: Path | str | None) -> Corpus[ParallelText] | Corpus[LabelledText]:
    if settings.kind == "classification":
        return load_labelled(settings.corpora[0], data=data)
    first, *others = [load_parallel(name, data=data) for name in settings.corpora]
    return together(first, *others) if others else first


def _texts(split: ParallelText | LabelledText) -> Iterator[str]:
    for column in split.columns():
        yield from column
