"""Norms, activations and positions by name: everything the library knows about each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoformer.common.names import Registry
from algoformer.common.terminal import short


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """The sizes that a builder of a table entry is given.

    Attributes:
        width: width of the residual stream.
        head_width: width of one attention head.
        context: the most tokens of a sequence.
        norm_eps: epsilon of the norms.
        settings: the `Layers` of the program; None where a loop builds its start and injection.
    """

    width: int
    head_width: int = 0
    context: int = 0
    norm_eps: float = 1e-5
    settings: Any = None


class RMSNorm(nn.RMSNorm):
    """PyTorch's RMS norm, computed in the precision of its weight.

    Under autocast a projection returns bf16 while the weight of the norm is fp32. PyTorch's own module then
    warns, and computes the norm without its fused operation.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed input."""
        return super().forward(x if self.weight is None else x.to(self.weight.dtype))


@dataclass(frozen=True, kw_only=True)
class NormKind:
    """One kind of norm.

    Attributes:
        build: returns the module.
        kept: numbers that autograd keeps for a token between the passes, from the stream's width.
        outline: what an outline or diagram notes; empty for the default.
        weighted: whether it has parameters.
        fused: whether the hand-written kernels compute it.
    """

    build: Callable[[LayerSizes], nn.Module]
    kept: Callable[[int], int]
    outline: str
    weighted: bool = True
    fused: bool = False


NORMS = Registry(
    "norm",
    {
        "layer": NormKind(
            build=lambda sizes: nn.LayerNorm(sizes.width, eps=sizes.norm_eps),
            kept=lambda width: width + 2,  # the input, its mean and its deviation
            outline="",
            fused=True,
        ),
        "rms": NormKind(
            build=lambda sizes: RMSNorm(sizes.width, eps=sizes.norm_eps),
            kept=lambda width: 2 * width + 1,  # the input, its root mean square, and their quotient
            outline="RMS norm",
        ),
        "plain": NormKind(
            build=lambda sizes: RMSNorm(sizes.width, eps=sizes.norm_eps, elementwise_affine=False),
            kept=lambda width: width + 1,  # the input and its root mean square
            outline="plain RMS norm",
            weighted=False,
        ),
        "none": NormKind(
            build=lambda sizes: nn.Identity(), kept=lambda width: 0, outline="no norm", weighted=False
        ),
    },
    register="register_norm",
    aliases={True: "layer", False: "none"},
)
"""Norms by name: layer norm or RMS norm (with or without weights) for trained layers, none for Equation 1."""

PLACES = ("in", "out", "after")
"""The places where norms of a layer can stand: f(norm(x)), x + norm(f(x)) and norm(x + f(x))."""


def check_places(norm_at: object) -> str:
    """Return the places of a layer's norms, such as "in" or "in+after", in their usual order.

    >>> check_places("after+in")
    'in+after'
    """
    given = norm_at.split("+") if isinstance(norm_at, str) else []
    if not given or len(set(given)) < len(given) or not set(given) <= set(PLACES):
        raise ValueError(f"norm_at must be in, out or after, or several joined by '+', got {short(norm_at)}")
    return "+".join(place for place in PLACES if place in given)


def register_norm(
    name: str,
    build: Callable[[LayerSizes], nn.Module],
    *,
    kept: Callable[[int], int] = lambda width: width,
    outline: str | None = None,
) -> None:
    """Register a kind of norm, so that `Layers(norm=name)` can be built, saved and loaded.

    Args:
        name: what programs call it.
        build: returns the module from the sizes of a layer.
        kept: numbers that autograd keeps for a token, for the memory estimate; by default the input.
        outline: what an outline notes; by default the name.
    """
    NORMS.register(name, NormKind(build=build, kept=kept, outline=outline or f"{name} norm"))


@dataclass(frozen=True, kw_only=True)
class ActivationKind:
    """One activation.

    Attributes:
        function: the activation, element by element.
        kept: how many tensors of the hidden width autograd keeps between the passes: 2 for input and result,
            1 if the result alone is enough.
        keeps_input: whether the input is one of them.
        fused: whether the hand-written kernels compute it.
    """

    function: Callable[[Tensor], Tensor]
    kept: int = 2
    keeps_input: bool = True
    fused: bool = False


def squared_relu(hidden: Tensor) -> Tensor:
    """Return the square of ReLU."""
    return F.relu(hidden).square()


ACTIVATIONS = Registry(
    "activation",
    {
        "gelu": ActivationKind(function=partial(F.gelu, approximate="tanh"), fused=True),
        "relu": ActivationKind(function=F.relu, kept=1, keeps_input=False),
        "silu": ActivationKind(function=F.silu),
        "relu2": ActivationKind(function=squared_relu, keeps_input=False),
        "gelu_exact": ActivationKind(function=F.gelu),
    },
    register="register_activation",
)
"""Activations by name: GPT-2's tanh GELU for trained layers, ReLU for the paper's Equation 1.

SiLU belongs to gated networks (SwiGLU), `relu2` is the square of ReLU, `gelu_exact` uses the error function.
"""


def register_activation(name: str, function: Callable[[Tensor], Tensor], *, kept: int = 2) -> None:
    """Register an activation, so that `Layers(activation=name)` can be built, saved and loaded.

    Raises:
        ValueError: the function is a module with parameters, which all layers would share.
    """
    if isinstance(function, nn.Module) and next(function.parameters(), None) is not None:
        raise ValueError(
            f"the activation {name!r} has parameters, which all layers would share; give a function without"
        )
    ACTIVATIONS.register(name, ActivationKind(function=function, kept=kept))


class LearnedPositions(nn.Module):
    """One learned vector for each position in the sequence, added to the stream; at first N(0, 0.02)."""

    def __init__(self, *, context: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(context, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors."""
        nn.init.normal_(self.table, std=0.02)

    def forward(
        self, stream: Float[Tensor, "batch token width"], positions: Int[Tensor, "#batch token"] | None = None
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
        rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
        return rotated.contiguous()  # heads of width 2 lie channels last otherwise, and attention copies them


class SinusoidPositions(nn.Module):
    """Adds sines and cosines of the positions to the stream; without parameters, for any position."""

    def forward(
        self, stream: Float[Tensor, "batch token width"], positions: Int[Tensor, "#batch token"] | None = None
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
        weighted: whether what is added has parameters.
        fused: whether the hand-written kernels compute it.
    """

    added: Callable[[LayerSizes], nn.Module] | None = None
    rotation: Callable[[LayerSizes], nn.Module] | None = None
    outline: str
    weighted: bool = True
    fused: bool = False


POSITIONS = Registry(
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
        "sinusoid": PositionKind(
            added=lambda sizes: SinusoidPositions(), outline="sinusoid positions", weighted=False
        ),
        "none": PositionKind(outline="no positions", fused=True),
    },
    register="register_positions",
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
