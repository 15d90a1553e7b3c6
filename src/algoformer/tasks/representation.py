"""Regression on a fixed nonlinear representation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from algoformer.tasks.representation_map import RepresentationMap
from algoformer.tasks.task import PairTask


@dataclass(frozen=True, kw_only=True)
class RegressionWithRepresentation(PairTask):
    """y = <A, Φ*(x)> + noise; x and A standard normal, A drawn afresh for each prompt, Φ* once for all.

    Φ* is `layers` rotations of `dim` coordinates, each followed by a leaky ReLU, and E‖Φ*(x)‖² = dim: the
    scale of plain linear regression. `phi_seed` chooses it; how well conditioned it is varies much with
    the seed, so report it.

    Attributes:
        layers: the number of layers of Φ*.
        slope: the slope of the leaky ReLU in Φ* below zero.
        phi_seed: the seed of Φ*.
    """

    layers: int = 3
    slope: float = 0.01
    phi_seed: int = 0

    takes_dims: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.phi  # checks its constants

    @property
    def phi(self) -> RepresentationMap:
        """The representation Φ* that all prompts share."""
        return RepresentationMap(
            in_dim=self.dim,
            out_dim=self.dim,
            mean_square=float(self.dim),
            layers=self.layers,
            slope=self.slope,
            seed=self.phi_seed,
        )

    def features(self, xs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Return Φ*(x)."""
        return self.phi(xs)
