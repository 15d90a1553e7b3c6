"""Levenberg and Marquardt's method from many starts at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Residuals = Callable[[Tensor, Tensor], Tensor]
"""Residuals (start, point, residual) at points (start, point, coordinate) near starts with these numbers."""

_NUDGE = 1e-5
"""The distance of points whose differences are slopes."""

_LONGEST = 0.5
"""The largest change of a coordinate in one iteration."""

_CONVERGED = 1e-12
"""An iteration that lowers the squared residuals by less, relative to them, ends the search."""


@dataclass(frozen=True)
class _Expansion:
    """The sum of squared residuals near each place to second order: r·r, ∂r·r and ∂r·∂r."""

    square: Tensor  # (start,)
    gradient: Tensor  # (start, coordinate)
    normal: Tensor  # (start, coordinate, coordinate)

    def moves(self, damping: Tensor) -> Tensor:
        """Return the damped steps of Gauss and Newton's method, (start, coordinate)."""
        scale = damping[:, None] * self.normal.diagonal(dim1=1, dim2=2) + 1e-14
        found = torch.linalg.lstsq(self.normal + scale.diag_embed(), self.gradient[..., None], driver="gelsd")
        return (-found.solution[..., 0]).clamp(-_LONGEST, _LONGEST)


def local_search(residuals: Residuals, starts: Tensor, *, rounds: int, at_once: int) -> Tensor:
    """Return places (start, coordinate) near the starts with smaller sums of squared residuals.

    Args:
        residuals: what is squared, as a function of places.
        starts: where the searches begin, (start, coordinate).
        rounds: iterations of each search, at most.
        at_once: the number of searches whose residuals are computed together.
    """
    places, running = starts.clone(), torch.arange(len(starts))
    if not starts.shape[1]:
        return places
    now, damping = _expanded(residuals, places, running, at_once), places.new_full((len(starts),), 1e-3)
    for _ in range(rounds):
        if not len(running):
            break
        moved = places[running] + now.moves(damping)
        tried = _expanded(residuals, moved, running, at_once)
        gain = now.square - tried.square
        better, small = gain > 0, gain < _CONVERGED * now.square
        places[running[better]] = moved[better]
        damping = torch.where(better, damping / 10, damping * 10)
        going = ~(small & (better | (damping > 1e9)))
        pairs = zip(vars(tried).values(), vars(now).values(), strict=True)
        now = _Expansion(*(torch.where(_as(better, one), one, other)[going] for one, other in pairs))
        running, damping = running[going], damping[going]
    return places


def _expanded(residuals: Residuals, places: Tensor, running: Tensor, at_once: int) -> _Expansion:
    width = places.shape[1]
    nudges = torch.cat([places.new_zeros(1, width), _NUDGE * torch.eye(width, dtype=places.dtype)])
    parts = []
    for chosen in torch.arange(len(places)).split(at_once):
        found = residuals(places[chosen, None] + nudges, running[chosen])
        here = found[:, :1]
        slopes = (found[:, 1:] - here) / _NUDGE
        parts.append((here.square().sum((1, 2)), (slopes @ here.mT)[..., 0], slopes @ slopes.mT))
    return _Expansion(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _as(chosen: Tensor, like: Tensor) -> Tensor:
    return chosen.reshape(-1, *[1] * (like.dim() - 1))
