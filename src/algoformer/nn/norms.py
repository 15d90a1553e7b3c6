"""Norms of the residual stream, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from algoformer.nn.table import LayerSizes, Table


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


NORMS = Table(
    "norm",
    {
        "layer": NormKind(
            build=lambda sizes: nn.LayerNorm(sizes.width, eps=sizes.norm_eps),
            kept=lambda width: width + 2,  # the input, its mean and its deviation
            outline="",
            fused=True,
        ),
        "rms": NormKind(
            build=lambda sizes: nn.RMSNorm(sizes.width, eps=sizes.norm_eps),
            kept=lambda width: 2 * width + 1,  # the input, its root mean square, and their quotient
            outline="RMS norm",
        ),
        "plain": NormKind(
            build=lambda sizes: nn.RMSNorm(sizes.width, eps=sizes.norm_eps, elementwise_affine=False),
            kept=lambda width: width + 1,  # the input and its root mean square
            outline="RMS norm without weights",
            weighted=False,
        ),
        "none": NormKind(
            build=lambda sizes: nn.Identity(), kept=lambda width: 0, outline="no norm", weighted=False
        ),
    },
    aliases={True: "layer", False: "none"},
)
"""Norms by name: layer norm or RMS norm (with or without weights) for trained layers, none for Equation 1."""

PLACES = ("in", "out", "after")
"""Where norms of a layer can stand: f(norm(x)), x + norm(f(x)) and norm(x + f(x))."""


def check_places(norm_at: object) -> str:
    """Return the places of a layer's norms, such as "in" or "in+after", in their usual order.

    >>> check_places("after+in")
    'in+after'
    """
    given = norm_at.split("+") if isinstance(norm_at, str) else []
    if not given or len(set(given)) < len(given) or not set(given) <= set(PLACES):
        raise ValueError(f"norm_at must be in, out or after, or several joined by '+', got {norm_at!r}")
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
