"""Conclusions in words, from measured numbers."""

from __future__ import annotations

from collections.abc import Sequence

from algoformer.evaluation import Evaluation
from algoformer.evaluation.tables import show

UNLEARNED = 0.9
"""A model with a larger error does hardly better than the answer 0, whose error is 1."""


def conclusion(
    model: Evaluation, rivals: Sequence[Evaluation], *, trained: int, looping: bool, examples: int | None
) -> str:
    """Return what measurements of a model and of textbook methods say, in two or three sentences.

    The errors are those on the last question, after `trained` iterations and after the last one measured.
    `examples` is None where prompts have no examples.
    """
    own = model.by_step.at(trained)
    setting = f"On {_prompts(model)}"
    if examples is not None:
        setting += f" with {examples} example{'' if examples == 1 else 's'}"
    if not own < UNLEARNED:
        cost = f"its mean squared error is {show(own)}, and always answering 0 costs about 1"
        return f"{setting} this model has not learned the task: {cost}."
    if not looping:
        others = ", ".join(f"{rival.label} {show(rival.by_step.at(trained))}" for rival in rivals)
        return f"{setting} this model's mean squared error is {show(own)}; after {_steps(trained)} {others}."
    first = model.by_step.at(1)
    text = f"{setting} the loop brings the mean squared error from {show(first)} after one iteration to "
    text += f"{show(own)} after {trained}"
    if rivals:
        others = ", ".join(f"of {rival.label} {show(rival.by_step.at(trained))}" for rival in rivals)
        text += f"; as many steps {others}"
    if model.steps > trained:
        text += f". After {model.steps} iterations it is {_held(own, model.by_step.final)}"
    return text + "."


def puzzle_conclusion(model: Evaluation, rivals: Sequence[Evaluation], *, trained: int, looping: bool) -> str:
    """Return what measurements say where answers are classes: shares of prompts without a wrong answer."""
    own = _solved(model, trained)
    text = f"On {_prompts(model)} the "
    if looping:
        text += f"loop solves {_percent(_solved(model, 1))} after one iteration "
        text += f"and {_percent(own)} after {trained}"
    else:
        text += f"model solves {_percent(own)}"
    if rivals:
        text += "; " + ", ".join(
            f"after as many iterations {rival.label} solves {_percent(_solved(rival, trained))}"
            for rival in rivals
        )
    if looping and model.steps > trained and own > 0:
        later = _solved(model, model.steps)
        word = "the answer holds" if later >= own - 0.02 else "the loop drifts"
        text += f". After {model.steps} iterations it solves {_percent(later)}: {word}"
    return text + ". A prompt is solved if no answer in it is wrong."


def theorem_conclusion(method: str, deviation: float, *, steps: int, prompts: int) -> str:
    """Return what the comparison of hand-built weights with their textbook method says."""
    return (
        f"No weight of this transformer was trained: each iteration of its loop is one step of {method}. "
        f"On {prompts} prompts and {steps} iterations the largest difference from the textbook is "
        f"{show(deviation)}."
    )


def _held(own: float, later: float) -> str:
    if later <= 1.5 * own:
        return f"{show(later)}: the answer holds"
    return f"{show(later)}: the loop drifts"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _prompts(model: Evaluation) -> str:
    return "one new prompt" if model.prompts == 1 else f"{model.prompts} new prompts"


def _solved(result: Evaluation, steps: int) -> float:
    assert result.unsolved is not None
    return 1 - result.unsolved.at(steps)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
