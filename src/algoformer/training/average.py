"""The average of a model's weights over its last steps, which is often a better model than the last one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)
"""Whatever is trained."""


@torch.no_grad()
def move_towards(values: Sequence[Tensor], targets: Sequence[Tensor], share: Tensor) -> None:
    """Move values by a share of their way to the targets, in three launches for all of them together.

    The share stays on the device: a captured graph reads whatever it holds at the time.

    >>> values = [torch.tensor([0.0, 10.0])]
    >>> move_towards(values, [torch.tensor([4.0, 10.0])], torch.tensor(0.25))
    >>> values
    [tensor([ 1., 10.])]
    """
    ways = torch._foreach_sub(list(targets), list(values))
    torch._foreach_mul_(ways, share)
    torch._foreach_add_(list(values), ways)


class Average(Generic[Model]):
    """An exponential moving average of a model's weights, as a model of its own.

    After each step the average goes max(1 - decay, 9 / (10 + t)) of its way to the weights, t being the
    steps before. So a decay of 0.999 looks back about 1000 steps, but never over more than the last tenth
    or so of those there were: after n steps the first weights count for 1 / C(n + 9, 9), less than a
    millionth at n = 15, where they would count for 0.985 otherwise.
    """

    def __init__(
        self,
        model: Model,
        decay: float,
        copied: Callable[[Model], Model] = copy.deepcopy,
    ) -> None:
        self.model = copied(model)
        self.decay = decay
        self.updates = torch.zeros((), dtype=torch.int64, device=next(model.parameters()).device)

    def update(self, model: Model) -> None:
        """Take the weights after a step into the average; nothing is read back."""
        share = (9 / (10 + self.updates)).clamp_(min=1 - self.decay)
        move_towards(list(self.model.parameters()), list(model.parameters()), share)
        self.updates.add_(1)

    def tensors(self) -> list[Tensor]:
        """Everything that an update changes."""
        return [*self.model.parameters(), self.updates]
