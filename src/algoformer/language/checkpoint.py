"""One file that rebuilds a model of text with its tokenizer: a checkpoint like others, of another kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.language.trunk import ends_with_norm
from algoformer.model.cost import parameters
from algoformer.model.program import Program, from_data, to_data
from algoformer.training.files import check_readable
from algoformer.training.stored_model import check_size, stored_model, stored_state
from algoformer.training.tensor_file import read_tensors, write_tensors

KINDS = {"token model": TokenModel, "text classifier": TextClassifier}
"""What a file of this room can hold, by the word in its header."""

SIZES = ("vocabulary", "context", "width")
RATES = ("dropout", "attention_dropout", "word_dropout")
OWN: dict[str, dict[str, type]] = {
    "token model": {"tied": bool, "prefix_lm": bool},
    "text classifier": {"labels": list},
}
"""What each kind of model is built with besides sizes and rates."""


@dataclass(frozen=True, kw_only=True)
class TextCheckpoint:
    """A model of text and what is needed to use it, or to train it further.

    Attributes:
        model: the model, on the CPU.
        tokenizer: the tokenizer as text (JSON); empty if there is none.
        card: facts about it in plain JSON types (sources, scores, versions, provenance).
        state: further tensors by name (optimizer, averaged weights).
    """

    model: TokenModel | TextClassifier
    tokenizer: str = ""
    card: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


def save_text_model(
    path: Path | str,
    checkpoint: TextCheckpoint,
    shard_mb: int | float | None = None,
    *,
    half: bool = False,
) -> None:
    """Write the checkpoint; an existing file is replaced in one step or not at all.

    Args:
        path: where to write.
        checkpoint: what to write.
        shard_mb: no file may have more MB (10⁶ bytes) than this, as for `save_checkpoint`.
        half: whether to store the weights in half precision (float16), in half the space.

    Raises:
        OSError: the file could not be written, say because the disk is full; the old one is intact.
    """
    model = checkpoint.model
    kind = next(word for word, kind in KINDS.items() if isinstance(model, kind))
    sizes: dict[str, Any] = {name: getattr(model.trunk, name) for name in (*SIZES, *RATES)}
    own = {name: getattr(model, name) for name in OWN[kind]}
    header = {
        "kind": kind,
        "program": to_data(model.program),
        "model": sizes | own,
        "tokenizer": checkpoint.tokenizer,
        "card": dict(checkpoint.card),
    }
    weights = {name: value.half() if half else value for name, value in model.state_dict().items()}
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"state.{name}": value for name, value in checkpoint.state.items()}
    write_tensors(Path(path), header, tensors, shard_mb)


def load_text_model(path: Path | str) -> TextCheckpoint:
    """Rebuild what `save_text_model` wrote, in evaluation mode; half precision comes back in single.

    Raises:
        ValueError: the file is missing, cut off, not a model of text of this library, or its weights do not
            fit its program. Nothing in it is ever executed, and nothing is built that the file does not hold.
    """
    check_readable(Path(path))
    return read_tensors(Path(path), _load, what="model of text")


def _load(
    header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], Any]
) -> TextCheckpoint:
    if header.get("kind") not in list(KINDS):
        raise ValueError("it is a checkpoint, but not of a model of text; read it with training.checkpoint")
    kind, program = str(header["kind"]), from_data(header.get("program"))
    options = _read_options(header.get("model"), kind)
    model: TokenModel | TextClassifier = stored_model(
        program,
        lambda: KINDS[kind](program, **options),
        parameters=lambda: _parameters(program, options),
        shapes=shapes,
        tensor=tensor,
    )
    tokenizer, card = header.get("tokenizer", ""), header.get("card", {})
    if not isinstance(tokenizer, str) or not isinstance(card, dict):
        raise ValueError("its tokenizer must be text and its card an object")
    return TextCheckpoint(
        model=model.eval(),
        tokenizer=tokenizer,
        card=card,
        state=stored_state(shapes, tensor),
    )


def _parameters(program: Program, options: Mapping[str, Any]) -> int:
    vocabulary, width = options["vocabulary"], options["width"]
    inside = sum(parameters(part, width=width, context=options["context"]) for part in program)
    total = vocabulary * width + inside + 2 * width * (not ends_with_norm(program))
    if "labels" in options:
        return int(total + (width + 1) * len(options["labels"]))
    return int(total + vocabulary * width * (not options["tied"]))


def _read_options(options: object, kind: str) -> dict[str, Any]:
    wanted = {*SIZES, *RATES, *OWN[kind]}
    if not isinstance(options, dict) or set(options) != wanted:
        raise ValueError(f"model must have exactly the entries {', '.join(sorted(wanted))}")
    for name in SIZES:
        check_size(name, options[name])
    for name in RATES:
        if type(options[name]) not in (int, float):
            raise ValueError(f"{name} must be a number, got {str(options[name])[:40]}")
    for name, type_ in OWN[kind].items():
        if type(options[name]) is not type_:
            raise ValueError(f"{name} has the wrong type, {type(options[name]).__name__}")
    if not all(isinstance(label, str) for label in options.get("labels", ())):
        raise ValueError("labels must be names")
    return options
