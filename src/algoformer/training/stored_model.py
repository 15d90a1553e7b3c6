"""A model from a file that may claim anything: nothing is built that the file does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from algoformer.model.algoformer import modules_of
from algoformer.model.program import Program

LARGEST_SIZE = 10**9
"""No model is wider or reads longer prompts."""

WEIGHTS_OF_A_LAYER = 4
"""A layer has at least this many weights: queries, keys and values; output; up; down."""

Shapes = Mapping[str, tuple[int, ...]]
Model = TypeVar("Model", bound=nn.Module)


def stored_model(
    program: Program,
    build: Callable[[], Model],
    *,
    parameters: Callable[[], int | float],
    shapes: Shapes,
    tensor: Callable[[str], Any],
    at_least: int = 0,
) -> Model:
    """Build a model and give it the weights of a file, if these are exactly its own.

    Args:
        program: what the header says is run.
        build: makes the model; not called before the file is known to hold as much.
        parameters: how many numbers the header claims by formula.
        shapes: of all tensors in the file; weights are those under "model.".
        tensor: reads one of them.
        at_least: how many weights the header claims besides those of layers.

    Raises:
        ValueError: the weights do not fit the program, or are not finite numbers.
    """
    found = {
        name.removeprefix("model."): shape for name, shape in shapes.items() if name.startswith("model.")
    }
    # a header may claim any size: compare with what is in the file before anything is built
    modules = modules_of(program)
    layers = sum(module.count for module in modules)
    if max(WEIGHTS_OF_A_LAYER * layers, len(modules), at_least) > len(found):
        raise ValueError("its program has more layers than the file has weights")
    claimed, held = parameters(), sum(math.prod(shape) for shape in found.values())
    if claimed != held:
        raise ValueError(f"its program needs {claimed:.6g} parameters, the file holds {held}")
    with torch.random.fork_rng(devices=[]):
        model = build()
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in sorted(set(expected) ^ set(found)):
        raise ValueError(f"weight {name!r} is {'missing' if name in expected else 'not part of the program'}")
    for name, shape in expected.items():
        if shape != found[name]:
            raise ValueError(f"weight {name!r} has shape {found[name]}, its program needs {shape}")
    weights = _in_one_precision({name: tensor(f"model.{name}") for name in found})
    _refuse_not_finite(weights)
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(True)


def stored_state(shapes: Shapes, tensor: Callable[[str], Any]) -> dict[str, Tensor]:
    """The further tensors of a file, those under "state."."""
    return {name.removeprefix("state."): tensor(name) for name in shapes if name.startswith("state.")}


def check_size(name: str, size: object) -> None:
    """Refuse what cannot be a size of a model."""
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE:
        raise ValueError(f"{name} must be a whole number in 1..{LARGEST_SIZE}, got {str(size)[:40]}")


def in_half_precision(model: Model) -> Model:
    """The model with its weights rounded to half precision and in single again, as a file gives them back.

    Raises:
        ValueError: a weight is larger than half precision can hold.
    """
    for name, weights in model.named_parameters():
        largest = float(weights.detach().abs().max()) if weights.numel() else 0.0
        if largest > torch.finfo(torch.float16).max:
            raise ValueError(
                f"weight {name!r} holds {largest:.3g}, which half precision cannot; export with --no-half"
            )
    return model.half().float()


def _in_one_precision(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    kinds = {value.dtype for value in weights.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        names = ", ".join(sorted(str(kind) for kind in kinds))
        raise ValueError(f"weights must all be of one floating point type, got {names or 'none'}")
    if next(iter(kinds)).itemsize < torch.float32.itemsize:
        # half precision saves space in a file; products in it are neither exact nor quick on a CPU
        return {name: value.float() for name, value in weights.items()}
    return weights


def _refuse_not_finite(weights: Mapping[str, Tensor]) -> None:
    # such a model answers everything with nothing, and would not say why
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ValueError(
                f"weight {name!r} has numbers that are not finite, so nothing can be answered: training "
                "diverged, or the file is damaged; take an earlier checkpoint, or train at a lower rate"
            )
