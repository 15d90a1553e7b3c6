"""Growth of a small disturbance along a loop's trajectory, and the exact spectrum of a causal loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from algoformer.insight.instrument import LoopMap, jvp
from algoformer.insight.trajectory import SETTLED

_NEARLY_AT_REST = 1e-6
"""Relative movement at which the burn-in ends, so that some decay is left to observe."""

_ROUNDING = 1e-13
"""Relative movement that is rounding."""

_DEAD = 1e-3
"""A disturbance that shrinks by more than this in one pass is gone: the iteration converges superlinearly."""

_RUNAWAY = 1e3
"""Growth of the state's norm at which the disturbance is followed around a fixed state instead."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The growth of a disturbance in one pass and the decay of the residual, for each prompt.

    Attributes:
        predicted: the factor by which Jacobian-vector products along the trajectory grow.
        observed: the factor by which |z_{t+1} - z_t| changes in a pass, while it is above rounding; NaN
            where there are too few such passes.
        residual: |z_{t+1} - z_t| / |z_t| at the end.
    """

    predicted: Tensor
    observed: Tensor
    residual: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Growth]) -> Growth:
        """Return the growths of several batches of prompts as one."""
        names = [one.name for one in fields(cls)]
        return cls(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})

    def for_report(self) -> dict[str, Any]:
        """Return the fields of a `StateReport` that this measurement fills."""
        return {
            "predicted": tuple(self.predicted.tolist()),
            "observed": tuple(None if math.isnan(value) else value for value in self.observed.tolist()),
            "settled": tuple((self.residual < SETTLED).tolist()),
        }


@torch.no_grad()
def disturbance_growth(loop: LoopMap, *, burn_in: int = 40, window: int = 64) -> tuple[Growth, Tensor]:
    """Follow a disturbance for `window` passes after `burn_in` passes; return its growth and the last state.

    The disturbance starts as the trajectory's own last step. A random one would find eigenvalues that the
    iteration never excites: hand-built loops carry inputs and position codes along with eigenvalue exactly
    1. The rate is that of the last half of the window. An iteration that converges superlinearly has growth
    0.
    """
    state, direction, frozen = _burn_in(loop, burn_in)
    growths, movements = [], []
    for _ in range(window):
        new, moved = jvp(loop.step, state, direction)
        length = _norms(moved)
        growths.append(length)
        movements.append(_norms(new - state) / _norms(state).clamp(min=1e-300))
        direction = moved / length.clamp(min=1e-300)[:, None, None]
        state = state if frozen else new
    growth, steps = torch.stack(growths), torch.stack(movements)
    predicted = _slope(growth.clamp(min=1e-300).log().cumsum(0)[-(window // 2) :]).exp()
    observed = torch.full_like(predicted, torch.nan) if frozen else _observed(steps)
    dead = (growth < _DEAD).any(0)
    found = Growth(
        predicted=predicted.masked_fill(dead, 0.0),
        observed=observed.masked_fill(dead, torch.nan),
        residual=steps[-1],
    )
    return found, state


def _burn_in(loop: LoopMap, passes: int) -> tuple[Tensor, Tensor, bool]:
    """Return a state, the unit direction of the step that led there, and whether the state runs away."""
    state, direction, frozen = loop.start, torch.zeros_like(loop.start), False
    size: Tensor | None = None
    for _ in range(passes):
        new = loop.step(state)
        norm = _norms(new)
        size = norm if size is None else size
        if bool((norm > _RUNAWAY * size).any()) or not bool(torch.isfinite(norm).all()):
            frozen = True
            break
        direction, state = new - state, new
        if bool((_norms(direction) < _NEARLY_AT_REST * norm).any()):
            break
    return state, direction / _norms(direction).clamp(min=1e-300)[:, None, None], frozen


def _slope(values: Tensor) -> Tensor:
    # a complex pair makes the growth oscillate; a straight line through the logarithms averages that out
    place = torch.arange(len(values), dtype=values.dtype) - (len(values) - 1) / 2
    return place @ values / place.square().sum()


def _observed(steps: Tensor) -> Tensor:
    """Return the decay of the residual over the last half of the passes in which it is above rounding."""
    found = []
    for column in steps.unbind(1):
        kept = column[: int((column > _ROUNDING).long().cumprod(0).sum())]
        half = kept[-(len(kept) // 2) :].log()[:, None]
        found.append(float(_slope(half).exp()) if len(kept) >= 8 else torch.nan)
    return torch.tensor(found, dtype=steps.dtype)


def token_radii(loop: LoopMap, state: Tensor) -> list[float]:
    """Return the spectral radius of every token's own block of the Jacobian at `state`, for the first prompt.

    With causal attention a token's next state depends on itself and on earlier tokens, so the Jacobian is
    block triangular and its eigenvalues are those of the blocks on the diagonal: the largest radius is exact.
    """
    if loop.token_block is None:
        raise ValueError(
            "the spectrum token by token is exact for causal attention only; use disturbance_growth"
        )
    blocks = (loop.token_block(0, token, state) for token in range(state.shape[1]))
    return [float(torch.linalg.eigvals(block).abs().max()) for block in blocks]


def _norms(state: Tensor) -> Tensor:
    return state.flatten(1).norm(dim=1)
