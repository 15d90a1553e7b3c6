"""Modules without memory, to look at their shapes and to compare them with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@contextmanager
def on_meta() -> Iterator[None]:
    """Put new tensors on the meta device, and do not draw initial values for them.

    A draw on the meta device would import PyTorch's compiler, which takes longer than everything else that
    loading a model does.

    >>> with on_meta():
    ...     torch.nn.Embedding(1000, 64).weight.device
    device(type='meta')
    """
    with _WithoutDraws(), torch.device("meta"):
        yield


class _WithoutDraws(TorchFunctionMode):
    """Leaves out the functions of `torch.nn.init` and normal draws."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func is torch.Tensor.normal_:
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def why_not_rebuilt(model: nn.Module, built: nn.Module) -> str | None:
    """Return how a model differs from `built`, what its program builds; None if it does not.

    Modules must have the classes that the program builds, and parameters and buffers their names and shapes.
    A subclass that keeps the forward function counts as the same class. Functions and numbers that a module
    holds, such as the activation of a feed-forward network or the factor of attention scores, must be the
    same, and only the engines of this library may replace a method of a module. Hooks are not looked at: they
    are not part of a checkpoint either way. Rates of dropout may differ: a loaded model answers the same.
    """
    modules = dict(built.named_modules(remove_duplicate=False))
    for name, module in model.named_modules(remove_duplicate=False):
        expected = modules.get(name)
        if expected is None:
            return f"{name} is a module that the program does not build"
        kind = type(expected)
        if not isinstance(module, kind) or type(module).forward is not kind.forward:
            found = type(module).__name__
            return f"{name or 'the model'} is a {found}, where the program builds a {kind.__name__}"
        for attribute, function in vars(expected).items():
            if callable(function) and not _is_same(getattr(module, attribute, None), function):
                return f"{name}.{attribute} is another function than the program builds"
    shapes = {name: tuple(tensor.shape) for name, tensor in built.state_dict().items()}
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in sorted({*shapes, *own}):
        if shapes.get(name) != own.get(name):
            return f"{name} has shape {own.get(name)}, where the program builds {shapes.get(name)}"
    return _changed_attribute(model, modules)


def _changed_attribute(model: nn.Module, modules: dict[str, nn.Module]) -> str | None:
    for name, module in model.named_modules(remove_duplicate=False):
        for attribute, value in vars(module).items():
            place = f"{name}.{attribute}".removeprefix(".")
            if callable(value) and callable(getattr(type(modules[name]), attribute, None)):
                origin = getattr(getattr(value, "func", value), "__module__", None)
                if not str(origin).startswith("algoformer."):  # engines replace methods while they train
                    return f"{place} is a method that was replaced"
            built = vars(modules[name]).get(attribute, value)
            if type(value) in (int, float) and value != built and not attribute.endswith("dropout"):
                return f"{place} is {value}, where the program builds {built}"
    return None


def _is_same(found: object, expected: object) -> bool:
    if isinstance(found, partial) and isinstance(expected, partial):  # a copy of a model has its own
        return (found.func, found.args, found.keywords) == (expected.func, expected.args, expected.keywords)
    return found is expected
