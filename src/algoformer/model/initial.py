"""Initial weights that depend on a whole program."""

from __future__ import annotations

import math

import torch
from torch import nn

from algoformer.model.address import layer_addresses
from algoformer.model.parts import LayersModule, ProgramModule
from algoformer.nn import Layer


@torch.no_grad()
def scale_by_unrolled_depth(body: ProgramModule) -> None:
    """Scale the output projections of all layers by the number of layer calls of the unrolled program.

    A fresh layer has output projections of standard deviation 0.02/√(2n), where n counts the layers of its
    module. Afterwards n is the number of layer calls from the program's input to its output, every iteration
    of a loop included, so that the variance of the residual stream does not grow with the loop.
    """
    calls = sum(1 for _ in layer_addresses(body.program))
    for module in body.modules():
        if isinstance(module, LayersModule) and len(module.layers):
            factor = math.sqrt(len(module.layers) / calls)
            for layer in module.layers:
                layer.attention.output.weight.mul_(factor)
                layer.feedforward.down.weight.mul_(factor)


@torch.no_grad()
def draw_by_fan_in(body: ProgramModule, seed: int) -> None:
    """Draw the weights of all layers anew, uniform within ±1/√n for n inputs; biases stay as they are.

    A fresh layer has weights of standard deviation 0.02 at any width. In a stream of width 32 that is a fifth
    of what `torch.nn.Linear` draws, and its layers add next to nothing at first.
    """
    generator = torch.Generator().manual_seed(2**32 + seed)  # no seed that draws anything else
    for layer in (module for module in body.modules() if isinstance(module, Layer)):
        for module in (part for part in layer.modules() if isinstance(part, nn.Linear)):
            bound = 1 / math.sqrt(module.in_features)
            module.weight.uniform_(-bound, bound, generator=generator)
