"""Regression on a fixed nonlinear representation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks.checks import (
    MAX_DIM,
    MAX_LAYERS,
    MAX_SEED,
    check_count,
    check_slope,
    check_spread,
)
from algoformer.tasks.draw import normal, refuse_dims
from algoformer.tasks.pair_task import PairTask
from algoformer.tasks.representation_map import RepresentationMap


@dataclass(frozen=True, kw_only=True)
class RegressionWithRepresentation(PairTask):
    """y = <A, Φ*(x)> + noise; x and A standard normal, A drawn afresh for each prompt, Φ* once for all.

    Φ* is `layers` rotations of `dim` coordinates, each followed by a leaky ReLU, and E‖Φ*(x)‖² = dim: the
    scale of plain linear regression. `phi_seed` chooses it; how well conditioned it is varies much with
    the seed, so report it.
    """

    layers: int = 3
    slope: float = 0.01
    phi_seed: int = 0

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)
        check_spread("noise", self.noise)
        check_count("layers", self.layers, most=MAX_LAYERS)
        check_slope(self.slope)
        check_count("phi_seed", self.phi_seed, least=0, most=MAX_SEED)

    @property
    def takes_dims(self) -> bool:
        """Φ* mixes all coordinates: switching some off gives another task, not an easier one."""
        return False

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

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        refuse_dims(active_dims)
        xs = normal(batch, self.points, self.dim, generator=generator, dtype=dtype)
        weights = normal(batch, self.dim, 1, generator=generator, dtype=dtype)
        clean = self.phi(xs) @ weights
        noise = self.noise * normal(batch, self.points, 1, generator=generator, dtype=dtype)
        return Prompt.of_pairs(xs, clean + noise, clean=clean)

    def problems(self, prompt: Prompt) -> Problems:
        """Return the pairs (Φ*(x), y): linear regression given Φ*."""
        raw = pairs(prompt)
        return replace(raw, features=self.phi(raw.features))

    def affine_problems(self, prompt: Prompt) -> Problems:
        """Return the pairs (best affine approximation of Φ*(x), y): all that a model linear in x can know.

        Ridge on these with strength noise² + `phi.affine().misfit` is what a model that has not learned
        Φ* can reach at best.
        """
        raw = pairs(prompt)
        return replace(raw, features=self.phi.affine()(raw.features))
