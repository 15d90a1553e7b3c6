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
    trace: Trace,
    prompt: Prompt,
    weights: Float[Tensor, " point"] | None = None,
    shares: tuple[float, ...] | None = None,
) -> Float[Tensor, ""]:
    """Return the squared error, a true mean over steps of the window, prompts, answers and questions.

    Where answers are classes, it is their cross-entropy.

    `weights` says how much each question counts (a points curriculum has zeros), `shares` how much each step
    does, with sum 1; None counts all alike.

    >>> trace = Trace(predictions=torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 1, 1), targets=torch.zeros(1, 1, 1), reads=(0,))
    >>> window_loss(trace, prompt).item()
    5.0
    """
    if shares is None:
        return over_questions(_losses(trace.predictions, prompt.targets, prompt.classes), weights)
    by_step = [_losses(one[None], prompt.targets, prompt.classes) for one in trace.predictions]
    return over_questions(_shared(by_step, shares), weights)


def stage_loss(
    trace: Trace,
    prompt: Prompt,
    weights: Float[Tensor, " point"] | None = None,
    *,
    stage_steps: int | None = None,
) -> Float[Tensor, ""]:
    """The loss of the answers after each stage of a computation, each against the answer of its stage.

    With T iterations and S stages, stage s is complete after iteration s T / S, or s times `stage_steps`.
    Other iterations do not count, and neither do stages after the last iteration.

    Raises:
        ValueError: the prompt has no stages, T is not a multiple of S, or no stage ends in the window.

    >>> trace = Trace(predictions=torch.tensor([9.0, 1.0, 9.0, 2.0]).reshape(4, 1, 1, 1))
    >>> stages = torch.tensor([1.0, 4.0]).reshape(2, 1, 1, 1)
    >>> prompt = Prompt(rows=torch.zeros(1, 1, 1), targets=stages[-1], reads=(0,), stages=stages)
    >>> stage_loss(trace, prompt).item()
    2.0
    """
    if prompt.stages is None:
        raise ValueError("loss='stages' needs a task whose prompts have stages, such as chain_of_solves")
    steps, stages = trace.steps[-1], prompt.stages.shape[0]
    if steps % stages and stage_steps is None:
        raise ValueError(
            f"loss='stages' needs iterations that are a multiple of the {stages} stages, got {steps}; "
            "set stage_steps, the iterations of a stage"
        )
    each = stage_steps or steps // stages
    ends = [place for place, step in enumerate(trace.steps) if step % each == 0 and step <= each * stages]
    if not ends:
        raise ValueError(
            f"loss='stages' found no stage among iterations {trace.steps[0]}..{steps}, where a stage has "
            f"{each}; widen the window"
        )
    first, last = (trace.steps[end] // each for end in (ends[0], ends[-1]))
    answers = prompt.stages[first - 1 : last]
    predictions = trace.predictions[ends[0] : ends[-1] + 1 : each]  # no index that a graph had to copy
    return over_questions(_losses(predictions, answers, prompt.classes), weights)


def log_loss(
    trace: Trace,
    prompt: Prompt,
    weights: Float[Tensor, " point"] | None = None,
    *,
    over_all: Callable[[Tensor], Tensor] = torch.clone,
    shares: tuple[float, ...] | None = None,
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
        shares: how much each step counts, as in `window_loss`.

    >>> trace = Trace(predictions=torch.tensor([10.0, 0.1]).reshape(1, 1, 2, 1), first_step=1)
    >>> prompt = Prompt(rows=torch.zeros(1, 2, 1), targets=torch.zeros(1, 2, 1), reads=(0, 1))
    >>> round(log_loss(trace, prompt).exp().item(), 6)
    1.0
    """
    errors = (at_least_single(trace.predictions) - prompt.targets).square().mean(dim=(1, 3))
    whole = over_all(errors.detach()) + FLOOR
    # the value is that of all processes; the gradient that of this one's errors, divided by all of theirs
    share = errors / whole
    logarithms = whole.log() + (share - share.detach())
    by_question = logarithms.mean(dim=0) if shares is None else _shared(list(logarithms), shares)
    return over_questions(by_question, weights)


def _shared(values: list[Float[Tensor, " point"]], shares: tuple[float, ...]) -> Float[Tensor, " point"]:
    # by numbers of Python: a captured graph copies nothing from the host
    return torch.stack([share * value for share, value in zip(shares, values, strict=True)]).sum(dim=0)


def _losses(
    predictions: Float[Tensor, "step batch point out"],
    answers: Float[Tensor, "... batch point out"],
    classes: bool,
) -> Float[Tensor, " point"]:
    """Return the mean loss of each question."""
    predictions = at_least_single(predictions)
    if classes:
        return -(answers * predictions.log_softmax(dim=-1)).sum(dim=-1).mean(dim=(0, 1))
    return (predictions - answers).square().mean(dim=(0, 1, 3))


def losses_by_step(
    predictions: Float[Tensor, "step batch point out"], prompt: Prompt
) -> Float[Tensor, "step batch point"]:
    """Return the loss of each answer: squared error over its numbers, or cross-entropy of its classes."""
    predictions = at_least_single(predictions)
    if prompt.classes:
        return -(prompt.targets * predictions.log_softmax(dim=-1)).sum(dim=-1)
    return (predictions - prompt.targets).square().mean(dim=-1)


def over_questions(
    values: Float[Tensor, " point"], weights: Float[Tensor, " point"] | None
) -> Float[Tensor, ""]:
    """Return the mean of a value of each question, weighted."""
    if weights is None:
        return values.mean()
    return torch.dot(values, weights.to(values.dtype)) / weights.sum()


def at_least_single(values: Tensor) -> Tensor:
    """Return values in single precision, or as they are if that is higher."""
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
    answers = trace.predictions[-1].index_select(1, question)
    targets = prompt.targets.index_select(1, question)
    return (at_least_single(answers) - targets).square().sum() / len(targets)
