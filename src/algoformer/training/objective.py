"""Losses on traces."""

import torch
from jaxtyping import Float, Int
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
    squares = (_at_least_single(trace.predictions) - prompt.targets).square()
    by_question = squares.mean(dim=(0, 1, 3))
    if weights is None:
        return by_question.mean()
    return torch.dot(by_question, weights.to(by_question.dtype)) / weights.sum()


def _at_least_single(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


@torch.no_grad()
def error_at(trace: Trace, prompt: Prompt, question: Int[Tensor, "1"]) -> Float[Tensor, ""]:
    """Squared error of the last step at one question, summed over the answer's numbers.

    >>> trace = Trace(predictions=torch.tensor([9.0, 2.0, 5.0]).reshape(1, 1, 3, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 3, 1), targets=torch.zeros(1, 3, 1), reads=(0, 1, 2))
    >>> error_at(trace, prompt, torch.tensor([1])).item()
    4.0
    """
    # a number on the device: a captured graph reads whatever it holds at the time
    answers, targets = (each.index_select(1, question) for each in (trace.final, prompt.targets))
    return (_at_least_single(answers) - targets).square().sum() / prompt.batch
