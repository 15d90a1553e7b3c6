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
        fused: whether the hand-written kernels compute it.
    """

    function: Callable[[Tensor], Tensor]
    kept: int = 2
    fused: bool = False


ACTIVATIONS = Table(
    "activation",
    {
        "gelu": ActivationKind(function=partial(F.gelu, approximate="tanh"), fused=True),
        "relu": ActivationKind(function=F.relu, kept=1),
    },
)
"""Activations by name: GPT-2's tanh GELU for trained layers, ReLU for the paper's Equation 1."""


def register_activation(name: str, function: Callable[[Tensor], Tensor], *, kept: int = 2) -> None:
    """Register an activation, so that `Layers(activation=name)` can be built, saved and loaded."""
    ACTIVATIONS.register(name, ActivationKind(function=function, kept=kept))
