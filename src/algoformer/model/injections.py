"""Injections of a loop's input into its iterations, and the states that first iterations start from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.common.names import Registry
from algoformer.nn import LayerSizes


@dataclass(frozen=True, kw_only=True)
class InjectionKind:
    """One way to combine the state and the loop's input before every iteration.

    Attributes:
        function: a function of the state and the input, whose result the body runs on.
        build: returns a module that is called in place of the function; None if there is nothing to build.
        start: name of the start that belongs to it, in `STARTS`.
        caption: what a diagram says.
        sees_input: whether the module uses the input.
        kept: from the numbers in the stream and its width, the numbers that autograd keeps once, and those
            it keeps for each iteration.
        products: multiply-adds for a token, from the stream's width.
        maps_input: whether these products are of the input alone, not of the state.
        fused: whether the hand-written kernels compute it.
    """

    function: Callable[[Tensor, Tensor], Tensor] = torch.add
    build: Callable[[LayerSizes], Callable[[Tensor, Tensor], Tensor]] | None = None
    start: str
    caption: str
    sees_input: bool = True
    kept: Callable[[int, int], tuple[int, int]] = lambda numbers, width: (0, 0)
    products: Callable[[int], int] = lambda width: 0
    maps_input: bool = False
    fused: bool = False


@dataclass(frozen=True, kw_only=True)
class StartKind:
    """One way to make the state before the first iteration.

    Attributes:
        function: makes the state from the loop's input.
        build: returns a module that is called in place of the function; None if there is nothing to build.
        sees_input: whether gradients reach the input through the state.
        weighted: whether the module has parameters.
    """

    function: Callable[[Tensor], Tensor] = torch.zeros_like
    build: Callable[[LayerSizes], Callable[[Tensor], Tensor]] | None = None
    sees_input: bool = False
    weighted: bool = False


class GatedInput(nn.Module):
    """Scales each coordinate of state and input by a learned gate, and adds them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keep_gate = nn.Parameter(torch.empty(width))
        self.input_gate = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the gates to their first values."""
        # sigmoid(3) = 0.95: close to plain addition at the start, and never an expansion of the state
        nn.init.constant_(self.keep_gate, 3.0)
        nn.init.ones_(self.input_gate)

    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        """Return the gated sum."""
        return torch.sigmoid(self.keep_gate) * state + self.input_gate * entry


class ConcatInput(nn.Module):
    """Maps state and input, one after the other, to the stream's width (Geiping et al., 2025)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.adapter = nn.Linear(2 * width, width, bias=False)
        nn.init.normal_(self.adapter.weight, std=math.sqrt(2 / (5 * width)))

    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        """Return the linear map of both."""
        return self.adapter(torch.cat([state, entry], dim=-1))


class DecayedState(nn.Module):
    """Lets the state decay and adds a linear map of the input: exp(-Δ e^a) state + Δ B input.

    Δ = softplus(δ); a, δ and B are learned. At the start the decay is √(1/5) and B the identity. This step
    alone never makes the state grow, however often the loop runs (Parcae).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.empty(width))
        self.log_delta = nn.Parameter(torch.empty(width))
        self.input_map = nn.Linear(width, width, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the decay to √(1/5) and the map to the identity."""
        decay = -math.log(math.sqrt(0.2))  # Δ e^a with a = 0
        nn.init.zeros_(self.log_rate)
        nn.init.constant_(self.log_delta, math.log(math.expm1(decay)))
        nn.init.eye_(self.input_map.weight)

    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        """Return the decayed state and the input."""
        delta = F.softplus(self.log_delta)
        return torch.exp(-delta * torch.exp(self.log_rate)) * state + delta * self.input_map(entry)


class NoiseStart(nn.Module):
    """Starts from truncated normal noise of deviation √(2/5) while training, and from zeros otherwise.

    Zeros are the mean of the noise: answers do not depend on draws, and decoding with a cache is exact.
    """

    deviation = math.sqrt(2 / 5)

    def forward(self, entry: Tensor) -> Tensor:
        """Return the noise or zeros, like the input."""
        state = torch.zeros_like(entry)
        if self.training:
            nn.init.trunc_normal_(state, std=self.deviation, a=-3 * self.deviation, b=3 * self.deviation)
        return state


class VectorStart(nn.Module):
    """Starts from one learned vector at every token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vector."""
        nn.init.trunc_normal_(self.vector)

    def forward(self, entry: Tensor) -> Tensor:
        """Return the vector at every token."""
        return torch.zeros_like(entry) + self.vector


def state_only(state: Tensor, entry: Tensor) -> Tensor:
    """Return the state without a look at the input."""
    return state


def entry_itself(entry: Tensor) -> Tensor:
    """Return the input as the state to start from."""
    return entry


INJECTIONS = Registry(
    "inject",
    {
        "add": InjectionKind(
            function=torch.add, start="zeros", caption="input added at every step", fused=True
        ),
        "none": InjectionKind(
            function=state_only,
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
        "concat": InjectionKind(
            build=lambda sizes: ConcatInput(sizes.width),
            start="zeros",
            caption="state and input through a linear map",
            kept=lambda numbers, width: (0, 2 * numbers),
            products=lambda width: 2 * width * width,
        ),
        "decay": InjectionKind(
            build=lambda sizes: DecayedState(sizes.width),
            start="zeros",
            caption="state decays, input added through a linear map",
            kept=lambda numbers, width: (numbers, 2 * numbers + 4 * width),
            products=lambda width: width * width,
            maps_input=True,
        ),
    },
    register="register_injection",
)
"""Injections by name."""

STARTS = Registry(
    "start",
    {
        "zeros": StartKind(function=torch.zeros_like),
        "input": StartKind(function=entry_itself, sees_input=True),
        "noise": StartKind(build=lambda sizes: NoiseStart()),
        "vector": StartKind(build=lambda sizes: VectorStart(sizes.width), weighted=True),
    },
    register="register_start",
)
"""Starts by name. The word "auto" in a program means the start that belongs to the injection."""


def register_injection(
    name: str,
    build: Callable[[LayerSizes], Callable[[Tensor, Tensor], Tensor]],
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


def register_start(
    name: str, build: Callable[[LayerSizes], Callable[[Tensor], Tensor]], *, sees_input: bool = False
) -> None:
    """Register a start, so that `Loop(start=name)` can be built, saved and loaded."""
    # a module without parameters costs a little less than is counted
    STARTS.register(name, StartKind(build=build, sees_input=sees_input, weighted=True))
