"""A user's own text files: parallel lines, tables with a text and a label, plain text."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from algoformer.common.files import check_input, read_bytes
from algoformer.common.plain_data import read_object
from algoformer.common.terminal import short
from algoformer.language.splits import hold_out, without_overlap
from algoformer.language.text import Corpus, LabelledText, ParallelText, plain

HELD_OUT = 0.05
"""The fraction of the training text that is held out for validation, and again for the test."""

TEXT_COLUMNS = ("text", "sentence", "review", "content", "body", "message", "document", "question")
LABEL_COLUMNS = ("label", "class", "category", "sentiment", "topic", "intent", "target", "labels")
"""Usual names of columns, in the order in which they are looked for."""

TERMS = "the user's own files"


def read_text(path: Path | str, argument: str = "the path") -> str:
    """Return the text of a UTF-8 file or pipe, with or without a byte order mark."""
    try:
        raw = read_bytes(Path(path), argument)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path} is not UTF-8: byte {raw[error.start]:#04x} at position {error.start} in line {line}; "
            "convert it first, for example with iconv -f WINDOWS-1252 -t UTF-8"
        ) from None


def read_lines(path: Path | str, argument: str = "the path") -> list[str]:
    """Return the lines of a UTF-8 file or pipe; only a line feed ends a line."""
    return [plain(line) for line in lines_of(read_text(path, argument))]


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without the carriage returns of line ends; only a line feed ends a line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def csv_rows(
    text: str, path: str, *, delimiter: str = ",", strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a csv file, each with the number of its last line; empty rows are skipped.

    `strict` refuses quotation marks that open a cell and do not close it: such a cell goes on over all rows
    to the next mark.
    """
    before = csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict)
    done = 0
    try:
        for row in reader:
            done = reader.line_num
            if row:
                yield done, row
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {done + 1}: not readable as CSV: {error}; a quotation mark at the start of a cell "
            'needs one at its end, and marks inside such a cell are doubled ("")'
        ) from None
    finally:
        csv.field_size_limit(before)


def read_parallel(
    source: Sequence[str],
    target: Sequence[str],
    *,
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    seed: int = 0,
) -> Corpus[ParallelText]:
    """Read parallel files, and hold out validation and test pairs where no files are given for them.

    There are as many files of the target as of the source; validation and test have one of each.
    """
    _check_files(source=source, target=target, validation=validation, test=test)
    files = {"train": (source, target)}
    files |= {name: (two[:1], two[1:]) for name, two in (("valid", validation), ("test", test)) if two}
    paths = [path for sides in files.values() for side in sides for path in side]
    return _assembled(source, {name: _pairs(*sides) for name, sides in files.items()}, paths, seed)


def read_labelled(
    files: Iterable[str],
    *,
    validation: Iterable[str] = (),
    test: Iterable[str] = (),
    text_column: str = "",
    label_column: str = "",
    seed: int = 0,
    classes: tuple[str, ...] = (),
) -> Corpus[LabelledText]:
    """Read tables of texts and labels, and hold out validation and test rows where none are given."""
    parts = {"train": list(files), "valid": list(validation), "test": list(test)}
    _check_files(files=parts["train"], validation=parts["valid"], test=parts["test"])
    rows = {
        name: [row for path in paths for row in _table(Path(path), text_column, label_column)]
        for name, paths in parts.items()
        if paths
    }
    names = classes or tuple(sorted({label for _, label in rows["train"]}, key=_label_order))
    if len(names) < 2:
        where = ", ".join(parts["train"])
        raise ValueError(f"{where}: labels must have two classes or more, got {short(names)}")
    number = {label: place for place, label in enumerate(names)}
    splits = {}
    for name, found in rows.items():
        strange = next((label for _, label in found if label not in number), None)
        if strange is not None:
            raise ValueError(f"the {name} files have the label {strange!r}, which is not among the classes")
        splits[name] = LabelledText(
            texts=tuple(text for text, _ in found), labels=tuple(number[label] for _, label in found)
        )
    return _assembled(parts["train"], splits, list(chain.from_iterable(parts.values())), seed, classes=names)


def _check_files(**settings: Sequence[str]) -> None:
    for name, paths in settings.items():
        for path in paths:
            # a run is evaluated and resumed with its text, and a digest is taken of it
            check_input(Path(path), name, again=True)


def _assembled(
    files: Sequence[str],
    splits: dict[str, Any],
    paths: Sequence[str],
    seed: int,
    classes: tuple[str, ...] = (),
) -> Corpus:
    """Return a corpus that is named after its training files; splits that are not given are held out."""
    name, notes, train = "+".join(Path(path).name for path in files), [], splits.pop("train")
    kept = without_overlap(train, list(splits.values()))
    if len(kept) < len(train):
        notes.append(f"train: {len(train) - len(kept)} left out, which validation or test hold")
    for place, part in enumerate([part for part in ("test", "valid") if part not in splits]):
        share = HELD_OUT / (1 - HELD_OUT * place)
        kept, splits[part] = hold_out(kept, share=share, salt=f"{part}/{seed}")
        notes.append(f"{part}: {len(splits[part])} of the training rows, held out")
    for part, split in {"train": kept, **splits}.items():
        if not len(split):
            raise ValueError(
                f"{name}: nothing is left for the {part} split; give more text, or files for validation "
                "and test"
            )
    digests = {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}
    facts: Any = {"classes": classes, "files": digests, "notes": tuple(notes), "terms": TERMS}
    return Corpus(name=name, train=kept, **splits, **facts)


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> ParallelText:
    """Read pairs of files one after another."""
    found: list[tuple[str, str]] = []
    for source, target in zip(sources, targets, strict=True):
        lines, translations = read_lines(source), read_lines(target)
        if len(lines) != len(translations):
            raise ValueError(
                f"{source} has {len(lines)} lines and {target} has {len(translations)}: line i of one must "
                "translate line i of the other"
            )
        if not any(lines):
            raise ValueError(f"{source} holds no text")
        found += zip(lines, translations, strict=True)
    return ParallelText(source=tuple(one for one, _ in found), target=tuple(other for _, other in found))


def _table(path: Path, text_column: str, label_column: str) -> Iterator[tuple[str, str]]:
    found = False
    is_json = path.suffix.lower() in (".json", ".jsonl", ".ndjson")
    for line, row in _json_rows(path) if is_json else _csv_rows(path):
        text = _column(path, row, text_column, TEXT_COLUMNS, "text_column")
        label = _column(path, row, label_column, LABEL_COLUMNS, "label_column")
        if row[text] is None or row[label] is None or not str(row[label]).strip():
            missing = text if row[text] is None else label
            raise ValueError(f"{path}, line {line}: the row has no {missing}")
        for name in (text, label):
            if isinstance(row[name], list | dict):
                raise ValueError(
                    f"{path}, line {line}: {name} must be a text or a number, got {short(row[name])}"
                )
        found = True
        yield plain(str(row[text])), str(row[label]).strip()
    if not found:
        raise ValueError(f"{path} holds no rows")


def _column(path: Path, row: dict[str, Any], wanted: str, usual: Sequence[str], option: str) -> str:
    lower = {name.strip().lower(): name for name in row if name is not None}
    for name in (wanted.lower(),) if wanted else usual:
        if name in lower:
            return lower[name]
    columns = ", ".join(map(str, row))[:200]
    what = f"no column {wanted!r}" if wanted else f"no column named {', '.join(usual[:3])} or the like"
    raise ValueError(f"{path} has {what}, its columns are {columns}; name one with {option}")


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    delimiter, name = ("\t", "tab") if path.suffix.lower() == ".tsv" else (",", "comma")
    rows = csv_rows(read_text(path), str(path), delimiter=delimiter, strict=True)
    _, header = next(rows, (0, []))
    for line, row in rows:
        if any(map(str.strip, row[len(header) :])):
            raise ValueError(
                f"{path}, line {line}: the row has {len(row)} cells, the header {len(header)}; "
                f"put a text with a {name} between quotation marks"
            )
        yield line, dict(zip_longest(header, row[: len(header)]))


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield number, read_object(line, f"{path}, line {number}")


def _label_order(label: str) -> tuple[int, float, str]:
    # numbers in their own order: "10" after "9"
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
