"""A tokenized corpus in one compact file, to be carried to another machine."""

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
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTable, TokenTexts

HEADER = "algoformer"
KIND = "packed text"
FORMAT = 2
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 1, "pb": 1}]
"""Tokens have two bytes: places are told apart by whether they are even. A quarter smaller than zlib."""

LARGEST_COLUMN = 2**32
"""Bytes that one column may have when unpacked: a small file can claim to hold any number."""


@dataclass(frozen=True, kw_only=True)
class PackedText:
    """Tokenized splits with the tokenizer that made them.

    Decoding the tokens gives back the very text, so a test set's references travel with it.

    Attributes:
        splits: by name; all of pairs or all of texts.
        tokenizer: that made the tokens.
        card: facts in plain JSON types: corpus, classes, notes, checksums, terms.
    """

    splits: Mapping[str, TokenPairs | TokenTexts]
    tokenizer: Tokenizer
    card: Mapping[str, Any] = field(default_factory=dict)


def pack(path: Path | str, packed: PackedText) -> None:
    """Write the splits, compressed: about a byte a token, and a checksum over all.

    Raises:
        OSError: the file could not be written; what was there before is intact.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    columns: dict[str, np.ndarray] = {}
    notes = {}
    for name, split in packed.splits.items():
        if "/" in name:
            raise ValueError(f"a split's name has no slash, got {name!r}")
        notes[name] = list(split.notes)
        for column, table in _tables(split).items():
            columns[f"{name}/{column}/ids"] = table.ids
            columns[f"{name}/{column}/lengths"] = table.lengths.astype(np.uint32)
        if isinstance(split, TokenTexts):
            columns[f"{name}/labels"] = split.labels.astype(np.int64)
    tensors = {name: np.frombuffer(_squeezed(column), np.uint8) for name, column in columns.items()}
    header = {
        "kind": KIND,
        "format": FORMAT,
        "tokenizer": packed.tokenizer.to_json(),
        "notes": notes,
        "sizes": {name: column.size for name, column in columns.items()},
        "card": dict(packed.card),
    }
    text = json.dumps(header, ensure_ascii=False)
    # one entry only: safetensors writes several in any order, and the same content shall be the same file
    metadata = {HEADER: json.dumps({"sha256": _digest(text, tensors), "content": text}, ensure_ascii=False)}

    def write(temporary: Path) -> None:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error

    write_atomically(Path(path), write)


def unpack(path: Path | str) -> PackedText:
    """Read what `pack` wrote, and check every byte of it.

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
            tensors = {str(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _read(metadata, tensors)
    except SafetensorError as error:
        raise ValueError(f"{path} is not packed text, or is cut off: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not usable packed text: {error}") from None


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
        raise ValueError(f"it has format {str(header.get('format'))[:40]}, not {FORMAT}; pack it again")
    tokenizer = Tokenizer.from_json(header["tokenizer"])
    columns = {name: _unsqueezed(name, tensors[name], size) for name, size in header["sizes"].items()}
    splits: dict[str, TokenPairs | TokenTexts] = {}
    for name, notes in header["notes"].items():
        parts = ("texts",) if f"{name}/labels" in columns else ("source", "target")
        tables = {part: _table(columns, f"{name}/{part}", len(tokenizer)) for part in parts}
        if "texts" in tables:
            labels = columns[f"{name}/labels"]
            splits[name] = TokenTexts(texts=tables["texts"], labels=labels, notes=tuple(notes))
        else:
            splits[name] = TokenPairs(**tables, notes=tuple(notes))
    return PackedText(splits=splits, tokenizer=tokenizer, card=header["card"])


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is damaged: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("its header is damaged: not an object")
    return found


def _tables(split: TokenPairs | TokenTexts) -> dict[str, TokenTable]:
    if isinstance(split, TokenPairs):
        return {"source": split.source, "target": split.target}
    return {"texts": split.texts}


def _squeezed(column: np.ndarray) -> bytes:
    return lzma.compress(column.tobytes(), format=lzma.FORMAT_RAW, filters=_FILTERS)


def _unsqueezed(name: str, column: np.ndarray, size: object) -> np.ndarray:
    kind = {"ids": np.uint16, "lengths": np.uint32, "labels": np.int64}[name.rpartition("/")[2]]
    count = size * np.dtype(kind).itemsize if type(size) is int else -1
    if not 0 <= count <= LARGEST_COLUMN:
        raise ValueError(f"{name} claims to have {str(size)[:40]} numbers")
    try:
        # one byte more than there should be is asked for, to notice when there is more
        opened = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
        raw = opened.decompress(column.tobytes(), count + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"{name} cannot be decompressed: {error}") from None
    if len(raw) != count:
        raise ValueError(f"{name} does not have the {size} numbers that its header says")
    return np.frombuffer(raw, kind)


def _table(columns: Mapping[str, np.ndarray], name: str, vocabulary: int) -> TokenTable:
    ids, lengths = columns[f"{name}/ids"], columns[f"{name}/lengths"]
    if ids.size and int(ids.max()) >= vocabulary:
        raise ValueError(f"{name} has token {int(ids.max())}, its tokenizer has {vocabulary}")
    return TokenTable(ids=ids, offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def _digest(header: str, tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(header.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
