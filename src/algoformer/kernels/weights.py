"""A body's weights in the form of its products, and their gradients in the form of the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

PARAMETERS = (
    "attention_norm.weight",
    "attention_norm.bias",
    "attention.qkv.weight",
    "attention.qkv.bias",
    "attention.output.weight",
    "attention.output.bias",
    "feedforward_norm.weight",
    "feedforward_norm.bias",
    "feedforward.up.weight",
    "feedforward.up.bias",
    "feedforward.down.weight",
    "feedforward.down.bias",
)
"""The parameters of one layer, in the order in which `iterate` takes them."""


class Weights:
    """The weights of all layers in the form of their products: norms folded in, rounded once, stacked."""

    def __init__(self, parameters: tuple[Tensor, ...], dtype: torch.dtype) -> None:
        size = len(PARAMETERS)
        columns = [stack(parameters[number::size]) for number in range(size)]
        self.gain, self.shift, self.raw_qkv, qkv_bias, output, output_bias = columns[:6]
        self.gain2, self.shift2, self.raw_up, up_bias, down, down_bias = columns[6:]
        self.count = len(self.gain)
        self.qkv, self.qkv_bias = fold(self.raw_qkv, qkv_bias, self.gain, self.shift, dtype)
        self.up, self.up_bias = fold(self.raw_up, up_bias, self.gain2, self.shift2, dtype)
        self.output, self.output_bias = output.to(dtype), output_bias.to(dtype)
        self.down, self.down_bias = down.to(dtype), down_bias.to(dtype)


def stack(tensors: tuple[Tensor, ...]) -> Tensor:
    """Stack the tensors; a single one is not copied."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)


def fold(raw: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Fold a norm's affine part into the weight and bias of the product after it, in every layer."""
    weight = torch.mul(raw, gain[:, None], out=torch.empty_like(raw, dtype=dtype))
    return weight, torch.baddbmm(bias[..., None], raw, shift[..., None])[..., 0].to(dtype)


def unfold(
    grad: Tensor, bias_grad: Tensor, raw: Tensor, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the norm's weight and bias and of the raw weight from a folded product's."""
    return (
        (grad * raw).sum(1),
        torch.bmm(bias_grad[:, None], raw)[:, 0],
        torch.addcmul(grad * gain[:, None], bias_grad[..., None], shift[:, None]),
    )
