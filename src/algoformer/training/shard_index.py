"""What a checkpoint in several files says about them: sizes and digests, and never a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEGABYTE = 10**6

DIGITS = 16
"""So much of its digest stands in the name of a shard."""

MOST_BYTES = 10**18
"""No file is larger, so that a limit beyond it is none."""

MOST_SHARDS = 10_000
"""An index with more is refused, and none is written."""

MOST_AXES = 64
"""A tensor with more is refused before anything is made of it."""


@dataclass(frozen=True)
class Shard:
    """A file with some of the tensors: which one of how many, its size in bytes and its SHA-256."""

    number: int
    count: int
    size: int
    sha256: str

    def path(self, index: Path) -> Path:
        """Where it is: beside the index, under a name that no other content has.

        >>> Shard(1, 2, 10, "0123456789abcdef" * 4).path(Path("run/checkpoint.safetensors")).name
        'checkpoint.1-of-2.0123456789abcdef.safetensors'
        """
        digest = self.sha256[:DIGITS]
        return index.with_name(f"{index.stem}.{self.number}-of-{self.count}.{digest}{index.suffix}")


@dataclass(frozen=True)
class Index:
    """The shards of one checkpoint.

    Attributes:
        shard_mb: no file has more MB than this.
        shards: the files, in order.
        cut: the shapes of the tensors that are in pieces: flat, in as many shards as needed, in order.
    """

    shard_mb: int | float
    shards: tuple[Shard, ...]
    cut: Mapping[str, tuple[int, ...]]

    def to_data(self) -> dict[str, Any]:
        """Plain JSON types. Names of files are not among them: they follow from the digests."""
        return {
            "shard_mb": self.shard_mb,
            "files": [{"bytes": shard.size, "sha256": shard.sha256} for shard in self.shards],
            "cut": {name: list(shape) for name, shape in self.cut.items()},
        }

    @classmethod
    def from_data(cls, data: object) -> Index:
        """Read what `to_data` wrote; anything else raises ValueError."""
        if not isinstance(data, dict) or set(data) != {"shard_mb", "files", "cut"}:
            raise ValueError("its list of shards must have exactly the keys shard_mb, files and cut")
        shard_mb, files, cut = data["shard_mb"], data["files"], data["cut"]
        limit = shard_limit(shard_mb) if type(shard_mb) in (int, float) else None
        if limit is None:
            raise ValueError(f"its shard_mb must be a positive number, got {str(shard_mb)[:40]}")
        if not isinstance(files, list) or len(files) > MOST_SHARDS or not isinstance(cut, dict):
            raise ValueError(f"its shards must be a list of at most {MOST_SHARDS}, its cut tensors an object")
        shards = tuple(_read_shard(number, files, limit) for number in range(1, len(files) + 1))
        return cls(shard_mb, shards, {name: _read_shape(name, shape) for name, shape in cut.items()})


def shard_limit(shard_mb: int | float | None) -> int | None:
    """The most bytes of a file; None for one file, however large.

    >>> shard_limit(16), shard_limit(None), shard_limit(float("inf"))
    (16000000, None, None)
    """
    if shard_mb is None or MEGABYTE * shard_mb > MOST_BYTES:
        return None
    if not MEGABYTE * shard_mb >= 1:
        raise ValueError(f"shard_mb must be a positive number of MB, or inf for one file, got {shard_mb}")
    return int(MEGABYTE * shard_mb)


def _read_shard(number: int, files: list[Any], limit: int) -> Shard:
    claim = files[number - 1]
    if not isinstance(claim, dict) or set(claim) != {"bytes", "sha256"}:
        raise ValueError(f"shard {number} must have exactly the keys bytes and sha256")
    size, digest = claim["bytes"], claim["sha256"]
    # the digest becomes part of a name, so that it must be nothing but digits
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"shard {number} needs a SHA-256 of 64 digits, got {str(digest)[:80]!r}")
    if type(size) is not int or not 0 < size <= limit:
        raise ValueError(f"shard {number} must have 1 to {limit} bytes, got {str(size)[:40]}")
    return Shard(number, len(files), size, digest)


def _read_shape(name: str, shape: object) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, list) and len(shape) <= MOST_AXES else [None]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise ValueError(f"{name[:80]!r} cannot have been cut from the shape {str(shape)[:80]}")
    return tuple(sizes)
