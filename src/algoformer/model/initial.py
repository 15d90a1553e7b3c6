"""Initial weights that depend on a whole program."""

from __future__ import annotations

import math

import torch

from algoformer.model.address import layer_addresses
from algoformer.model.parts import LayersModule, ProgramModule


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
