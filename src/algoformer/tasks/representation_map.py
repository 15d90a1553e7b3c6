"""The fixed representation Φ*: one random network, the same for every prompt of a task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import leaky_relu

from algoformer.common.plain_data import check_count
from algoformer.tasks.task import MAX_LAYERS, MAX_SEED, check_positive, check_slope

_SCALE_ROUNDS = 4
_SCALE_DIRECTIONS = 2**17
_SCALE_SEED = 20_240_221


@dataclass(frozen=True, kw_only=True)
class RepresentationMap:
    """Apply `layers` fixed random rotations, each followed by a leaky ReLU; then one scalar.

    Weights are orthogonal (semi-orthogonal where the width changes), there is no bias, and the scalar
    makes E‖Φ*(x)‖² = `mean_square` for standard normal x. The seed fixes the weights on any device.

    >>> phi = RepresentationMap(in_dim=20, out_dim=20, mean_square=20.0)
    >>> features = phi(torch.randn(4096, 20, generator=torch.Generator().manual_seed(0)))
    >>> bool((features.square().sum(dim=-1).mean() - 20).abs() < 0.5)
    True
    """

    in_dim: int
    out_dim: int
    mean_square: float
    layers: int = 3
    slope: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("in_dim", self.in_dim)
        check_count("out_dim", self.out_dim)
        check_count("layers", self.layers, most=MAX_LAYERS)
        check_count("seed of the representation", self.seed, least=0, most=MAX_SEED)
        check_positive("mean_square", self.mean_square)
        check_slope(self.slope)

    def __call__(self, inputs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch feature"]:
        """Φ* of every vector, on the vectors' device and in their precision."""
        weights, scalar = _weights(self, inputs.device, inputs.dtype)
        return scalar * _unscaled(inputs, weights, self.slope)

    def weights(self) -> tuple[Float[Tensor, "row column"], ...]:
        """Return the layers' matrices in float64, the scalar multiplied into the last; inputs are rows."""
        weights, scalar = _master_weights(self)
        return *weights[:-1], scalar * weights[-1]


def _unscaled(inputs: Tensor, weights: tuple[Tensor, ...], slope: float) -> Tensor:
    for weight in weights:
        inputs = leaky_relu(inputs @ weight, negative_slope=slope)
    return inputs


@lru_cache(maxsize=64)
def _weights(
    spec: RepresentationMap, device: torch.device, dtype: torch.dtype
) -> tuple[tuple[Tensor, ...], float]:
    """Return the weights on a device, cached so that a captured step copies nothing from the host."""
    # a first call inside inference mode must not leave inference tensors for training to trip over
    with torch.inference_mode(False), torch.no_grad():
        weights, scalar = _master_weights(spec)
        return tuple(weight.to(device=device, dtype=dtype) for weight in weights), scalar


@lru_cache(maxsize=64)
def _master_weights(spec: RepresentationMap) -> tuple[tuple[Tensor, ...], float]:
    generator = torch.Generator().manual_seed(spec.seed)
    widths = [spec.in_dim] + [spec.out_dim] * spec.layers
    weights = tuple(_orthogonal(rows, columns, generator) for rows, columns in pairwise(widths))
    return weights, (spec.mean_square / _mean_square(weights, spec)) ** 0.5


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Float[Tensor, "row column"]:
    """Return a random (semi-)orthogonal matrix; fixing the signs of R makes it unique, and uniform."""
    tall, thin = max(rows, columns), min(rows, columns)
    gaussian = torch.randn(tall, thin, generator=generator, dtype=torch.float64)
    basis, triangle = torch.linalg.qr(gaussian)
    basis = basis * triangle.diagonal().sign()
    return basis if rows >= columns else basis.T.contiguous()


def _mean_square(weights: tuple[Tensor, ...], spec: RepresentationMap) -> float:
    """E‖Φ(x)‖² before scaling, from a fixed set of directions and their opposites: right to 0.1 %.

    Φ is positively homogeneous, so E‖Φ(x)‖² = E‖x‖² E‖Φ(u)‖² with u = x/‖x‖. Drawing u takes the spread of
    ‖x‖ out of the estimate, and pairing u with -u takes out most of the rest. A first layer that does not
    widen turns standard normal numbers into standard normal numbers, so the draw starts behind it.
    """
    dim = min(spec.in_dim, spec.out_dim)
    if spec.in_dim >= spec.out_dim:
        weights = (torch.eye(dim, dtype=torch.float64), *weights[1:])
    generator = torch.Generator().manual_seed(_SCALE_SEED)
    total = 0.0
    for _ in range(_SCALE_ROUNDS):
        gaussian = torch.randn(_SCALE_DIRECTIONS, dim, generator=generator).double()
        directions = gaussian / gaussian.norm(dim=-1, keepdim=True)
        for signed in (directions, -directions):
            total += float(_unscaled(signed, weights, spec.slope).square().sum(dim=-1).mean())
    return dim * total / (2 * _SCALE_ROUNDS)
