"""Losses on traces."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.prompt import Prompt
from algoformer.trace import Trace

FLOOR = 1e-12
"""Added to an error before its logarithm: a perfect answer has one too, and no gradient."""


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
    return _over_questions(_squares(trace, prompt).mean(dim=(0, 1, 3)), weights)


def log_loss(
    trace: Trace,
    prompt: Prompt,
    weights: Float[Tensor, " point"] | None = None,
    *,
    over_all: Callable[[Tensor], Tensor] = torch.clone,
) -> Float[Tensor, ""]:
    """The mean over the window's steps and the questions of the logarithm of their squared error.

    Each error is that of all prompts together, and its gradient is divided by it: what counts is how much
    smaller it becomes relative to itself. In a mean of squares the questions with few examples before them,
    whose errors nothing can make smaller, are a thousand times as large as the last ones, and what they do
    by chance drowns what the last ones could still learn.

    Args:
        trace: the answers.
        prompt: the questions.
        weights: how much each question counts, as in `window_loss`.
        over_all: the mean over all processes of a tensor, where each has a part of the prompts.

    >>> trace = Trace(predictions=torch.tensor([10.0, 0.1]).reshape(1, 1, 2, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 2, 1), targets=torch.zeros(1, 2, 1), reads=(0, 1))
    >>> round(log_loss(trace, prompt).exp().item(), 6)
    1.0
    """
    errors = _squares(trace, prompt).mean(dim=(1, 3))
    whole = over_all(errors.detach()) + FLOOR
    # the value is that of all processes; the gradient that of this one's errors, divided by all of theirs
    share = errors / whole
    logarithms = whole.log() + (share - share.detach())
    return _over_questions(logarithms.mean(dim=0), weights)


def _squares(trace: Trace, prompt: Prompt) -> Float[Tensor, "step batch point out"]:
    return (_at_least_single(trace.predictions) - prompt.targets).square()


def _over_questions(
    values: Float[Tensor, " point"], weights: Float[Tensor, " point"] | None
) -> Float[Tensor, ""]:
    if weights is None:
        return values.mean()
    return torch.dot(values, weights.to(values.dtype)) / weights.sum()


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
