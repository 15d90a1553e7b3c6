"""Store a tokenized corpus with its tokenizer in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algoformer.common.files import read_tensors, write_tensors
from algoformer.common.terminal import short
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTable, TokenTexts

KIND = "packed text"


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
    """Write the splits to a file with a checksum, two bytes per token.

    Raises:
        OSError: the file could not be written; what was there before is intact.
    """
    columns: dict[str, np.ndarray] = {}
    for name, split in packed.splits.items():
        if "/" in name:
            raise ValueError(f"a split's name must have no slash, got {short(name)}")
        for column, table in split.tables().items():
            columns[f"{name}/{column}/ids"] = table.ids
            columns[f"{name}/{column}/offsets"] = table.offsets
        if isinstance(split, TokenTexts):
            columns[f"{name}/labels"] = split.labels
    header = {
        "kind": KIND,
        "tokenizer": packed.tokenizer.to_json(),
        "notes": {name: list(split.notes) for name, split in packed.splits.items()},
        "card": dict(packed.card),
    }
    # copies: splits may share arrays, which safetensors refuses to write
    write_tensors(Path(path), header, {name: torch.tensor(column) for name, column in columns.items()})


def unpack(path: Path | str) -> PackedText:
    """Read what `pack` wrote, and check every byte of it.

    Raises:
        ValueError: the file is missing, cut off, altered, or not packed text. Nothing in it is executed.
    """
    return read_tensors(Path(path), _read, what=f"file of {KIND}")


def _read(header: dict[str, Any], tensors: dict[str, Tensor]) -> PackedText:
    if header.get("kind") != KIND:
        raise ValueError(f"its header is not that of {KIND}; give a file that `pack` wrote")
    stored, notes, card = (header.get(name) for name in ("tokenizer", "notes", "card"))
    if not isinstance(stored, str) or not isinstance(notes, dict) or not isinstance(card, dict):
        raise ValueError("its header must have a tokenizer, notes and a card")
    tokenizer = Tokenizer.from_json(stored)

    def column(name: str, kind: torch.dtype) -> np.ndarray:
        found = tensors.get(name)
        if found is None or found.dtype != kind or found.ndim != 1:
            raise ValueError(f"column {short(name)} is missing, or not a row of {kind}")
        return found.numpy()

    def table(name: str) -> TokenTable:
        ids = column(f"{name}/ids", torch.uint16)
        if ids.size and int(ids.max()) >= len(tokenizer):
            raise ValueError(f"{short(name)} has token {ids.max()}, its tokenizer has {len(tokenizer)}")
        return TokenTable(ids=ids, offsets=column(f"{name}/offsets", torch.int64))

    splits: dict[str, TokenPairs | TokenTexts] = {}
    for name, said in notes.items():
        if not isinstance(said, list) or not all(isinstance(note, str) for note in said):
            raise ValueError(f"the notes of split {short(name)} must be a list of strings, got {short(said)}")
        if f"{name}/labels" in tensors:
            labels = column(f"{name}/labels", torch.int64)
            splits[name] = TokenTexts(texts=table(f"{name}/texts"), labels=labels, notes=tuple(said))
        else:
            source, target = table(f"{name}/source"), table(f"{name}/target")
            splits[name] = TokenPairs(source=source, target=target, notes=tuple(said))
    return PackedText(splits=splits, tokenizer=tokenizer, card=card)
