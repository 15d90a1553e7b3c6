"""Run a written layer on a stream, as the ordinary layer it is loaded into."""

import torch
from torch import Tensor

from algoformer.model.presets import equation_one
from algoformer.nn import Layer
from algoformer.theory.writer import LayerWriter, layer_sizes


def layer_of(writer: LayerWriter, *, causal: bool = False) -> Layer:
    layers = equation_one(1, causal=causal, bias=False, **layer_sizes([writer]))
    layer = Layer(layers.sizes(writer.space.width)).double()
    writer.load(layer)
    return layer


@torch.no_grad()
def run(writer: LayerWriter, stream: Tensor, *, causal: bool = False) -> Tensor:
    return layer_of(writer, causal=causal)(stream)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
