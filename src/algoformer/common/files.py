"""Files that are whole or absent, JSON, and tensors with a header of plain JSON types."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from algoformer.common.plain_data import read_object

LARGEST_JSON = 2**28
"""Bytes of the largest JSON file that is read; no file of this library comes near."""

LARGEST_PIPE = 2**30
"""Bytes of the longest text that is read from a pipe, which may have no end."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong (a full disk, a kill), what was at `path` before is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("r+b") as handle:
            os.fsync(handle.fileno())
        os.chmod(temporary, _ordinary_mode())
        os.replace(temporary, path)
    except OSError as error:
        raise _named(error, path) from error
    finally:
        _remove(temporary)
    _sync_folder(path.parent)


def _ordinary_mode() -> int:
    # what open() would give a new file; some writers make theirs readable by nobody else
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed process left in `folder`."""
    for path in folder.glob(".*"):
        if is_leftover(path.name):
            _remove(path)


def is_leftover(name: str) -> bool:
    """Return whether a file is the temporary one of a killed process: ours, or the one of safetensors.

    >>> [is_leftover(name) for name in (".config.json.123.part", ".tmpQaumh8", ".tmp", ".lock")]
    [True, True, False, False]
    """
    return re.fullmatch(r"\..*\.\d+\.part|\.tmp[A-Za-z0-9]{6}", name) is not None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def append_line(path: Path, line: str) -> None:
    """Add a line to a text file; a kill or a full disk can cut it off, but leaves what was there before."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise _named(error, path) from error


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically, for people to read."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=True) + "\n")


def read_json(path: Path, argument: str = "the path") -> Any:
    """Read a JSON file or pipe that an option or setting names; raise ValueError if it cannot be read."""
    check_input(path, argument)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_JSON + 1)  # a pipe may have no end
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None  # it was opened
    if len(content) > LARGEST_JSON:
        raise ValueError(f"{path} is not readable as JSON: it is larger than {LARGEST_JSON} bytes")
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}") from None


def read_bytes(path: Path, argument: str) -> bytes:
    """Return the bytes of a user's file or pipe; refuse a pipe that gives more than `LARGEST_PIPE` bytes."""
    check_input(path, argument)
    with path.open("rb") as file:
        if path.is_file():
            return file.read()
        content = file.read(LARGEST_PIPE + 1)
    if len(content) > LARGEST_PIPE:
        most = f"{LARGEST_PIPE:,} bytes"
        raise ValueError(
            f"{argument} must name a file, got {path}, a pipe that gives more than {most}; "
            "save it as a file first"
        )
    return content


def check_input(path: Path, argument: str, *, again: bool = False) -> None:
    """Refuse a device, which may have no end; a path that does not exist is left to the reader.

    Args:
        path: the file or pipe.
        argument: the option or setting that names it, for messages.
        again: refuse a pipe too, because what it gives is needed more than once.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    found = f"{argument} must name a file, got {path}"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise ValueError(f"{found}, a device that may have no end; name an ordinary file")
    if again and stat.S_ISFIFO(mode):
        raise ValueError(f"{found}, a pipe, and its text is read more than once; save it as a file first")


def check_readable(path: Path) -> None:
    """Refuse what is not a readable file; safetensors would report it as missing."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None


def _named(error: OSError, path: Path) -> OSError:
    number, reason = error.errno, error.strerror or str(error)
    # a writer that is not Python's says it in words only, and names its own temporary file in them
    foreign = re.search(r"\(os error (\d+)\)", reason)
    if foreign is not None:
        number = int(foreign[1])
        reason = os.strerror(number)
    return OSError(number, f"{path} could not be written ({reason}); what was there before is intact")


def _remove(path: Path) -> None:
    with suppress(OSError):  # tidying up must not hide the error that made it necessary
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    # the new name must reach the disk too; some file systems cannot do that, and lose nothing by it
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


FORMAT = 3
"""The version of the file format; raised when an older reader could no longer read a file."""

HEADER = "algoformer"
"""The key of the safetensors metadata that holds the JSON header."""

Header = Mapping[str, Any]
Built = TypeVar("Built")


def write_tensors(path: Path, header: Header, tensors: Mapping[str, Tensor]) -> None:
    """Write a header and tensors with a checksum over both; an old file is replaced whole or not at all."""
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
    """Verify a file's checksum, and let `build` make something of its header and tensors, or refuse them."""
    from safetensors import SafetensorError, safe_open

    check_readable(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            digest, content = _metadata(file)
            tensors = {name: file.get_tensor(name) for name in map(str, file.keys())}
        if checksum(content, tensors) != digest:
            raise ValueError("its checksum does not match: the file was damaged on disk or on its way here")
        return build(read_object(content, "its header"), tensors)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a {what}, or is cut off: {str(error)[:200]}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a usable {what}: {error}") from None


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file without reading its tensors; nothing is verified."""
    from safetensors import SafetensorError, safe_open

    check_readable(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return read_object(_metadata(file)[1], "its header")
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
    outer = read_object(metadata[HEADER], "its header")
    digest, content = outer.get("sha256"), outer.get("content")
    if outer.get("format") != FORMAT or not isinstance(digest, str) or not isinstance(content, str):
        raise ValueError(f"it has format {str(outer.get('format'))[:40]!r}; this version reads {FORMAT}")
    return digest, content
