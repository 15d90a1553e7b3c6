"""Draws that a generator alone decides."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def normal(
    *shape: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """Standard normal numbers on the generator's device, the same ones in every precision.

    They are drawn in float32 and then cast, so one seed means one set of prompts whatever `dtype` is.
    """
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32).to(dtype)


def mask_dims(
    xs: Float[Tensor, "batch point dim"], active_dims: int | Int[Tensor, ""] | None
) -> Float[Tensor, "batch point dim"]:
    """Zero the coordinates from `active_dims` on; `None` keeps them all.

    A 0-dim tensor is never read back, so a captured graph follows it as it is updated in place.
    """
    if active_dims is None:
        return xs
    dim = xs.shape[-1]
    if isinstance(active_dims, int) and not 1 <= active_dims <= dim:
        raise ValueError(f"active_dims must lie in 1..{dim} (the dim of the task), got {active_dims}")
    return xs * (torch.arange(dim, device=xs.device) < active_dims)


def refuse_dims(active_dims: int | Int[Tensor, ""] | None) -> None:
    """Refuse `active_dims` where the task has a fixed representation that needs every coordinate."""
    if active_dims is not None:
        raise ValueError(
            f"this task uses all of its coordinates, got active_dims={active_dims}: leave it out "
            "(only tasks with takes_dims accept it)"
        )
