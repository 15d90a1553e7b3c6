"""Load the corpora of the paper from files or from the hub."""

from __future__ import annotations

import os
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from algoformer.language.corpora import check_kind, register_corpus
from algoformer.language.splits import hold_out, without_overlap
from algoformer.language.text import Corpus, LabelledText, ParallelText, Split, plain
from paper.corpora.catalog import LABELLED, PARALLEL, Source
from paper.corpora.files import Reader
from paper.corpora.hub import from_hub

VARIABLE = "ALGOFORMER_DATA"
"""The environment variable that names the data folder."""

LANGUAGES = "de", "en"
"""The endings of the source and target files of parallel corpora."""

VALID_SHARE = 0.04
"""The fraction of a training split that is held out for validation if a corpus has no such split."""


def data_place(data: Path | str | None = None) -> Path | Literal["hub"]:
    """Return the folder with the corpora, or "hub" to download from the Hugging Face hub.

    Args:
        data: a folder, or "hub"; None to ask the environment variable ALGOFORMER_DATA.

    Raises:
        ValueError: neither says where, or the folder does not exist.
    """
    asked = data if data is not None else os.environ.get(VARIABLE) or None
    if asked is None:
        raise ValueError(
            f"no data folder: give one with --data-folder FOLDER or {VARIABLE}, or --data-folder hub to "
            "download (needs the package datasets); small_de_en and small_topics need no data"
        )
    if str(asked) == "hub":
        return "hub"
    folder = Path(asked).expanduser()
    if not folder.is_dir():
        origin = "--data-folder" if data is not None else VARIABLE
        raise ValueError(f"{origin} names {folder}, which is not a folder")
    return folder


@cache
def known_checksums() -> dict[str, str]:
    """Return the SHA-256 of the files that this repository's scores were measured on, by path.

    They are stored as `sha256sum` writes them. A file with another content is read, with a warning.
    """
    listed = files("paper.corpora").joinpath("corpora.sha256").read_text(encoding="utf-8")
    return {path: digest for digest, path in map(str.split, listed.splitlines())}


def load_source(
    source: Source, *, kind: type, data: Path | str | None = None, strict: bool = False
) -> Corpus[Any]:
    """Return a corpus of the catalog.

    A csv file has either the header `label,text` with labels from 0, or, as such sets are published, no
    header, labels from 1 in the first column and text in all the others.

    Args:
        source: the corpus.
        kind: the class of the splits that are wanted, `ParallelText` or `LabelledText`.
        data: the data folder, or "hub"; None for the one in the environment variable ALGOFORMER_DATA.
        strict: refuse known files with unknown content, where otherwise a warning says so.

    Raises:
        ValueError: it is a corpus of another kind, or a file is missing or damaged; the message says how to
            get it.
    """
    check_kind(source.name, ParallelText if source.name in PARALLEL else LabelledText, kind)
    place = data_place(data)
    if place == "hub":
        splits, classes = from_hub(source)
        return _assembled(source, splits, Reader(Path()), classes=classes)
    reader = Reader(Path(place), known_checksums(), strict)
    read = _parallel if kind is ParallelText else _labelled
    splits = {}
    for split in ("train", "valid", source.test, *source.further):
        needed = split in ("train", source.test)
        found = read(reader, source, f"{source.name}/{split}", needed=needed)
        if found is not None:
            splits["test" if split == source.test else split] = found
    classes = _classes(source, reader) if kind is LabelledText else ()
    return _assembled(source, splits, reader, classes=classes)


_LOADERS = {name: partial(load_source, source) for name, source in {**PARALLEL, **LABELLED}.items()}


def register_corpora() -> None:
    """Make the corpora of the paper known to the library by name; a second call changes nothing."""
    for name, load in _LOADERS.items():
        register_corpus(name, load)


def _find(source: Source, reader: Reader, path: str, *, needed: bool) -> str | None:
    """Return where a file is; None if it is missing and not needed."""
    found = reader.find(path)
    if found is None and needed:
        raise ValueError(
            f"{reader.folder / path}.gz is missing (and so is {Path(path).name} without .gz). "
            f"{source}. "
            + (f"Or download it from {source.hub.repository} with --data-folder hub." if source.hub else "")
        )
    return found


def _refuse_empty(source: Source, reader: Reader, path: str) -> None:
    raise ValueError(f"{reader.folder / path} holds no texts; put the whole file there: {source}")


def _parallel(reader: Reader, source: Source, path: str, *, needed: bool) -> ParallelText | None:
    paths = [_find(source, reader, f"{path}.{language}", needed=needed) for language in LANGUAGES]
    sides = []
    for found in paths:
        if found is None:
            return None
        sides.append(tuple(plain(source.repair(line)) for line in reader.lines(found)))
        if not any(sides[-1]):
            _refuse_empty(source, reader, found)
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{paths[0]} has {len(sides[0])} lines and {paths[1]} has {len(sides[1])} in "
            f"{reader.folder}: line i of one must translate line i of the other"
        )
    return ParallelText(source=sides[0], target=sides[1])


def _labelled(reader: Reader, source: Source, path: str, *, needed: bool) -> LabelledText | None:
    found = _find(source, reader, f"{path}.csv", needed=needed)
    if found is None:
        return None
    texts, labels, first = [], [], 1
    for number, (line, row) in enumerate(reader.rows(found)):
        if number == 0 and [cell.strip().lower() for cell in row] == ["label", "text"]:
            first = 0
            continue
        if len(row) < 2 or not row[0].strip().isdecimal():
            raise ValueError(
                f"{reader.folder / found}, line {line}: a row is a label and text, got {str(row)[:60]}"
            )
        labels.append(int(row[0]) - first)
        texts.append(plain(source.repair(" ".join(row[1:]))))
    if not any(texts):
        _refuse_empty(source, reader, found)
    return LabelledText(texts=tuple(texts), labels=tuple(labels))


def _classes(source: Source, reader: Reader) -> tuple[str, ...]:
    path = _find(source, reader, f"{source.name}/classes.txt", needed=not source.classes)
    names = () if path is None else tuple(line.strip() for line in reader.lines(path) if line.strip())
    return names or source.classes


def _assembled(
    source: Source, splits: dict[str, Split], reader: Reader, *, classes: tuple[str, ...]
) -> Corpus[Split]:
    """Return a corpus without overlap and with a validation split, and notes on what that took."""
    notes = reader.notes
    if "valid" not in splits:
        splits["train"], valid = hold_out(splits["train"], share=VALID_SHARE)
        tests = [split for name, split in splits.items() if name.startswith("test")]
        splits["valid"] = without_overlap(valid, tests)
        notes.append(f"valid: {len(splits['valid'])} texts of train, chosen by their hash")
    held_out = [split for name, split in splits.items() if name.startswith(("test", "valid"))]
    for name in [name for name in splits if name.startswith("train")]:
        written = splits[name].take(
            row for row, texts in enumerate(zip(*splits[name].columns(), strict=True)) if all(texts)
        )
        kept = without_overlap(written, held_out)
        empty, leaked = len(splits[name]) - len(written), len(written) - len(kept)
        for count, reason in ((empty, "empty"), (leaked, "also in a held-out split")):
            if count:
                notes.append(f"{name}: {count} of {len(splits[name])} left out, {reason}")
        splits[name] = kept
    corpus = Corpus(
        name=source.name,
        train=splits.pop("train"),
        valid=splits.pop("valid"),
        test=splits.pop("test"),
        further=splits,
        classes=classes,
        files=dict(reader.files),
        notes=tuple(notes),
        terms=source.terms,
        credits=(source.credit,) if source.credit else (),
        spelling=source.spelling,
    )
    if not len(corpus.train):
        raise ValueError(f"nothing is left to train on in {source.name}: {'; '.join(notes)}")
    return corpus
