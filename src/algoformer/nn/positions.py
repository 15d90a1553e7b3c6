"""Positions of tokens in their sequence, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoformer.nn.tables import LayerSizes, Table


class LearnedPositions(nn.Module):
    """One learned vector for each position in the sequence, added to the stream."""

    def __init__(self, *, context: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(context, width))

    def reset_parameters(self) -> None:
        """Draw the vectors from N(0, 0.02), as GPT-2 does."""
        nn.init.normal_(self.table, std=0.02)

    def forward(
        self,
        stream: Float[Tensor, "batch token width"],
        positions: Int[Tensor, "#batch token"] | None = None,
    ) -> Float[Tensor, "batch token width"]:
        """Add the vectors of `positions`, by default of 0, 1, 2, ..., to the stream."""
        tokens = stream.shape[1]
        if tokens > self.table.shape[0]:
            raise ValueError(
                f"a sequence of {tokens} tokens is longer than the context of {self.table.shape[0]} "
                "positions this model was built with; build it with a larger context"
            )
        return stream + (self.table[:tokens] if positions is None else F.embedding(positions, self.table))


class RotaryPositions(nn.Module):
    """RoPE: rotates queries and keys by angles that grow with their positions.

    Coordinate i is paired with coordinate i + head_width / 2 (the layout in halves), and the pair is
    rotated by position · base^(-2i / head_width). There are no parameters and no buffers.
    """

    def __init__(self, *, head_width: int, base: int | float) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"rope rotates pairs: head_width must be even, got {head_width}")
        self.head_width, self.base = head_width, base

    def forward(
        self,
        heads: Float[Tensor, "batch head token score"],
        positions: Int[Tensor, "#batch token"] | None = None,
    ) -> Float[Tensor, "batch head token score"]:
        """Rotate queries or keys to `positions`, by default to 0, 1, 2, ..."""
        exact = torch.float64 if heads.dtype == torch.float64 else torch.float32
        if positions is None:
            positions = torch.arange(heads.shape[2], device=heads.device)[None]
        pairs = torch.arange(0, self.head_width, 2, device=heads.device, dtype=exact)
        angles = positions[:, None, :, None] * self.base ** (-pairs / self.head_width)
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class SinusoidPositions(nn.Module):
    """Adds sines and cosines of the positions to the stream; without parameters, for any position."""

    def forward(
        self,
        stream: Float[Tensor, "batch token width"],
        positions: Int[Tensor, "#batch token"] | None = None,
    ) -> Float[Tensor, "batch token width"]:
        """Add the sinusoids of `positions`, by default of 0, 1, 2, ..., to the stream."""
        if positions is None:
            positions = torch.arange(stream.shape[1], device=stream.device)[None]
        return stream + sinusoids(positions, stream.shape[2]).to(stream.dtype)


def sinusoids(positions: Int[Tensor, "*place"], width: int) -> Float[Tensor, "*place width"]:
    """Return sin(p · 10000^(-2i / width)) for the first half of the coordinates, and cosines for the second.

    >>> sinusoids(torch.tensor([0]), 4)
    tensor([[0., 0., 1., 1.]])
    """
    powers = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    angles = positions[..., None] * 10_000**-powers
    return torch.cat([angles.sin(), angles.cos()[..., : width // 2]], dim=-1).float()


@dataclass(frozen=True, kw_only=True)
class PositionKind:
    """One kind of positions: added to the stream, or rotating queries and keys, or both.

    Attributes:
        added: returns a module that is called with the stream and the positions where a module of layers
            begins, and returns the stream with positions; None adds nothing.
        rotation: returns a module that each attention calls with queries or keys and the positions, and
            that returns them rotated; None rotates nothing.
        outline: what an outline or diagram notes; empty for the default.
        fused: whether the hand-written kernels compute it.
    """

    added: Callable[[LayerSizes], nn.Module] | None = None
    rotation: Callable[[LayerSizes], nn.Module] | None = None
    outline: str
    fused: bool = False


POSITIONS = Table(
    "positions",
    {
        "learned": PositionKind(
            added=lambda sizes: LearnedPositions(context=sizes.context, width=sizes.width),
            outline="",
            fused=True,
        ),
        "rope": PositionKind(
            rotation=lambda sizes: RotaryPositions(
                head_width=sizes.head_width, base=getattr(sizes.settings, "rope_base", 10_000)
            ),
            outline="RoPE",
        ),
        "sinusoid": PositionKind(added=lambda sizes: SinusoidPositions(), outline="sinusoid positions"),
        "none": PositionKind(outline="no positions", fused=True),
    },
    aliases={True: "learned", False: "none"},
)
"""Kinds of positions by name."""


def register_positions(
    name: str,
    *,
    added: Callable[[LayerSizes], nn.Module] | None = None,
    rotation: Callable[[LayerSizes], nn.Module] | None = None,
    outline: str | None = None,
) -> None:
    """Register a kind of positions, so that `Layers(positions=name)` can be built, saved and loaded."""
    if added is None and rotation is None:
        raise ValueError("positions need a module: give added, rotation or both")
    entry = PositionKind(added=added, rotation=rotation, outline=outline or f"{name} positions")
    POSITIONS.register(name, entry)
