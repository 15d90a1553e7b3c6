"""Store a tokenized corpus in one compact file, to copy it to another machine."""

from __future__ import annotations

import errno
import hashlib
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from algoformer.common.files import check_readable, write_atomically
from algoformer.common.terminal import short
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTable, TokenTexts

HEADER = "algoformer"
KIND = "packed text"
FORMAT = 2
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 1, "pb": 1}]
"""LZMA settings for tokens of two bytes; a quarter smaller than zlib."""

LARGEST_COLUMN = 2**32
"""The largest number of entries of a column."""

MAX_RATIO = 100
"""A file may unpack to this many times its size; tokenized text compresses to about half."""

ALWAYS_ALLOWED = 2**26
"""Bytes that a file of any size may unpack to."""


@dataclass(frozen=True, kw_only=True)
class PackedText:
    """Tokenized splits with the tokenizer that made them.

    Decoding the tokens restores the exact text, so the file also holds the references of a test set.

    Attributes:
        splits: the splits by name; all of them hold pairs, or all hold labelled texts.
        tokenizer: the tokenizer that produced the tokens.
        card: facts about the corpus in plain JSON types: name, classes, notes, checksums, terms.
    """

    splits: Mapping[str, TokenPairs | TokenTexts]
    tokenizer: Tokenizer
    card: Mapping[str, Any] = field(default_factory=dict)


def pack(path: Path | str, packed: PackedText) -> None:
    """Write the splits to a compressed file, about one byte per token, with a checksum.

    Raises:
        OSError: the file could not be written; what was there before is intact.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    columns: dict[str, np.ndarray] = {}
    notes = {}
    for name, split in packed.splits.items():
        if "/" in name:
            raise ValueError(f"a split's name must have no slash, got {short(name)}")
        notes[name] = list(split.notes)
        for column, table in _tables(split).items():
            columns[f"{name}/{column}/ids"] = table.ids
            columns[f"{name}/{column}/lengths"] = table.lengths.astype(np.uint32)
        if isinstance(split, TokenTexts):
            columns[f"{name}/labels"] = split.labels.astype(np.int64)
    tensors = {name: np.frombuffer(_compressed(column), np.uint8) for name, column in columns.items()}
    header = {
        "kind": KIND,
        "format": FORMAT,
        "tokenizer": packed.tokenizer.to_json(),
        "notes": notes,
        "sizes": {name: column.size for name, column in columns.items()},
        "card": dict(packed.card),
    }
    text = json.dumps(header, ensure_ascii=False)
    # one entry only: safetensors writes several in any order, and equal content must give equal files
    metadata = {HEADER: json.dumps({"sha256": _digest(text, tensors), "content": text}, ensure_ascii=False)}

    def write(temporary: Path) -> None:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error

    write_atomically(Path(path), write)


def unpack(path: Path | str) -> PackedText:
    """Read what `pack` wrote, and check every byte of it.

    The memory that is needed is bounded by `MAX_RATIO` times the size of the file.

    Raises:
        ValueError: the file is missing, cut off, altered, or not packed text. Nothing in it is executed.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    check_readable(path)
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            tensors = {str(name): _bytes(file, name) for name in file.keys()}  # noqa: SIM118
        return _read(metadata, tensors)
    except SafetensorError as error:
        raise ValueError(f"{path} is not packed text, or is cut off: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not usable packed text: {error}") from None


def _bytes(file: Any, name: str) -> np.ndarray:
    found = file.get_slice(name)
    if found.get_dtype() != "U8" or len(found.get_shape()) != 1:
        raise ValueError(f"{short(name)} is not a row of bytes")
    return file.get_tensor(name)


def _read(metadata: Mapping[str, str], tensors: dict[str, np.ndarray]) -> PackedText:
    outer = _object(metadata.get(HEADER, ""))
    if "content" not in outer and "program" in outer:
        raise ValueError("it holds a model; give the file that text pack wrote")
    text = str(outer.get("content"))
    if outer.get("sha256") != _digest(text, tensors):
        raise ValueError("its checksum does not fit its content")
    header = _object(text)
    if header.get("kind") != KIND:
        raise ValueError(f"its header is not that of {KIND}")
    if header.get("format") != FORMAT:
        raise ValueError(f"it has format {short(header.get('format'))}, not {FORMAT}; pack it again")
    if not isinstance(header.get("tokenizer"), str):
        raise ValueError("its header has no tokenizer")
    tokenizer = Tokenizer.from_json(header["tokenizer"])
    sizes, notes, card = (_member(header, name) for name in ("sizes", "notes", "card"))
    _check_sizes(sizes, tensors)
    splits = {name: _split(name, said, tensors, sizes, tokenizer) for name, said in notes.items()}
    return PackedText(splits=splits, tokenizer=tokenizer, card=card)


def _split(
    name: str,
    notes: object,
    tensors: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    tokenizer: Tokenizer,
) -> TokenPairs | TokenTexts:
    """Decompress the columns of one split."""
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"the notes of split {short(name)} must be a list of strings, got {short(notes)}")

    def column(part: str, kind: type) -> np.ndarray:
        key = f"{name}/{part}"
        if key not in tensors:
            raise ValueError(f"column {short(key)} is missing")
        return _decompressed(key, tensors[key], sizes[key], kind)

    def table(part: str) -> TokenTable:
        ids, lengths = column(f"{part}/ids", np.uint16), column(f"{part}/lengths", np.uint32)
        if ids.size and int(ids.max()) >= len(tokenizer):
            raise ValueError(
                f"{short(f'{name}/{part}')} has token {int(ids.max())}, its tokenizer has {len(tokenizer)}"
            )
        return TokenTable(ids=ids, offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    if f"{name}/labels" in tensors:
        return TokenTexts(texts=table("texts"), labels=column("labels", np.int64), notes=tuple(notes))
    return TokenPairs(source=table("source"), target=table("target"), notes=tuple(notes))


def _check_sizes(sizes: Mapping[str, object], tensors: Mapping[str, np.ndarray]) -> None:
    """Refuse a header that claims more than the compressed columns can reasonably hold."""
    if set(sizes) != set(tensors):
        raise ValueError("its columns are not those that its header lists")
    for name, size in sizes.items():
        if type(size) is not int or not 0 <= size <= LARGEST_COLUMN:
            raise ValueError(f"{short(name)} claims to have {short(size)} numbers")
    packed = sum(column.nbytes for column in tensors.values())
    claimed = 8 * sum(size for size in sizes.values() if isinstance(size, int))
    if claimed > max(ALWAYS_ALLOWED, MAX_RATIO * packed):
        raise ValueError(f"it claims to unpack to {claimed} bytes, more than {MAX_RATIO} times its {packed}")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is damaged: {short(str(error))}") from None
    if not isinstance(found, dict):
        raise ValueError("its header is damaged: not an object")
    return found


def _member(header: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(header.get(name), dict):
        raise ValueError(f"{name} in its header must be an object, got {short(header.get(name))}")
    return dict(header[name])


def _tables(split: TokenPairs | TokenTexts) -> dict[str, TokenTable]:
    if isinstance(split, TokenPairs):
        return {"source": split.source, "target": split.target}
    return {"texts": split.texts}


def _compressed(column: np.ndarray) -> bytes:
    return lzma.compress(column.tobytes(), format=lzma.FORMAT_RAW, filters=_FILTERS)


def _decompressed(name: str, column: np.ndarray, size: int, kind: type) -> np.ndarray:
    count = size * np.dtype(kind).itemsize
    try:
        # one byte more than announced is requested, to notice when there is more
        opened = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
        raw = opened.decompress(column.tobytes(), count + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"{short(name)} cannot be decompressed: {error}") from None
    if len(raw) != count:
        raise ValueError(f"{short(name)} does not have the {size} numbers that its header says")
    return np.frombuffer(raw, kind)


def _digest(header: str, tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(header.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
