"""Linear layers by oneDNN: faster fp32 products for inference on a CPU.

PyTorch computes fp32 products on x86 processors by MKL, which uses AVX-512 on Intel's processors only; oneDNN
uses it on AMD's too. Results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEWEST_ROWS = 4
"""With fewer rows, a product of a matrix and a vector for each of them is faster."""


@contextmanager
def onednn_linear(module: nn.Module, *, packed: bool = False) -> Iterator[None]:
    """Run the fp32 linear layers of a module on a CPU by oneDNN inside the `with` block.

    A call with autograd, forward-mode derivatives or `torch.func` transforms, for which oneDNN's operator has
    no rules, runs as before, and so does everything where PyTorch has no oneDNN.

    Args:
        module: the module; subclasses of `nn.Linear` inside it are left alone.
        packed: copy the weights into oneDNN's own layout first: faster for few rows, but a change of the
            weights inside the block is not seen.
    """
    patched: list[nn.Module] = []
    try:
        for layer in module.modules():
            if type(layer) is nn.Linear and "forward" not in vars(layer):
                product = onednn_product(layer.weight, layer.bias, packed=packed)
                if product is not None:
                    layer.forward = product  # type: ignore[method-assign, assignment]
                    patched.append(layer)
        yield
    finally:
        for layer in patched:
            del layer.forward


def onednn_product(
    weight: Tensor, bias: Tensor | None = None, *, packed: bool = False
) -> Callable[[Tensor], Tensor] | None:
    """Return `stream @ weight.T + bias` as a function of `stream`; None if oneDNN does not cover it."""
    plain = type(weight) in (Tensor, nn.Parameter) and weight.device.type == "cpu"
    if not plain or weight.dtype != torch.float32 or not has_onednn():
        return None
    operators: Any = torch.ops.mkldnn
    held = operators._reorder_linear_weight(weight.detach()) if packed else weight

    def product(stream: Tensor) -> Tensor:
        few = stream.numel() < FEWEST_ROWS * weight.shape[1]
        if few or stream.dtype != torch.float32 or _is_recorded():
            return F.linear(stream, weight, bias)
        return operators._linear_pointwise(stream, held, bias, "none", [], "")

    return product


def has_onednn() -> bool:
    """Return whether this PyTorch has oneDNN's linear operator."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _is_recorded() -> bool:
    """Return whether derivatives, transforms, autocast or a compiler would have to see the product."""
    forward_mode: Any = torch.autograd.forward_ad
    return (
        torch.is_grad_enabled()
        or forward_mode._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
    )
