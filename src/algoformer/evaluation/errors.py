"""Errors of a solver, prompt by prompt, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.evaluation.evaluation import Against
from algoformer.evaluation.solvers import ReadsDepths, checked, device_of, full_precision, given_to
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll

Progress = Callable[[int, int], None]
"""A callback that gets the amounts of work done and in total, in any unit."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors divided by the scale: on the last sample by depth, by sample at some of the depths.

    `unsolved` is 1 where at least one answer of a prompt is the wrong class and 0 elsewhere; None where
    answers are numbers.
    """

    samples: tuple[int, ...]
    depths: tuple[int, ...]
    by_sample: Mapping[int, Float[np.ndarray, "prompt sample"]]
    by_depth: Float[np.ndarray, "prompt depth"]
    unsolved: Float[np.ndarray, "prompt depth"] | None = None


def samples_seen(prompt: Prompt) -> tuple[int, ...]:
    """Return the number of complete samples before each question.

    A question about y_i of a pair has seen i of them, every layer of a chain's sample i as well; in a
    series each row is a sample, so the question read at row r has seen r + 1. Prompts whose rows show no
    answers have no samples, nor has a sequence of symbols: all their questions belong together.
    """
    if not prompt.answers_in_rows or (prompt.classes and prompt.parts == 1):
        return (0,) * prompt.points
    return tuple((row + 1) // prompt.parts for row in prompt.reads)


def measure(
    solver: Solver,
    prompt: Prompt,
    depths: Sequence[int],
    *,
    whole: Collection[int],
    against: Sequence[Against],
    batch: int,
    at_once: int,
    progress: Progress | None = None,
) -> dict[Against, Errors]:
    """Return the errors on every prompt after each number of iterations, against each kind of answer.

    All samples are looked at where a depth is among `whole`, elsewhere the last one. A few prompts and a
    few depths are read at a time: a solver is asked for at most `at_once` rows × depths together (and never
    for less than one prompt and one depth). Depths that follow one another are read from one run, and with
    gaps between them too, if the solver `ReadsDepths`; for all others the iterations are run again.
    """
    for name, most in {"batch": batch, "at_once": at_once}.items():
        if most < 1:
            raise ValueError(f"{name} must be at least 1, got {most}")
    scale = prompt.divisor
    wanted = {kind: _answers(prompt, kind) for kind in against}
    groups = _Groups(prompt)
    length = prompt.rows.shape[1]
    pieces = _pieces(depths, max(1, at_once // length), gaps=isinstance(solver, ReadsDepths))
    size = max(1, min(batch, at_once // (length * max(map(len, pieces)))))
    found = {kind: _empty(prompt, depths, whole, groups.samples) for kind in against}
    done, total = 0, prompt.batch * sum(piece[-1] for piece in pieces)
    with full_precision(solver, device_of(solver, prompt)):
        for start in range(0, prompt.batch, size):
            chunk, first = slice(start, start + size), 0
            given = given_to(solver, prompt.select(chunk))
            for piece in pieces:
                predictions = _predictions(solver, given, piece)
                columns, first = slice(first, first + len(piece)), first + len(piece)
                for kind, answers in wanted.items():
                    last = groups.last(predictions, answers[chunk])
                    found[kind].by_depth[chunk, columns] = last.T.numpy() / scale
                    if (unsolved := found[kind].unsolved) is not None:
                        wrong = _wrong(predictions, answers[chunk])
                        unsolved[chunk, columns] = wrong.amax(dim=-1).T.numpy()
                    for place, depth in enumerate(piece):
                        if depth in whole:
                            every = groups.all(predictions[place], answers[chunk])
                            found[kind].by_sample[depth][chunk] = every.numpy() / scale
                done += given.batch * piece[-1]
                if progress is not None:
                    progress(done, total)
    return found


def _empty(prompt: Prompt, depths: Sequence[int], whole: Collection[int], samples: tuple[int, ...]) -> Errors:
    prompts = prompt.batch
    return Errors(
        samples=samples,
        depths=tuple(depths),
        by_sample={depth: np.empty((prompts, len(samples))) for depth in depths if depth in whole},
        by_depth=np.empty((prompts, len(depths))),
        unsolved=np.empty((prompts, len(depths))) if prompt.classes else None,
    )


class _Groups:
    """The questions of a prompt, put together by the number of samples seen before them."""

    def __init__(self, prompt: Prompt) -> None:
        seen = samples_seen(prompt)
        self.errors = _wrong if prompt.classes else _squares
        self.samples = tuple(sorted(set(seen)))
        self.places = [
            [place for place, count in enumerate(seen) if count == sample] for sample in self.samples
        ]

    def all(
        self, predictions: Float[Tensor, "batch point out"], answers: Float[Tensor, "batch point out"]
    ) -> Float[Tensor, "batch sample"]:
        """Return the errors for each number of samples."""
        errors = self.errors(predictions, answers)
        # a mean for each group, not a product with zeros and ones, in which a NaN would spread to all
        return torch.stack([errors[:, group].mean(dim=1) for group in self.places], dim=1)

    def last(
        self, predictions: Float[Tensor, "depth batch point out"], answers: Float[Tensor, "batch point out"]
    ) -> Float[Tensor, "depth batch"]:
        """Return the errors on the last sample after each of these depths."""
        group = self.places[-1]
        return self.errors(predictions[:, :, group], answers[:, group]).mean(dim=-1)


def _answers(prompt: Prompt, against: Against) -> Float[Tensor, "batch point out"]:
    if against == "shown":
        return prompt.targets.cpu().double()
    if against != "clean":
        raise ValueError(f"against must be 'clean' or 'shown', got {against!r}")
    if prompt.clean is None:
        raise ValueError("this prompt does not hold its answers without noise; measure against='shown'")
    return prompt.clean.cpu().double()


def _pieces(depths: Sequence[int], most: int, *, gaps: bool) -> list[list[int]]:
    """Split depths into lists that one run each reads, of bounded length, with or without gaps."""
    pieces: list[list[int]] = []
    for depth in depths:
        if pieces and len(pieces[-1]) < most and (gaps or depth == pieces[-1][-1] + 1):
            pieces[-1].append(depth)
        else:
            pieces.append([depth])
    return pieces


def _predictions(
    solver: Solver, prompt: Prompt, depths: Sequence[int]
) -> Float[Tensor, "depth batch point out"]:
    if isinstance(solver, ReadsDepths) and depths[-1] - depths[0] >= len(depths):
        predictions = solver.at_depths(prompt, depths)
    else:
        predictions = solver(prompt, Unroll(steps=depths[-1], window=len(depths))).predictions
    return checked(predictions, prompt, len(depths))


def _squares(
    predictions: Float[Tensor, "*step batch point out"], answers: Float[Tensor, "batch point out"]
) -> Float[Tensor, "*step batch point"]:
    return (predictions.cpu().double() - answers).square().sum(dim=-1)


def _wrong(
    predictions: Float[Tensor, "*step batch point out"], answers: Float[Tensor, "batch point out"]
) -> Float[Tensor, "*step batch point"]:
    """Return 1 where the largest logit is at another class, 0 where it is right, NaN for logits that are."""
    logits = predictions.cpu().double()
    wrong = (logits.argmax(dim=-1) != answers.argmax(dim=-1)).double()
    return torch.where(logits.isfinite().all(dim=-1), wrong, torch.nan)
