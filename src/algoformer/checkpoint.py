"""Files that rebuild a model, what it learned from, and a whole run: safetensors and JSON, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from algoformer.common.files import read_tensors, write_tensors
from algoformer.common.meta import on_meta
from algoformer.common.plain_data import check_count
from algoformer.data.protocol import Data, data_from_header
from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import Program, modules_of, to_data
from algoformer.model.read_program import from_data

LATEST = "checkpoint.safetensors"
"""The newest checkpoint in the folder of a run; there is one from step 0 on."""

BEST = "best.safetensors"
"""The weights in the folder of a run that did best in validation so far."""

LARGEST_SIZE = 10**9
"""No model is wider or reads longer prompts."""

WEIGHTS_OF_A_LAYER = 4
"""A layer has at least this many weights: queries, keys and values; output; up; down."""


@dataclass(frozen=True)
class ModelKind:
    """A class of models and the options that its constructor takes besides the program, with their types."""

    build: type[nn.Module]
    options: Mapping[str, type]


_SIZES = dict.fromkeys(("vocabulary", "context", "width"), int)
_DROPOUTS = dict.fromkeys(("dropout", "attention_dropout", "word_dropout"), float)
MODELS: dict[str, ModelKind] = {
    "algoformer": ModelKind(
        AlgoFormer,
        dict.fromkeys(("dim", "out", "context", "width", "row_maps"), int)
        | {"blanks": tuple, "exact_context": bool},
    ),
    "token model": ModelKind(TokenModel, _SIZES | _DROPOUTS | {"tied": bool, "prefix_lm": bool}),
    "text classifier": ModelKind(TextClassifier, _SIZES | _DROPOUTS | {"labels": list}),
}
"""The models that a file can hold, by the word in its header."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model, what it learned from, and whatever else a run needs to continue.

    Attributes:
        model: the model, on the CPU after loading.
        data: what it learned from; None for a model that was built by hand.
        card: facts about it in plain JSON types (steps, scores, versions, provenance).
        state: further tensors by name (optimizer, raw weights beside their average).
    """

    model: Any
    data: Data | None = None
    card: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def task(self) -> Any:
        """The task of a model of prompts; None for other data."""
        return getattr(self.data, "task", None)

    @property
    def tokenizer(self) -> str:
        """The tokenizer of a model of text as JSON; empty for others."""
        found = getattr(self.data, "known_tokenizer", None)
        return "" if found is None else str(found.to_json())

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.model.parameters())
        data = "no data" if self.data is None else self.data.name
        kind, step = type(self.model).__name__, self.card.get("step")
        return f"Checkpoint({kind}, {count:,} parameters, {data}, step {step})"


def save_checkpoint(path: Path | str, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write the checkpoint; an existing file is replaced in one step or not at all.

    Args:
        path: where to write.
        checkpoint: what to write.
        half: store the weights in half precision (float16), in half the space.

    Raises:
        ValueError: the model could not be rebuilt from the file, or its data cannot be named.
        OSError: the file could not be written, say because the disk is full; the old one is intact.
    """
    refuse_unbuildable(checkpoint.model)
    write_checkpoint(path, checkpoint, half=half)


def write_checkpoint(path: Path | str, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write a checkpoint whose model is known to be one that can be rebuilt; see `save_checkpoint`."""
    model = checkpoint.model
    header = {
        "model": model_header(model),
        "data": None if checkpoint.data is None else checkpoint.data.header(),
        "card": dict(checkpoint.card),
    }
    weights = {name: value.half() if half else value for name, value in model.state_dict().items()}
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"state.{name}": value for name, value in checkpoint.state.items()}
    write_tensors(Path(path), header, tensors)


def load_checkpoint(path: Path | str) -> Checkpoint:
    """Rebuild what `save_checkpoint` wrote; weights stored in half precision come back in single.

    The model is in evaluation mode.

    Raises:
        ValueError: the file is missing, cut off, damaged, not one of this library's, or its weights do not
            fit its program or its data. Nothing in a file is ever executed, and nothing is built that the
            file does not hold.
    """
    return read_tensors(Path(path), _load, what="checkpoint")


def add_to_card(path: Path | str, facts: Mapping[str, Any]) -> None:
    """Add facts to the card of a checkpoint file; everything else in it stays as it is."""
    path = Path(path)
    load_checkpoint(path)  # refuses a damaged file before it is written again
    header, tensors = read_tensors(path, lambda *content: content, what="checkpoint")
    write_tensors(path, {**header, "card": {**header.get("card", {}), **facts}}, tensors)


def model_header(model: nn.Module) -> dict[str, Any]:
    """Return all that is needed to build a model like this one, of this library's, in plain JSON types."""
    kind = next((word for word, kind in MODELS.items() if type(model) is kind.build), None)
    if kind is None:
        names = ", ".join(one.build.__name__ for one in MODELS.values())
        raise ValueError(f"only {names} can be stored, got {type(model).__name__}")
    options = {name: _option(model, name) for name in MODELS[kind].options}
    return {"kind": kind, "program": to_data(model.program), "options": options}  # type: ignore[arg-type]


def refuse_unbuildable(model: nn.Module) -> None:
    """Refuse a model that its file could not give back: a module was swapped, a weight added."""
    model_header(model)  # refuses other models than this library's, all of which know the reason
    reason = cast(Any, model).rebuildable()
    if reason is not None:
        raise ValueError(f"the model could not be rebuilt from a checkpoint: {reason}")


def _load(header: dict[str, Any], tensors: dict[str, Tensor]) -> Checkpoint:
    weights, state = (
        {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix in ("model.", "state.")
    )
    model = _stored_model(header.get("model"), weights)
    stored, card = header.get("data"), header.get("card", {})
    if not isinstance(card, dict):
        raise ValueError(f"card must be an object, got {type(card).__name__}")
    data = None if stored is None else data_from_header(stored)
    if data is not None:
        data.check_model(model)
    return Checkpoint(model=model, data=data, card=card, state=state)


def _stored_model(header: object, weights: dict[str, Tensor]) -> nn.Module:
    """Build a model and give it weights, if these are exactly its own; check sizes before building."""
    kind, program, options = _read_model(header)
    # a header may claim any size: compare with what is in the file before anything is built
    modules = modules_of(program)
    layers = sum(module.count for module in modules)
    if max(WEIGHTS_OF_A_LAYER * layers, len(modules), options.get("row_maps", 0)) > len(weights):
        raise ValueError("its program has more layers than the file has weights")
    try:
        with on_meta():
            empty = kind.build(program, **options)
    except (RuntimeError, OverflowError) as error:  # sizes whose product no machine can count
        raise ValueError(f"its sizes are not those of a model: {str(error)[:120]}") from None
    _check_shapes(empty, weights)
    with torch.random.fork_rng(devices=[]):
        model = kind.build(program, **options)
    model.load_state_dict(_checked_values(weights), assign=True)
    return model.requires_grad_(True).eval()


def _check_shapes(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    expected = model.state_dict()
    for name in sorted(set(expected) ^ set(weights)):
        raise ValueError(f"weight {name!r} is {'missing' if name in expected else 'not part of the program'}")
    for name, value in expected.items():
        found, needed = tuple(weights[name].shape), tuple(value.shape)
        if found != needed:
            raise ValueError(f"weight {name!r} has shape {found}, its program needs {needed}")


def _option(model: nn.Module, name: str) -> Any:
    holder = model if hasattr(model, name) else model.trunk
    value = getattr(holder, name)
    return list(value) if isinstance(value, tuple) else value


def _read_model(header: object) -> tuple[ModelKind, Program, dict[str, Any]]:
    if not isinstance(header, Mapping) or header.get("kind") not in list(MODELS):
        word = header.get("kind") if isinstance(header, Mapping) else header
        raise ValueError(
            f"it holds a model of unknown kind {str(word)[:40]!r}; known are {', '.join(MODELS)}"
        )
    kind, stored = MODELS[str(header["kind"])], header.get("options")
    if not isinstance(stored, Mapping) or set(stored) != set(kind.options):
        raise ValueError(f"a model of this kind has exactly the options {', '.join(sorted(kind.options))}")
    options = {name: _read_option(name, stored[name], type_) for name, type_ in kind.options.items()}
    return kind, from_data(header.get("program")), options


def _read_option(name: str, value: Any, type_: type) -> Any:
    if type_ is tuple:
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError(f"{name} must be two whole numbers, got {str(value)[:40]}")
        for one in value:
            check_count(name, one, 0, LARGEST_SIZE)
        return tuple(value)
    if type_ is list:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name} must be a list of names, got {str(value)[:40]}")
        return value
    if type_ is float:
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise ValueError(f"{name} must be a number in [0, 1), got {str(value)[:40]}")
        return float(value)
    if type_ is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {str(value)[:40]}")
        return value
    check_count(name, value, most=LARGEST_SIZE)
    return value


def _checked_values(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    kinds = {value.dtype for value in weights.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        names = ", ".join(sorted(str(kind) for kind in kinds))
        raise ValueError(f"weights must all be of one floating point type, got {names or 'none'}")
    for name, value in weights.items():
        # such a model answers everything with nothing, and would not say why
        if not bool(value.isfinite().all()):
            raise ValueError(
                f"weight {name!r} has numbers that are not finite: training diverged, or the file was "
                "damaged; use an earlier checkpoint, or train with a lower learning rate"
            )
    if next(iter(kinds)).itemsize < torch.float32.itemsize:
        # half precision saves space in a file; products in it are neither exact nor quick on a CPU
        return {name: value.float() for name, value in weights.items()}
    return weights
