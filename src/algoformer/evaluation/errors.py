"""Squared errors of a solver, prompt by prompt, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.evaluation.evaluation import Against
from algoformer.evaluation.precision import full_precision
from algoformer.evaluation.solvers import device_of, given_to
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll

Progress = Callable[[int, int], None]
"""Told how much is done and how much there is, in any unit."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Squared errors divided by the scale: after the last step by sample, and on the last sample by step."""

    samples: tuple[int, ...]
    steps: tuple[int, ...]
    by_sample: Float[np.ndarray, "prompt sample"]
    by_step: Float[np.ndarray, "prompt step"]


def samples_seen(prompt: Prompt) -> tuple[int, ...]:
    """How many complete samples the rows up to each question show.

    A question about y_i of a pair has seen i of them, every layer of a chain's sample i as well; in a
    series each row is a sample, so the question read at row r has seen r + 1.
    """
    return tuple((row + 1) // prompt.parts for row in prompt.reads)


def measure(
    solver: Solver,
    prompt: Prompt,
    unroll: Unroll,
    *,
    scale: float,
    against: Against,
    batch: int,
    at_once: int,
    progress: Progress | None = None,
) -> Errors:
    """Errors on every prompt, a few prompts and a few steps of the window at a time.

    A solver is asked for at most `at_once` rows × steps together (and never for less than one prompt and
    one step). If one prompt over the whole window is more than that, the window is read in pieces, and
    the iterations before each piece are run again.
    """
    for name, most in {"batch": batch, "at_once": at_once}.items():
        if most < 1:
            raise ValueError(f"{name} must be at least 1, got {most}")
    answers = _answers(prompt, against)
    groups = _Groups(prompt)
    length = prompt.rows.shape[1]
    pieces = list(_pieces(unroll, max(1, at_once // length)))
    size = max(1, min(batch, at_once // (length * max(piece.length for piece in pieces))))
    by_sample = np.empty((prompt.batch, len(groups.samples)))
    by_step = np.empty((prompt.batch, unroll.length))
    done, total = 0, prompt.batch * sum(piece.steps for piece in pieces)
    with full_precision(solver, device_of(solver, prompt)):
        for start in range(0, prompt.batch, size):
            chunk = slice(start, start + size)
            given, wanted = given_to(solver, prompt.select(chunk)), answers[chunk]
            for piece in pieces:
                predictions = _predictions(solver, given, piece)
                columns = slice(piece.first_step - unroll.first_step, piece.steps - unroll.first_step + 1)
                by_step[chunk, columns] = groups.last(predictions, wanted).T.numpy() / scale
                done += given.batch * piece.steps
                if progress is not None:
                    progress(done, total)
            by_sample[chunk] = groups.all(predictions[-1], wanted).numpy() / scale
    steps = tuple(range(unroll.first_step, unroll.steps + 1))
    return Errors(samples=groups.samples, steps=steps, by_sample=by_sample, by_step=by_step)


class _Groups:
    """The questions of a prompt, put together by the number of samples seen before them."""

    def __init__(self, prompt: Prompt) -> None:
        seen = samples_seen(prompt)
        self.samples = tuple(sorted(set(seen)))
        self.places = [
            [place for place, count in enumerate(seen) if count == sample] for sample in self.samples
        ]

    def all(
        self, predictions: Float[Tensor, "batch point out"], answers: Float[Tensor, "batch point out"]
    ) -> Float[Tensor, "batch sample"]:
        """Squared errors for each number of samples."""
        squares = _squares(predictions, answers)
        # a mean for each group, not a product with zeros and ones, in which a NaN would spread to all
        return torch.stack([squares[:, group].mean(dim=1) for group in self.places], dim=1)

    def last(
        self, predictions: Float[Tensor, "step batch point out"], answers: Float[Tensor, "batch point out"]
    ) -> Float[Tensor, "step batch"]:
        """Squared errors on the last sample after each step."""
        group = self.places[-1]
        return _squares(predictions[:, :, group], answers[:, group]).mean(dim=-1)


def _answers(prompt: Prompt, against: Against) -> Float[Tensor, "batch point out"]:
    if against == "shown":
        return prompt.targets.cpu().double()
    if against != "clean":
        raise ValueError(f"against must be 'clean' or 'shown', got {against!r}")
    if prompt.clean is None:
        raise ValueError("this prompt does not hold its answers without noise; measure against='shown'")
    return prompt.clean.cpu().double()


def _pieces(unroll: Unroll, most: int) -> Iterator[Unroll]:
    for first in range(unroll.first_step, unroll.steps + 1, most):
        last = min(first + most - 1, unroll.steps)
        yield Unroll(steps=last, window=last - first + 1)


def _predictions(solver: Solver, prompt: Prompt, unroll: Unroll) -> Float[Tensor, "step batch point out"]:
    predictions = solver(prompt, unroll).predictions
    wanted = (unroll.length, *prompt.targets.shape)
    if tuple(predictions.shape) != wanted:
        raise ValueError(
            f"the solver answered with predictions of shape {tuple(predictions.shape)} "
            f"instead of {wanted} (step, batch, point, out)"
        )
    return predictions


def _squares(
    predictions: Float[Tensor, "*step batch point out"], answers: Float[Tensor, "batch point out"]
) -> Float[Tensor, "*step batch point"]:
    return (predictions.cpu().double() - answers).square().sum(dim=-1)
