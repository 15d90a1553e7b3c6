"""Files that rebuild a model or a whole run: tensors and JSON in safetensors, never pickle."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer import tasks
from algoformer.model.algoformer import AlgoFormer, modules_of
from algoformer.model.cost import cost
from algoformer.model.program import from_data, to_data
from algoformer.tasks import Task
from algoformer.training.files import write_atomically
from algoformer.training.shard_index import Index, shard_limit
from algoformer.training.shards import MARK, ShardMissing, read_shards, remove_strays, write_shards

FORMAT = 1
"""Raised when a reader of this version could no longer read a file."""

SHARDED = 2
"""The format of a file that holds the header only, and names the shards with the tensors."""

HEADER = "algoformer"
"""Under this key of the safetensors metadata stands the JSON."""

LARGEST_SIZE = 10**9
"""No model is wider or reads longer prompts."""

WEIGHTS_OF_A_LAYER = 4
"""A layer has at least this many weights: queries, keys and values; output; up; down."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model, what it was trained on, and whatever else a run needs to go on.

    Attributes:
        model: the model, on the CPU.
        task: what it was trained on; None for a model that was built by hand.
        card: facts about it in plain JSON types (steps, errors, versions, provenance).
        state: further tensors by name (optimizer, random generators).
    """

    model: AlgoFormer
    task: Task | None = None
    card: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


def save_checkpoint(path: Path | str, checkpoint: Checkpoint, shard_mb: int | float | None = None) -> None:
    """Write the checkpoint; an existing one is replaced in one step or not at all, in whichever form it is.

    Args:
        path: where to write.
        checkpoint: what to write.
        shard_mb: no file may have more MB (10⁶ bytes) than this. The file at `path` then only names the
            shards, which stand beside it and must go where it goes. None and inf write one file.

    Raises:
        ValueError: `shard_mb` is too small.
        OSError: a file could not be written, say because the disk is full; the old checkpoint is intact.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path, model, limit = Path(path), checkpoint.model, shard_limit(shard_mb)
    header = {
        "format": FORMAT,
        "program": to_data(model.program),
        "model": _sizes(model),
        "task": None if checkpoint.task is None else tasks.to_json(checkpoint.task),
        "card": dict(checkpoint.card),
    }
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"state.{name}": value for name, value in checkpoint.state.items()}
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(on_cpu, temporary, metadata={HEADER: json.dumps(header)})
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error
        if limit is not None and temporary.stat().st_size > limit:
            raise ValueError(f"shard_mb={shard_mb} is too small even for the list of shards; choose more")

    try:
        if shard_mb is not None and limit is not None:
            header |= {"format": SHARDED, "shards": write_shards(path, on_cpu, shard_mb).to_data()}
            on_cpu = {}
        # until this one step the old checkpoint is in force, from then on the new one
        write_atomically(path, write)
    finally:
        remove_stray_shards(path)


def load_checkpoint(path: Path | str) -> Checkpoint:
    """Rebuild what `save_checkpoint` wrote; weights stored in half precision come back in single.

    Raises:
        ValueError: the file or one of its shards is missing, cut off, not one of this library's, or the
            weights do not fit the program. Nothing in a file is ever executed, nothing is built that the
            files do not hold, and nothing is read but `path` and the shards beside it.
    """
    from safetensors import SafetensorError

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    try:
        return _read(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a checkpoint, or is cut off: {error}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a usable checkpoint: {error}") from None


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


def _sizes(model: AlgoFormer) -> dict[str, Any]:
    return {
        "dim": model.dim,
        "out": model.out,
        "context": model.context,
        "width": model.width,
        "row_maps": model.row_maps,
        "blanks": list(model.blanks),
        "exact_context": model.exact_context,
    }


def _read(path: Path) -> Checkpoint:
    from safetensors import safe_open

    before: Index | None = None
    while True:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = _header(file)
            index = _index(header)
            if index is None:
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in map(str, file.keys())}
                return _load(header, shapes, file.get_tensor)
        try:
            tensors = read_shards(path, index)
        except ShardMissing:
            if index == before:
                raise
            before = index  # a run that writes its next checkpoint removes this one: look again
        else:
            return _load(header, {name: tuple(value.shape) for name, value in tensors.items()}, tensors.get)


def _load(
    header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], Any]
) -> Checkpoint:
    weights = [name.removeprefix("model.") for name in shapes if name.startswith("model.")]
    model = _build(header, {name: shapes[f"model.{name}"] for name in weights})
    model.load_state_dict(_one_kind({name: tensor(f"model.{name}") for name in weights}), assign=True)
    task, card = header.get("task"), header.get("card", {})
    for name, value in {"task": {} if task is None else task, "card": card}.items():
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object, got {type(value).__name__}")
    return Checkpoint(
        model=model.requires_grad_(True),
        task=None if task is None else tasks.from_json(task),
        card=card,
        state={name.removeprefix("state."): tensor(name) for name in shapes if name.startswith("state.")},
    )


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


def _index(header: Mapping[str, Any]) -> Index | None:
    return None if header["format"] == FORMAT else Index.from_data(header.get("shards"))


def _build(header: Mapping[str, Any], found: Mapping[str, tuple[int, ...]]) -> AlgoFormer:
    """The model with fresh weights, if the file has exactly the names and shapes of its weights."""
    if "kind" in header:
        raise ValueError(f"it holds a {str(header['kind'])[:40]}; read it with language.load_text_model")
    program = from_data(header.get("program"))
    sizes, blanks, exact = _read_sizes(header.get("model"))
    # a header may claim any size: compare with what is in the file before anything is built
    layers = sum(module.count for module in modules_of(program))
    if max(WEIGHTS_OF_A_LAYER * layers, len(modules_of(program)), sizes["row_maps"]) > len(found):
        raise ValueError("its program has more layers than the file has weights")
    claimed = cost(program, blanks=blanks, **sizes).parameters  # type: ignore[arg-type]
    held = sum(math.prod(shape) for shape in found.values())
    if claimed != held:
        raise ValueError(f"its program needs {claimed:.6g} parameters, the file holds {held}")
    with torch.random.fork_rng(devices=[]):
        model = AlgoFormer(program, blanks=blanks, exact_context=exact, **sizes)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in sorted(set(expected) ^ set(found)):
        raise ValueError(f"weight {name!r} is {'missing' if name in expected else 'not part of the program'}")
    for name, shape in expected.items():
        if shape != found[name]:
            raise ValueError(f"weight {name!r} has shape {found[name]}, its program needs {shape}")
    return model


def _read_sizes(sizes: object) -> tuple[dict[str, int], tuple[int, int], bool]:
    wanted = {"dim", "out", "context", "width", "row_maps", "blanks", "exact_context"}
    if not isinstance(sizes, dict) or set(sizes) != wanted:
        raise ValueError(f"model must have exactly the sizes {', '.join(sorted(wanted))}")
    rest = dict(sizes)
    blanks, exact = rest.pop("blanks"), rest.pop("exact_context")
    if not isinstance(exact, bool):
        raise ValueError(f"exact_context must be true or false, got {str(exact)[:40]}")
    if not (isinstance(blanks, list) and len(blanks) == 2 and all(type(count) is int for count in blanks)):
        raise ValueError(f"blanks must be two whole numbers, got {str(blanks)[:40]}")
    for name, size in rest.items():
        if type(size) is not int or not 1 <= size <= LARGEST_SIZE:
            raise ValueError(f"{name} must be a whole number in 1..{LARGEST_SIZE}, got {str(size)[:40]}")
    if not all(0 <= count <= LARGEST_SIZE for count in blanks):
        raise ValueError(f"blanks must lie in 0..{LARGEST_SIZE}, got {str(blanks)[:40]}")
    return rest, (blanks[0], blanks[1]), exact


def _one_kind(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    kinds = {value.dtype for value in weights.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        names = ", ".join(sorted(str(kind) for kind in kinds))
        raise ValueError(f"weights must all be of one floating point type, got {names or 'none'}")
    if next(iter(kinds)).itemsize < torch.float32.itemsize:
        # half precision saves space in a file; products in it are neither exact nor quick on a CPU
        return {name: value.float() for name, value in weights.items()}
    return weights
