"""Activations of the feed-forward network, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from algoformer.nn.table import Table


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
