"""Sets of text by name, from files, from the hub or from the package itself, all in the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from algoformer.language.corpora import hub
from algoformer.language.corpora.catalog import LABELLED, PARALLEL, Source, known
from algoformer.language.corpora.checksums import CHECKSUMS
from algoformer.language.corpora.clean import plain
from algoformer.language.corpora.files import Reader
from algoformer.language.corpora.folder import HUB, data_place
from algoformer.language.corpora.small import small_parallel, small_topics
from algoformer.language.corpora.splits import hold_out, without_overlap
from algoformer.language.text import Corpus, LabelledText, ParallelText, Split

VALID_SHARE = 0.04
"""The fraction of a training split that is held out for validation if a corpus has no such split."""

SMALL_PARALLEL: Mapping[str, Callable[[], Corpus[ParallelText]]] = {"small_de_en": small_parallel}
SMALL_LABELLED: Mapping[str, Callable[[], Corpus[LabelledText]]] = {"small_topics": small_topics}


def load_parallel(
    name: str,
    *,
    data: Path | str | None = None,
    strict: bool = False,
    languages: tuple[str, str] = ("de", "en"),
) -> Corpus[ParallelText]:
    """Sentences with their translations.

    Args:
        name: a key of `PARALLEL`, or small_de_en, which is part of the package.
        data: the data folder, or "hub"; None for the one in the environment variable ALGOFORMER_DATA.
        strict: refuse known files with unknown content, where otherwise a warning says so.
        languages: the endings of the source's and the target's files.

    Raises:
        ValueError: no such set, or a file is missing or damaged; the message says which and how to get it.
    """
    if name in SMALL_PARALLEL:
        return SMALL_PARALLEL[name]()
    labelled = dict.fromkeys((*SMALL_LABELLED, *LABELLED), "classification")
    source = known(name, PARALLEL, others=SMALL_PARALLEL, elsewhere=labelled)
    place = data_place(data)
    if place == HUB:
        return _assembled(source, hub.parallel_from_hub(source), Reader(Path()), classes=())
    reader = Reader(Path(place), CHECKSUMS, strict)
    splits = {}
    for split, path in _split_names(source).items():
        paths = [reader.find(f"{name}/{path}.{language}") for language in languages]
        if None in paths and split not in ("train", source.test):
            continue
        sides = [
            _lines(reader, source, found or _missing(source, reader, f"{name}/{path}.{language}"))
            for found, language in zip(paths, languages, strict=True)
        ]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                f"{paths[0]} has {len(sides[0])} lines and {paths[1]} has {len(sides[1])} in "
                f"{reader.folder}: line i of one must translate line i of the other"
            )
        splits["test" if split == source.test else split] = ParallelText(source=sides[0], target=sides[1])
    return _assembled(source, splits, reader, classes=())


def load_labelled(name: str, *, data: Path | str | None = None, strict: bool = False) -> Corpus[LabelledText]:
    """Texts with a class each.

    A csv file has either the header `label,text` with labels from 0, or, as such sets are published, no
    header, labels from 1 in the first column and text in all the others.

    Args:
        name: a key of `LABELLED`, or small_topics, which is part of the package.
        data: the data folder, or "hub"; None for the one in the environment variable ALGOFORMER_DATA.
        strict: refuse known files with unknown content, where otherwise a warning says so.

    Raises:
        ValueError: no such set, or a file is missing or damaged; the message says which and how to get it.
    """
    if name in SMALL_LABELLED:
        return SMALL_LABELLED[name]()
    parallel = dict.fromkeys((*SMALL_PARALLEL, *PARALLEL), "translation")
    source = known(name, LABELLED, others=SMALL_LABELLED, elsewhere=parallel)
    place = data_place(data)
    if place == HUB:
        splits, classes = hub.labelled_from_hub(source)
        return _assembled(source, splits, Reader(Path()), classes=classes)
    reader = Reader(Path(place), CHECKSUMS, strict)
    splits = {}
    for split, path in _split_names(source).items():
        found = reader.find(f"{name}/{path}.csv")
        if found is not None:
            splits[split] = _labelled(reader, source, found)
        elif split in ("train", source.test):
            _missing(source, reader, f"{name}/{path}.csv")
    return _assembled(source, splits, reader, classes=_classes(source, reader))


def _split_names(source: Source) -> dict[str, str]:
    return {name: name for name in ("train", "valid", source.test, *source.further)}


def _missing(source: Source, reader: Reader, path: str) -> str:
    raise ValueError(
        f"{reader.folder / path}.gz is missing (and so is {Path(path).name} without .gz). "
        f"{source.name} ({source.about}) is {source.where}. "
        + (f"Or download it from {source.hub.repository} with --data-folder hub." if source.hub else "")
    )


def _refuse_empty(source: Source, reader: Reader, path: str) -> None:
    raise ValueError(
        f"{reader.folder / path} holds no texts; put the whole file there: "
        f"{source.name} ({source.about}) is {source.where}"
    )


def _lines(reader: Reader, source: Source, path: str) -> tuple[str, ...]:
    lines = tuple(plain(source.repair(line)) for line in reader.lines(path))
    if not any(lines):
        _refuse_empty(source, reader, path)
    return lines


def _labelled(reader: Reader, source: Source, path: str) -> LabelledText:
    texts, labels = [], []
    first = 1
    for number, (line, row) in enumerate(reader.rows(path)):
        if number == 0 and [cell.strip().lower() for cell in row] == ["label", "text"]:
            first = 0
            continue
        if len(row) < 2 or not row[0].strip().isdecimal():
            raise ValueError(
                f"{reader.folder / path}, line {line}: a row is a label and text, got {str(row)[:60]}"
            )
        labels.append(int(row[0]) - first)
        texts.append(plain(source.repair(" ".join(row[1:]))))
    if not any(texts):
        _refuse_empty(source, reader, path)
    return LabelledText(texts=tuple(texts), labels=tuple(labels))


def _classes(source: Source, reader: Reader) -> tuple[str, ...]:
    path = reader.find(f"{source.name}/classes.txt")
    if path is None and not source.classes:
        _missing(source, reader, f"{source.name}/classes.txt")
    names = () if path is None else tuple(line.strip() for line in reader.lines(path) if line.strip())
    return names or source.classes


def _assembled(
    source: Source, splits: dict[str, Split], reader: Reader, *, classes: tuple[str, ...]
) -> Corpus[Split]:
    """Return a corpus without overlap and with a validation split, and notes on what that took."""
    notes = reader.notes
    if "valid" not in splits:
        splits["train"], valid = hold_out(splits["train"], share=VALID_SHARE)
        splits["valid"] = without_overlap(
            valid, [split for name, split in splits.items() if name.startswith("test")]
        ).split
        notes.append(f"valid: {len(splits['valid'])} texts of train, chosen by their hash")
    held_out = [split for name, split in splits.items() if name.startswith(("test", "valid"))]
    for name in [name for name in splits if name.startswith("train")]:
        written = splits[name].take(
            row for row, texts in enumerate(zip(*splits[name].columns(), strict=True)) if all(texts)
        )
        kept = without_overlap(written, held_out)
        for count, reason in [
            (len(splits[name]) - len(written), "empty"),
            (kept.removed, "also in a held-out split"),
        ]:
            if count:
                notes.append(f"{name}: {count} of {len(splits[name])} left out, {reason}")
        splits[name] = kept.split
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
    )
    if not len(corpus.train):
        raise ValueError(f"nothing is left to train on in {source.name}: {'; '.join(notes)}")
    return corpus
