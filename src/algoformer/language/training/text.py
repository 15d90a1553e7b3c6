"""From the names of corpora to tokens: what a run reads, here or packed into a file for another machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from algoformer.language.corpora import PARALLEL, load_labelled, load_parallel, together
from algoformer.language.lines import SIGN
from algoformer.language.packing import PackedText
from algoformer.language.text import Corpus, LabelledText, ParallelText
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTexts, encode_pairs, encode_texts
from algoformer.language.training.experiment import TextSettings
from algoformer.common.plain_data import as_data

LOWER = "all text, references too, is lower case"

RATIO = 3.0
"""Pairs one of whose sides is so many times as long as the other are not trained on."""

DECIDING = ("kind", "corpora", "also_tested", "lowercase", "vocabulary", "longest")
"""Settings that the tokens depend on."""


def prepare_text(settings: TextSettings, *, data: Path | str | None = None) -> PackedText:
    """Read the corpora, learn the tokenizer from the training split alone, and tokenize every split.

    Text that came taken apart into tokens is put together, so that a model reads and writes what people do.
    Training and validation pairs that are too long for the model are left out, and notes say how many. Test
    pairs stay whole; texts to classify are shortened to what a model reads of them. Needs the package
    `tokenizers`; training on the result does not.

    Args:
        settings: which corpora, and how they become tokens.
        data: the data folder, as for `load_parallel`.
    """
    corpus = _corpus(settings, data)
    if settings.lowercase:
        corpus = corpus.mapped(str.lower, note=LOWER)
    tokenizer = Tokenizer.train(_texts(corpus.train), vocabulary=settings.vocabulary)
    splits: dict[str, TokenPairs | TokenTexts] = {}
    for name, split in corpus.splits().items():
        if name.startswith("train") and name != "train":
            continue  # read only by who names it among the corpora
        if isinstance(split, LabelledText):
            splits[name] = encode_texts(tokenizer, split, longest=settings.longest)
        else:
            longest = None if name.startswith("test") else settings.longest
            ratio = RATIO if name.startswith("train") else None
            splits[name] = encode_pairs(tokenizer, split, longest=longest, ratio=ratio)
    card: dict[str, Any] = {
        "corpus": corpus.name,
        "classes": list(corpus.classes),
        "notes": list(corpus.notes),
        "files": dict(corpus.files),
        "terms": corpus.terms,
        "settings": deciding(settings),
        "spelling": {
            "lowercase": all(text == text.lower() for text in _texts(corpus.train)),
            "only_words": not any(SIGN.search(text) for text in _texts(corpus.train)),
        },
    }
    return PackedText(splits=splits, tokenizer=tokenizer, card=card)


def check_text(text: PackedText, settings: TextSettings) -> None:
    """Refuse tokens that were made with other settings than the run's.

    Raises:
        ValueError: naming the setting that differs, or the split that is missing.
    """
    found = text.card.get("settings")
    found = found if isinstance(found, dict) else {}
    for name, wanted in deciding(settings).items():
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


def deciding(settings: TextSettings) -> dict[str, Any]:
    """The settings that the tokens depend on, as plain data."""
    return {name: as_data(getattr(settings, name)) for name in DECIDING}


def _corpus(settings: TextSettings, data: Path | str | None) -> Corpus[ParallelText] | Corpus[LabelledText]:
    if settings.kind == "classification":
        return load_labelled(settings.corpora[0], data=data)
    first, *others = [_parallel(name, data) for name in settings.corpora]
    tested = [_parallel(name, data) for name in settings.also_tested]
    return together(first, *others, also_tested=tested) if others or tested else first


def _parallel(name: str, data: Path | str | None) -> Corpus[ParallelText]:
    """A set, or with SET/SPLIT one whose training pairs are that split, spelled as people write."""
    base, _, split = name.partition("/")
    corpus = load_parallel(base, data=data)
    if split:
        if split not in corpus.further or not split.startswith("train"):
            known = [one for one in corpus.further if one.startswith("train")]
            raise ValueError(f"{base} has no further training split {split!r}, only {known}")
        corpus = replace(corpus, name=name, train=corpus.further[split])
    source = PARALLEL.get(base)
    if source is None or source.spelling is None:
        return corpus
    return corpus.mapped(source.spelling, note=f"{base}: tokens put together, references too")


def _texts(split: ParallelText | LabelledText) -> Iterator[str]:
    for column in split.columns():
        yield from column
