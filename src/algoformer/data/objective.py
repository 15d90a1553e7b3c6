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
    """Return the squared error, a true mean over steps of the window, prompts, answers and questions.

    Where answers are classes, it is their cross-entropy.

    `weights` says how much each question counts (a points curriculum has zeros); None counts all alike.

    >>> trace = Trace(predictions=torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 1, 1), targets=torch.zeros(1, 1, 1), reads=(0,))
    >>> window_loss(trace, prompt).item()
    5.0
    """
    return _over_questions(_losses(trace.predictions, prompt.targets, prompt.classes), weights)


def stage_loss(
    trace: Trace, prompt: Prompt, weights: Float[Tensor, " point"] | None = None
) -> Float[Tensor, ""]:
    """The loss of the answers after each stage of a computation, each against the answer of its stage.

    With T iterations and S stages, stage s is complete after iteration s T / S. Other iterations do not
    count.

    Raises:
        ValueError: the prompt has no stages, or T is not a multiple of S.

    >>> trace = Trace(predictions=torch.tensor([9.0, 1.0, 9.0, 2.0]).reshape(4, 1, 1, 1))
    >>> stages = torch.tensor([1.0, 4.0]).reshape(2, 1, 1, 1)
    >>> prompt = Prompt(rows=torch.zeros(1, 1, 1), targets=stages[-1], reads=(0,), stages=stages)
    >>> stage_loss(trace, prompt).item()
    2.0
    """
    if prompt.stages is None:
        raise ValueError("loss='stages' needs a task whose prompts have stages, such as chain_of_solves")
    steps, stages = trace.steps[-1], prompt.stages.shape[0]
    if steps % stages:
        raise ValueError(
            f"loss='stages' needs iterations that are a multiple of the {stages} stages, got {steps}"
        )
    each = steps // stages
    ends = [place for place, step in enumerate(trace.steps) if step % each == 0]
    first = trace.steps[ends[0]] // each - 1
    return _over_questions(_losses(trace.predictions[ends], prompt.stages[first:], prompt.classes), weights)


def log_loss(
    trace: Trace,
    prompt: Prompt,
    weights: Float[Tensor, " point"] | None = None,
    *,
    over_all: Callable[[Tensor], Tensor] = torch.clone,
) -> Float[Tensor, ""]:
    """Return the mean over the window's steps and the questions of the logarithm of their squared error.

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


def _losses(
    predictions: Float[Tensor, "step batch point out"],
    answers: Float[Tensor, "... batch point out"],
    classes: bool,
) -> Float[Tensor, " point"]:
    """Return the mean loss of each question."""
    predictions = _at_least_single(predictions)
    if classes:
        return -(answers * predictions.log_softmax(dim=-1)).sum(dim=-1).mean(dim=(0, 1))
    return (predictions - answers).square().mean(dim=(0, 1, 3))


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
    """Return the squared error of the last step at one question, summed over the answer's numbers.

    Where answers are classes, it is the share of wrong answers to all questions.

    >>> trace = Trace(predictions=torch.tensor([9.0, 2.0, 5.0]).reshape(1, 1, 3, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 3, 1), targets=torch.zeros(1, 3, 1), reads=(0, 1, 2))
    >>> error_at(trace, prompt, torch.tensor([1])).item()
    4.0
    """
    if prompt.classes:
        return (trace.final.argmax(dim=-1) != prompt.targets.argmax(dim=-1)).float().mean()
    # a number on the device: a captured graph reads whatever it holds at the time
    answers, targets = (
        trace.predictions[-1].index_select(1, question),
        prompt.targets.index_select(1, question),
    )
    return (_at_least_single(answers) - targets).square().sum() / len(targets)
