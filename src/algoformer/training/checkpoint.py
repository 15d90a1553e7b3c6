"""Files that rebuild a model or a whole run: tensors and JSON in safetensors, never pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from algoformer import tasks
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.cost import cost
from algoformer.model.program import from_data, to_data
from algoformer.tasks import Task
from algoformer.common.files import check_readable
from algoformer.training.stored_model import LARGEST_SIZE, check_size, stored_model, stored_state
from algoformer.training.tensor_file import read_tensors, write_tensors


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
    model = checkpoint.model
    header = {
        "program": to_data(model.program),
        "model": _sizes(model),
        "task": None if checkpoint.task is None else tasks.to_json(checkpoint.task),
        "card": dict(checkpoint.card),
    }
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"state.{name}": value for name, value in checkpoint.state.items()}
    write_tensors(Path(path), header, tensors, shard_mb)


def load_checkpoint(path: Path | str) -> Checkpoint:
    """Rebuild what `save_checkpoint` wrote; weights stored in half precision come back in single.

    Raises:
        ValueError: the file or one of its shards is missing, cut off, not one of this library's, or the
            weights do not fit the program. Nothing in a file is ever executed, nothing is built that the
            files do not hold, and nothing is read but `path` and the shards beside it.
    """
    check_readable(Path(path))
    return read_tensors(Path(path), _load, what="checkpoint")


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


def holds_text(path: Path | str) -> bool:
    """Whether a checkpoint is of a model of text, which `language.load_text_model` reads.

    Raises:
        ValueError: it is no checkpoint at all.
    """
    return read_tensors(Path(path), lambda header, shapes, tensor: "kind" in header, what="checkpoint")


def _load(
    header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], Any]
) -> Checkpoint:
    if "kind" in header:
        kind = str(header["kind"])[:40]
        raise ValueError(f"it holds a {kind}; classify or translate with it, or use language.load_text_model")
    program = from_data(header.get("program"))
    sizes, blanks, exact = _read_sizes(header.get("model"))
    model = stored_model(
        program,
        lambda: AlgoFormer(program, blanks=blanks, exact_context=exact, **sizes),
        parameters=lambda: cost(program, blanks=blanks, **sizes).parameters,  # type: ignore[arg-type]
        shapes=shapes,
        tensor=tensor,
        at_least=sizes["row_maps"],
    )
    task, card = header.get("task"), header.get("card", {})
    for name, value in {"task": {} if task is None else task, "card": card}.items():
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object, got {type(value).__name__}")
    return Checkpoint(
        model=model,
        task=None if task is None else tasks.from_json(task),
        card=card,
        state=stored_state(shapes, tensor),
    )


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
        check_size(name, size)
    if not all(0 <= count <= LARGEST_SIZE for count in blanks):
        raise ValueError(f"blanks must lie in 0..{LARGEST_SIZE}, got {str(blanks)[:40]}")
    return rest, (blanks[0], blanks[1]), exact
