"""Conclusions in words, from measured numbers and from identifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from algoformer.common.plain_data import is_number
from algoformer.common.tables import show
from algoformer.evaluation import Evaluation
from algoformer.evaluation.evaluation import UNLEARNED
from algoformer.insight import Identification

REMEDY = "write the file with algoformer identify MODEL --out FOLDER"


def conclusion(
    model: Evaluation, rivals: Sequence[Evaluation], *, trained: int, looping: bool, examples: int | None
) -> str:
    """Return what measurements of a model and of textbook methods say, in two or three sentences.

    The errors are those on the last question, after `trained` iterations and after the last one measured,
    which may come earlier. `examples` is None where prompts have no examples.
    """
    whole, trained = trained, min(trained, model.steps)
    own = model.by_step.at(trained)
    setting = f"On {_prompts(model)}"
    if examples is not None:
        setting += f" with {examples} example{'' if examples == 1 else 's'}"
    if not own < UNLEARNED:
        cost = f"its mean squared error is {show(own)}, and always answering 0 costs about 1"
        if trained < whole:
            return f"{setting} this model was stopped after {trained} of {_steps(whole)}: {cost}."
        return f"{setting} this model has not learned the task: {cost}."
    if not looping:
        others = ", ".join(f"{rival.label} {show(rival.by_step.at(trained))}" for rival in rivals)
        return f"{setting} this model's mean squared error is {show(own)}; after {_steps(trained)} {others}."
    first = model.by_step.at(1)
    text = f"{setting} the loop brings the mean squared error from {show(first)} after one iteration to "
    text += f"{show(own)} after {trained}"
    if rivals:
        others = ", ".join(f"{rival.label} {show(rival.by_step.at(trained))}" for rival in rivals)
        text += f". Errors after as many steps: {others}"
    if model.steps > trained:
        later = model.by_step.final
        word = "the answer holds" if later <= 1.5 * own else "the loop drifts"
        text += f". After {model.steps} iterations the loop's error is {show(later)}: {word}"
    return text + "."


def puzzle_conclusion(model: Evaluation, rivals: Sequence[Evaluation], *, trained: int, looping: bool) -> str:
    """Return what measurements say where answers are classes: shares of prompts without a wrong answer."""
    trained = min(trained, model.steps)
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


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _prompts(model: Evaluation) -> str:
    return "one new prompt" if model.prompts == 1 else f"{model.prompts} new prompts"


def _solved(result: Evaluation, steps: int) -> float:
    assert result.unsolved is not None
    return 1 - result.unsolved.at(steps)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def verdict_of(found: object) -> dict[str, Any]:
    """Return the verdict in words and the spectral filters of an identification, given as JSON data.

    >>> verdict_of({"sentence": "Runs gradient descent."})
    {'verdict': 'Runs gradient descent.', 'filters': None}

    Raises:
        ValueError: the data is not an identification, or its filters do not fit together.
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"an identification is an object, got {type(found).__name__}; {REMEDY}")
    return {"verdict": _sentence(found), "filters": _filters(found.get("curves") or {})}


def _sentence(found: Mapping[str, Any]) -> str:
    if isinstance(found.get("sentence"), str):
        return str(found["sentence"])
    try:
        sentence = Identification.from_data(found).sentence
    except ValueError as error:
        raise ValueError(f"{error}; {REMEDY}") from None
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _filters(curves: object) -> dict[str, Any] | None:
    """Return the filters r_t(λ) of the model and of candidates, one curve for each pass."""
    if not curves:
        return None
    if not isinstance(curves, Mapping):
        raise ValueError(
            f"curves of an identification must be an object, got {type(curves).__name__}; {REMEDY}"
        )
    places, candidates = curves.get("eigenvalues"), curves.get("candidates", {})
    series = {"the model": curves.get("measured"), **(candidates if isinstance(candidates, Mapping) else {})}
    if not isinstance(places, list) or len(places) < 2 or not all(map(is_number, places)):
        raise ValueError(f"eigenvalues of an identification must be a list of numbers; {REMEDY}")
    for name, passes in series.items():
        fits = isinstance(passes, list) and all(
            isinstance(curve, list) and len(curve) == len(places) and all(map(is_number, curve))
            for curve in passes
        )
        if not fits or not passes:
            raise ValueError(f"the filter of {name!r} needs {len(places)} numbers for each pass; {REMEDY}")
    return {"eigenvalues": places, "series": series}
