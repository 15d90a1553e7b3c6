"""Modules without memory, to look at their shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
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
