"""Losses on traces."""

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.prompt import Prompt
from algoformer.trace import Trace


def window_loss(
    trace: Trace, prompt: Prompt, weights: Float[Tensor, " point"] | None = None
) -> Float[Tensor, ""]:
    """Squared error, a true mean over the window's steps, the prompts, the answers and the questions.

    `weights` says how much each question counts (a points curriculum has zeros); None counts all alike.

    >>> trace = Trace(predictions=torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 1, 1), targets=torch.zeros(1, 1, 1), reads=(0,))
    >>> window_loss(trace, prompt).item()
    5.0
    """
    squares = (trace.predictions.float() - prompt.targets).square()
    by_question = squares.mean(dim=(0, 1, 3))
    if weights is None:
        return by_question.mean()
    return torch.dot(by_question, weights) / weights.sum()
