"""The free parameters of the theorems, in one place."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch

UNDERFLOW = {torch.float64: 745.2, torch.float32: 104.0}
"""exp(-x) is exactly 0 in floating point for every x beyond this."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants that set how sharply and how finely the constructions use the softmax.

    Attributes:
        c: scale of the data in a linearized head: exp(cz) - exp(-cz) = 2cz + O(c³). Error c².
        sink: C; the sink token's score, so that every other weight is about e^(-C). Error e^(-C).
        mask: C'; how far below the others the score of a token lies that must not be read.
        sharpness: τ; multiplies the scores of a copying head, whose gaps are at least 1.
        bound: B; no gated number may be larger.
    """

    c: float = 1e-4
    sink: float = 25.0
    mask: float = 80.0
    sharpness: float = 1000.0
    bound: float = 1000.0

    def __post_init__(self) -> None:
        for name in ("c", "sink", "mask", "sharpness", "bound"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value}")
        if self.c > 1:
            raise ValueError(f"c must be at most 1, or exp(cz) is not close to 1 + cz; got {self.c}")
        if self.sink > 300:
            raise ValueError(f"sink must be at most 300, or e^sink overflows in products; got {self.sink}")

    def check(self, dtype: torch.dtype) -> None:
        """Check the constants for a dtype: raise where a construction breaks, warn where it loses precision.

        Scores near C carry a rounding error of about eps·C, and the two heads of a linearized pair are
        divided by 2c: eps·C / 2c is what one step adds, relative to the residual.
        """
        if dtype not in UNDERFLOW:
            raise ValueError(f"dtype must be torch.float64 or torch.float32, got {dtype}")
        if self.sharpness < UNDERFLOW[dtype]:
            raise ValueError(
                f"sharpness must exceed {UNDERFLOW[dtype]} for copies to be exact in {dtype}, "
                f"got {self.sharpness}"
            )
        if dtype == torch.float32 and self.sink > 60:
            raise ValueError(f"sink must be at most 60 in float32, or e^sink overflows; got {self.sink}")
        blur = torch.finfo(dtype).eps * self.sink / (2 * self.c)
        if blur > 1e-3:
            warnings.warn(
                f"c={self.c} in {dtype} adds a relative rounding error of about {blur:.0e} at every step; "
                f"use float64, or SINGLE (c={SINGLE.c}, sink={SINGLE.sink})",
                stacklevel=4,
            )


DOUBLE = Constants()
"""For float64: linearization error 1e-9, rounding 1e-11."""

SINGLE = Constants(c=0.05, sink=15.0, mask=60.0)
"""For float32: both errors near 1e-3."""
