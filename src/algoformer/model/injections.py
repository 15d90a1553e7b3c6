"""How the input of a loop reaches its iterations, and the state that the first iteration starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn import LayerSizes, Table


@dataclass(frozen=True, kw_only=True)
class InjectionKind:
    """One way to combine the state and the loop's input before every iteration.

    Attributes:
        build: returns a module that makes of the state and the input what the body runs on.
        start: name of the start that belongs to it, in `STARTS`.
        caption: what a diagram says.
        sees_input: whether the module uses the input.
        kept: from the numbers in the stream and its width, the numbers that autograd keeps once, and those
            it keeps for each iteration.
        products: multiply-adds for a token, from the stream's width.
        fused: whether the hand-written kernels compute it.
    """

    build: Callable[[LayerSizes], nn.Module]
    start: str
    caption: str
    sees_input: bool = True
    kept: Callable[[int, int], tuple[int, int]] = lambda numbers, width: (0, 0)
    products: Callable[[int], int] = lambda width: 0
    fused: bool = False


@dataclass(frozen=True, kw_only=True)
class StartKind:
    """One way to make the state before the first iteration.

    Attributes:
        build: returns a module that is called with the loop's input and returns the state.
        sees_input: whether gradients reach the input through the state.
    """

    build: Callable[[LayerSizes], nn.Module]
    sees_input: bool = False


class AddInput(nn.Module):
    """Adds the input to the state."""

    def forward(
        self, state: Float[Tensor, "batch token width"], entry: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch token width"]:
        """Return the sum."""
        return state + entry


class StateOnly(nn.Module):
    """Passes the state on and does not look at the input."""

    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        """Return the state."""
        return state


class GatedInput(nn.Module):
    """Scales each coordinate of state and input by a learned gate, and adds them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # sigmoid(3) = 0.95: close to plain addition at the start, and never an expansion of the state
        self.keep_gate = nn.Parameter(torch.full((width,), 3.0))
        self.input_gate = nn.Parameter(torch.ones(width))

    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        """Return the gated sum."""
        return torch.sigmoid(self.keep_gate) * state + self.input_gate * entry


class ZeroStart(nn.Module):
    """Starts from zeros."""

    def forward(self, entry: Tensor) -> Tensor:
        """Return zeros like the input."""
        return torch.zeros_like(entry)


class InputStart(nn.Module):
    """Starts from the input."""

    def forward(self, entry: Tensor) -> Tensor:
        """Return the input."""
        return entry


INJECTIONS = Table(
    "inject",
    {
        "add": InjectionKind(
            build=lambda sizes: AddInput(), start="zeros", caption="input added at every step", fused=True
        ),
        "none": InjectionKind(
            build=lambda sizes: StateOnly(),
            start="input",
            caption="input at the first step only",
            sees_input=False,
        ),
        "gate": InjectionKind(
            build=lambda sizes: GatedInput(sizes.width),
            start="zeros",
            caption="input through gates at every step",
            kept=lambda numbers, width: (numbers, numbers + width),
        ),
    },
)
"""Injections by name."""

STARTS = Table(
    "start",
    {
        "zeros": StartKind(build=lambda sizes: ZeroStart()),
        "input": StartKind(build=lambda sizes: InputStart(), sees_input=True),
    },
)
"""Starts by name. The word "auto" in a program means the start that belongs to the injection."""


def register_injection(
    name: str,
    build: Callable[[LayerSizes], nn.Module],
    *,
    start: str = "zeros",
    caption: str | None = None,
    kept: Callable[[int, int], tuple[int, int]] = lambda numbers, width: (0, numbers),
    products: Callable[[int], int] = lambda width: 0,
) -> None:
    """Register an injection, so that `Loop(inject=name)` can be built, saved and loaded.

    Args:
        name: what programs call it.
        build: returns a module that is called with the state and the loop's input.
        start: name of the start that belongs to it.
        caption: what a diagram says; by default the name.
        kept: numbers that autograd keeps once and for each iteration, for the memory estimate.
        products: multiply-adds for a token, for the FLOP count.
    """
    caption = caption or f"input through {name} at every step"
    entry = InjectionKind(build=build, start=start, caption=caption, kept=kept, products=products)
    STARTS.name_of(start)
    INJECTIONS.register(name, entry)


def register_start(name: str, build: Callable[[LayerSizes], nn.Module], *, sees_input: bool = False) -> None:
    """Register a start, so that `Loop(start=name)` can be built, saved and loaded."""
    STARTS.register(name, StartKind(build=build, sees_input=sees_input))
