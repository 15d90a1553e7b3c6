"""A checkpoint in several files, none larger than a limit, so that it travels where large files cannot.

The file under the checkpoint's own name is then an index of the others. It is written last, and what no
index names is removed: at any moment there is one checkpoint, and it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import stat
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from algoformer.training.files import write_atomically
from algoformer.training.shard_index import DIGITS, MEGABYTE, MOST_SHARDS, Index, Shard, shard_limit

MARK = "algoformer.shard"
"""Under this key of its metadata a shard says which one it is."""

AROUND = 128
"""Bytes of a safetensors file that belong to no tensor, at most: lengths, our mark, padding."""


class ShardMissing(ValueError):
    """A shard is not there: it was lost, or another process has just replaced the checkpoint."""


def write_shards(path: Path, tensors: Mapping[str, Tensor], shard_mb: int | float) -> Index:
    """Write the tensors to shards beside `path`; the index that comes back is still to be written there.

    Raises:
        ValueError: `shard_mb` is too small for anything.
        OSError: a shard could not be written; no file that was there before is touched.
    """
    from safetensors.torch import save

    limit = shard_limit(shard_mb)
    if limit is None:
        raise ValueError(f"shard_mb must be a finite number of MB, got {shard_mb}")
    packed = pack(tensors, limit)
    if len(packed) > MOST_SHARDS:
        raise ValueError(f"shard_mb={shard_mb} is too small: it makes {len(packed)} files; choose more")
    shards = []
    for number, part in enumerate(packed, start=1):
        content = save(part, metadata={MARK: f"{number} of {len(packed)}"})
        assert len(content) <= limit
        shard = Shard(number, len(packed), len(content), hashlib.sha256(content).hexdigest())
        write_atomically(shard.path(path), partial(Path.write_bytes, data=content))
        shards.append(shard)
    names = {name for part in packed for name, piece in part.items() if piece.shape != tensors[name].shape}
    return Index(shard_mb, tuple(shards), {name: tuple(tensors[name].shape) for name in sorted(names)})


def pack(tensors: Mapping[str, Tensor], limit: int) -> list[dict[str, Tensor]]:
    """The tensors in order, in files of at most `limit` bytes; what fits into none is cut into flat pieces.

    >>> [{name: len(part) for name, part in file.items()} for file in pack({"a": torch.zeros(200)}, 600)]
    [{'a': 92}, {'a': 92}, {'a': 16}]
    """
    files: list[dict[str, Tensor]] = [{}]
    room = limit - AROUND
    for name, tensor in tensors.items():
        if files[-1] and _size(name, tensor) > room:
            files.append({})
            room = limit - AROUND
        rest = tensor if _size(name, tensor) <= room else tensor.flatten()
        while _size(name, rest) > room:
            count = (room - _size(name, rest) + rest.nbytes) // rest.element_size()
            if count < 1:
                raise ValueError(
                    f"shard_mb={limit / MEGABYTE:g} is too small to hold a number of {name!r}; choose more"
                )
            files[-1][name], rest = rest[:count], rest[count:]
            files.append({})
            room = limit - AROUND
        files[-1][name] = rest
        room -= _size(name, rest)
    return files


def read_shards(path: Path, index: Index) -> dict[str, Tensor]:
    """The tensors of the checkpoint at `path`, whose index is given.

    Raises:
        ShardMissing: a shard is not there.
        ValueError: a shard is not what the index says. Nothing but plain files beside `path` is read, and
            none that is larger than its index says.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    pieces: dict[str, list[Tensor]] = {}
    for shard in index.shards:
        content = _content(shard, path)
        try:
            part = load(content)
        except SafetensorError as error:
            raise ValueError(f"{shard.path(path).name} is not a safetensors file: {error}") from None
        for name, piece in part.items():
            pieces.setdefault(name, []).append(piece)
    for name in sorted(index.cut.keys() - pieces.keys()):
        raise ValueError(f"{name[:80]!r} is in none of its shards")
    return {name: _join(name, found, index.cut.get(name)) for name, found in pieces.items()}


def remove_strays(path: Path, named: Iterable[Shard]) -> None:
    """Remove the shards beside `path` that an earlier write or a kill left; those that are named stay."""
    ours = re.compile(
        rf"{re.escape(path.stem)}\.[0-9]+-of-[0-9]+\.[0-9a-f]{{{DIGITS}}}{re.escape(path.suffix)}"
    )
    kept = {shard.path(path).name for shard in named}
    # tidying up must not hide the error that made it necessary
    with contextlib.suppress(OSError):
        for file in list(path.parent.iterdir()):
            if ours.fullmatch(file.name) and file.name not in kept:
                file.unlink(missing_ok=True)


def _size(name: str, tensor: Tensor) -> int:
    # what it takes in a safetensors file, at most: its numbers, and its line in the header with name, type,
    # shape and two offsets
    return tensor.nbytes + len(json.dumps(name)) + len(str(list(tensor.shape))) + 96


def _content(shard: Shard, index: Path) -> bytes:
    file = shard.path(index)
    which = f"shard {shard.number} of {shard.count}, {file.name},"
    try:
        status = file.lstat()
        # a link could lead anywhere, and a pipe would be waited for
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{which} is not a plain file")
        if status.st_size != shard.size:
            raise ValueError(f"{which} has {status.st_size} bytes instead of {shard.size}: is it cut off?")
        content = file.read_bytes()
    except FileNotFoundError:
        raise ShardMissing(f"{which} is missing; copy all files of the checkpoint") from None
    if hashlib.sha256(content).hexdigest() != shard.sha256:
        raise ValueError(f"{which} is damaged, or another file has taken its place")
    return content


def _join(name: str, pieces: list[Tensor], shape: tuple[int, ...] | None) -> Tensor:
    if shape is None:
        if len(pieces) != 1:
            raise ValueError(f"{name[:80]!r} is in several shards")
        return pieces[0]
    if any(piece.ndim != 1 or piece.dtype != pieces[0].dtype for piece in pieces):
        raise ValueError(f"the pieces of {name[:80]!r} do not fit together")
    if sum(map(len, pieces)) != math.prod(shape):
        raise ValueError(f"the pieces of {name[:80]!r} do not make up its shape {str(shape)[:80]}")
    return torch.cat(pieces).reshape(shape)
