"""Tensors with a JSON header in safetensors: one file, or an index and shards beside it; never pickle."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from algoformer.training.files import write_atomically
from algoformer.training.shard_index import Index, shard_limit
from algoformer.training.shards import MARK, ShardMissing, read_shards, remove_strays, write_shards

FORMAT = 1
"""Raised when a reader of this version could no longer read a file."""

SHARDED = 2
"""The format of a file that holds the header only, and names the shards with the tensors."""

HEADER = "algoformer"
"""Under this key of the safetensors metadata stands the JSON."""

Header = Mapping[str, Any]
Built = TypeVar("Built")
Build = Callable[[Header, Mapping[str, tuple[int, ...]], Callable[[str], Any]], Built]
"""Makes something of a header, the shapes of all tensors by name, and a function that reads one of them."""


def write_tensors(
    path: Path, header: Header, tensors: Mapping[str, Tensor], shard_mb: int | float | None = None
) -> None:
    """Write header and tensors; what was at `path` is replaced in one step or not at all, in either form.

    Raises:
        ValueError: `shard_mb` is too small.
        OSError: a file could not be written, say because the disk is full; what was there is intact.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    limit = shard_limit(shard_mb)
    whole = {**header, "format": FORMAT}
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(on_cpu, temporary, metadata={HEADER: json.dumps(whole)})
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error
        if limit is not None and temporary.stat().st_size > limit:
            raise ValueError(f"shard_mb={shard_mb} is too small even for the list of shards; choose more")

    try:
        if shard_mb is not None and limit is not None:
            whole |= {"format": SHARDED, "shards": write_shards(path, on_cpu, shard_mb).to_data()}
            on_cpu = {}
        # until this one step the old checkpoint is in force, from then on the new one
        write_atomically(path, write)
    finally:
        remove_stray_shards(path)


def read_tensors(path: Path, build: Build[Built], *, what: str) -> Built:
    """Let `build` make something of the file at `path` and its shards, which it need not know of.

    Raises:
        ValueError: the file or one of its shards is missing, cut off or not one of this library's, or `build`
            refuses it. Nothing is read but `path` and the shards beside it.
    """
    from safetensors import SafetensorError

    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    try:
        return _read(path, build)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a checkpoint, or is cut off: {error}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a usable {what}: {error}") from None


def stored_index(path: Path) -> Index | None:
    """What the checkpoint at `path` says about its shards; None if it is one file, or not there.

    Raises:
        ValueError: the file is not a checkpoint of this library.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return _index(_header(file))
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a checkpoint, or is cut off: {error}") from None


def remove_stray_shards(path: Path) -> None:
    """Remove the shards beside `path` that its checkpoint does not name: a killed process left them."""
    try:
        index = stored_index(path)
    except ValueError:
        return  # what belongs to a file that cannot be read may still be wanted
    remove_strays(path, () if index is None else index.shards)


def _read(path: Path, build: Build[Built]) -> Built:
    from safetensors import safe_open

    before: Index | None = None
    while True:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = _header(file)
            index = _index(header)
            if index is None:
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in map(str, file.keys())}
                return build(header, shapes, file.get_tensor)
        try:
            tensors = read_shards(path, index)
        except ShardMissing:
            if index == before:
                raise
            before = index  # a run that writes its next checkpoint removes this one: look again
        else:
            return build(header, {name: tuple(value.shape) for name, value in tensors.items()}, tensors.get)


def _header(file: Any) -> dict[str, Any]:
    metadata = file.metadata() or {}
    if MARK in metadata:
        raise ValueError(
            f"it is shard {metadata[MARK][:40]} of a checkpoint; give the file that names them all"
        )
    if HEADER not in metadata:
        raise ValueError("it is a safetensors file, but not one of algoformer's")
    try:
        header = json.loads(metadata[HEADER])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is damaged: {error}") from None
    if not isinstance(header, dict) or header.get("format") not in (FORMAT, SHARDED):
        found = header.get("format") if isinstance(header, dict) else type(header).__name__
        raise ValueError(
            f"it has format {str(found)[:40]!r}; this version reads format {FORMAT} and {SHARDED}"
        )
    return header


def _index(header: Header) -> Index | None:
    return None if header["format"] == FORMAT else Index.from_data(header.get("shards"))
