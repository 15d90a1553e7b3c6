"""Tables of words: everything the library knows about a kind of norm, position, activation or injection.

This file has the tables of norms and activations; positions and injections are tables of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.common.terminal import short

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """What a builder of a table entry is told.

    Attributes:
        width: width of the residual stream.
        head_width: width of one attention head.
        context: the most tokens of a sequence.
        norm_eps: what a norm adds to the mean square before it takes the root.
        settings: the `Layers` of the program, for kinds with fields of their own; None for a single layer.
    """

    width: int
    head_width: int = 0
    context: int = 0
    norm_eps: float = 1e-5
    settings: Any = None


class Table(dict[str, Kind], Generic[Kind]):
    """Entries by name. A program names them; modules, costs, outlines, diagrams and kernels read them.

    Args:
        field: the field of a program that holds a name of this table.
        entries: the entries the library comes with.
        aliases: other spellings that are still read, such as the booleans of old checkpoints.
    """

    def __init__(
        self, field: str, entries: Mapping[str, Kind], *, aliases: Mapping[object, str] | None = None
    ) -> None:
        super().__init__(entries)
        self.field = field
        self._aliases = dict(aliases or {})

    def register(self, name: str, kind: Kind) -> None:
        """Add an entry; programs can name it from now on.

        Raises:
            ValueError: the name is taken, or is not an identifier.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"a name for {self.field} must be an identifier, got {name!r}")
        if name in self:
            raise ValueError(f"{self.field} {name!r} is registered already; choose another name")
        self[name] = kind

    def name_of(self, value: object) -> str:
        """Return the name that `value` spells.

        Raises:
            ValueError: there is no such entry; the message lists those that exist.
        """
        name = self._aliases.get(value, value) if isinstance(value, str | bool) else value
        if not isinstance(name, str) or name not in self:
            shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"
            raise ValueError(
                f"{self.field} must be one of {', '.join(self)}, got {shown}; "
                f"a kind of your own must be registered first (register_{self.field})"
            )
        return name

    def __missing__(self, value: object) -> Kind:
        return self[self.name_of(value)]

    if TYPE_CHECKING:  # other spellings are looked up too

        def __getitem__(self, value: object) -> Kind: ...


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


ACTIVATIONS = Table(
    "activation",
    {
        "gelu": ActivationKind(function=partial(F.gelu, approximate="tanh"), fused=True),
        "relu": ActivationKind(function=F.relu, kept=1, keeps_input=False),
        "silu": ActivationKind(function=F.silu),
        "relu2": ActivationKind(function=squared_relu, keeps_input=False),
        "gelu_exact": ActivationKind(function=F.gelu),
    },
)
"""Activations by name: GPT-2's tanh GELU for trained layers, ReLU for the paper's Equation 1.

SiLU belongs to gated networks (SwiGLU), `relu2` is the square of ReLU, `gelu_exact` uses the error function.
"""


def register_activation(name: str, function: Callable[[Tensor], Tensor], *, kept: int = 2) -> None:
    """Register an activation, so that `Layers(activation=name)` can be built, saved and loaded."""
    ACTIVATIONS.register(name, ActivationKind(function=function, kept=kept))
