"""Tensors with a JSON header and a checksum in one safetensors file; never pickle."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from algoformer.common.files import check_readable, write_atomically

FORMAT = 3
"""The version of the file format; raised when an older reader could no longer read a file."""

HEADER = "algoformer"
"""The key of the safetensors metadata that holds the JSON header."""

Header = Mapping[str, Any]
Built = TypeVar("Built")


def write_tensors(path: Path, header: Header, tensors: Mapping[str, Tensor]) -> None:
    """Write a header and tensors with a checksum over both; an existing file is replaced whole or not at all.

    Raises:
        OSError: the file could not be written, say because the disk is full; what was there is intact.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    content = json.dumps({**header, "format": FORMAT})
    # the header as text inside the header: a checksum needs the very bytes
    metadata = json.dumps({"format": FORMAT, "sha256": checksum(content, on_cpu), "content": content})

    def write(temporary: Path) -> None:
        try:
            save_file(on_cpu, temporary, metadata={HEADER: metadata})
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error

    write_atomically(path, write)


def read_tensors(
    path: Path, build: Callable[[dict[str, Any], dict[str, Tensor]], Built], *, what: str
) -> Built:
    """Verify a file's checksum, and let `build` make something of its header and tensors.

    Raises:
        ValueError: the file is missing, cut off, damaged, not one of this library's, or `build` refuses it.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    check_readable(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            digest, content = _metadata(file)
            tensors = {name: file.get_tensor(name) for name in map(str, file.keys())}
        if checksum(content, tensors) != digest:
            raise ValueError("its checksum does not match: the file was damaged on disk or on its way here")
        return build(_parsed(content), tensors)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a {what}, or is cut off: {str(error)[:200]}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a usable {what}: {error}") from None


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file without reading its tensors; nothing is verified.

    Raises:
        ValueError: the file is missing, cut off or not one of this library's.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    check_readable(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return _parsed(_metadata(file)[1])
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint, or is cut off: {str(error)[:200]}") from None


def checksum(content: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of a header and of the names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}/{tensor.dtype}/{tuple(tensor.shape)}/".encode("utf-8", "surrogatepass"))
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _metadata(file: Any) -> tuple[str, str]:
    metadata = file.metadata() or {}
    if HEADER not in metadata:
        raise ValueError("it is a safetensors file, but not one of algoformer's")
    outer = _parsed(metadata[HEADER])
    if outer.get("format") in (1, 2):
        raise ValueError(
            f"it has format {outer['format']}, made by an older version; "
            "convert it with scripts/convert_checkpoints.py"
        )
    digest, content = outer.get("sha256"), outer.get("content")
    if outer.get("format") != FORMAT or not isinstance(digest, str) or not isinstance(content, str):
        raise ValueError(f"it has format {str(outer.get('format'))[:40]!r}; this version reads {FORMAT}")
    return digest, content


def _parsed(text: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is damaged: {str(error)[:120]}") from None
    if not isinstance(header, dict):
        raise ValueError(f"its header must be an object, got {type(header).__name__}")
    return header
