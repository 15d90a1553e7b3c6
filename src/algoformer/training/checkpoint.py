"""One file that rebuilds a model or a whole run: tensors and JSON in safetensors, never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer import tasks
from algoformer.model.algoformer import AlgoFormer, modules_of
from algoformer.model.program import from_data, to_data
from algoformer.tasks import Task
from algoformer.training.files import write_atomically

FORMAT = 1
"""Raised when a reader of this version could no longer read a file."""

HEADER = "algoformer"
"""Under this key of the safetensors metadata stands the JSON."""


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


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint; an existing file is replaced in one step or not at all."""
    from safetensors.torch import save_file

    model = checkpoint.model
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
    metadata = {HEADER: json.dumps(header)}
    write_atomically(path, lambda temporary: save_file(on_cpu, temporary, metadata=metadata))


def load_checkpoint(path: Path) -> Checkpoint:
    """Rebuild what `save_checkpoint` wrote.

    Raises:
        ValueError: the file is missing, cut off, not a checkpoint of this library, or its weights do not
            fit its program. Nothing in it is ever executed.
    """
    header, tensors = _read(path)
    try:
        model = _build(header, {name: value for name, value in tensors.items() if name.startswith("model.")})
        stored = header.get("task")
        task = None if stored is None else tasks.from_json(stored)
        card = header.get("card", {})
        if not isinstance(card, dict):
            raise ValueError(f"card must be an object, got {type(card).__name__}")
    except ValueError as error:
        raise ValueError(f"{path} is not a usable checkpoint: {error}") from None
    state = {
        name.removeprefix("state."): value for name, value in tensors.items() if name.startswith("state.")
    }
    return Checkpoint(model=model, task=task, card=card, state=state)


def _sizes(model: AlgoFormer) -> dict[str, Any]:
    return {
        "dim": model.dim,
        "out": model.out,
        "context": model.context,
        "width": model.width,
        "row_maps": model.row_maps,
        "blanks": list(model.blanks),
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            if HEADER not in metadata:
                raise ValueError(f"{path} is a safetensors file, but not one of algoformer's")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a checkpoint, or is cut off: {error}") from None
    try:
        header = json.loads(metadata[HEADER])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} has a damaged header: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else header
        raise ValueError(f"{path} has format {found!r}; this version reads format {FORMAT}")
    return header, tensors


def _build(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> AlgoFormer:
    program = from_data(header.get("program"))
    sizes = header.get("model")
    wanted = {"dim", "out", "context", "width", "row_maps", "blanks"}
    if not isinstance(sizes, dict) or set(sizes) != wanted:
        raise ValueError(f"model must have exactly the sizes {', '.join(sorted(wanted))}")
    blanks = sizes.pop("blanks")
    if not (isinstance(blanks, list) and len(blanks) == 2 and all(type(count) is int for count in blanks)):
        raise ValueError(f"blanks must be two whole numbers, got {blanks!r}")
    for name, size in sizes.items():
        if type(size) is not int:
            raise ValueError(f"{name} must be a whole number, got {size!r}")
    # a header may claim any size: compare with the weights that are there before anything is built
    if sum(layers.count + 1 for layers in modules_of(program)) > len(tensors) or sizes["row_maps"] > len(
        tensors
    ):
        raise ValueError("the program has more layers than the file has weights")
    with torch.device("meta"):
        model = AlgoFormer(program, blanks=(blanks[0], blanks[1]), **sizes)
    weights = {name.removeprefix("model."): value for name, value in tensors.items()}
    expected = {name: value.shape for name, value in model.state_dict().items()}
    found = {name: value.shape for name, value in weights.items()}
    for name in sorted(set(expected) ^ set(found)):
        raise ValueError(f"weight {name!r} is {'missing' if name in expected else 'not part of the program'}")
    for name, shape in expected.items():
        if shape != found[name]:
            raise ValueError(
                f"weight {name!r} has shape {tuple(found[name])}, the program needs {tuple(shape)}"
            )
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(True)
