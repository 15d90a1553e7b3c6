"""Errors of something that answers at chosen depths, all from one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.evaluation.bootstrap import curve_of
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.errors import Progress, samples_seen
from algoformer.evaluation.evaluation import Against
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll

AnswersAt = Callable[[Prompt, Sequence[int]], Iterator[tuple[int, Tensor]]]
"""Answers (batch, point, out) to a prompt after each of the asked-for numbers of iterations."""


@dataclass(frozen=True, kw_only=True)
class DepthErrors:
    """Errors with bands: on the last sample at every depth, on all samples at a few of them."""

    by_depth: Curve
    by_sample: dict[int, Curve]


def errors_at(
    answers_at: AnswersAt,
    prompt: Prompt,
    *,
    depths: Sequence[int],
    whole: Collection[int] = (),
    scale: int | float,
    against: Sequence[Against] = ("clean",),
    label: str = "",
    batch: int = 256,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[Against, DepthErrors]:
    """Mean squared errors divided by `scale`, with 5–95 % bootstrap bands, against each kind of answer.

    Args:
        answers_at: what is measured; see `solver_answers` for a solver.
        prompt: what to answer.
        depths: where to look at the last sample.
        whole: those of the depths at which all samples are looked at.
        scale: what errors are divided by.
        against: the kinds of answers to measure against.
        label: of the curves.
        batch: the most prompts to run at once.
        seed: of the bootstrap.
        progress: called with the prompts done and in all.
    """
    strange = sorted(set(whole) - set(depths))
    if strange:
        raise ValueError(f"whole must be among the depths, got {strange[0]} beside {tuple(depths)}")
    wanted = {kind: _answers(prompt, kind) for kind in against}
    seen = torch.tensor(samples_seen(prompt))
    groups = [torch.nonzero(seen == count).flatten() for count in seen.unique()]
    last = groups[-1]
    by_depth = {kind: np.empty((prompt.batch, len(depths))) for kind in against}
    by_sample = {kind: {depth: np.empty((prompt.batch, len(groups))) for depth in whole} for kind in against}
    for start in range(0, prompt.batch, batch):
        chunk = slice(start, start + batch)
        for place, (depth, answers) in enumerate(answers_at(prompt.select(chunk), depths)):
            given = answers if depth in whole else answers[:, last.to(answers.device)]
            given = given.cpu().double()
            for kind, targets in wanted.items():
                right = targets[chunk] if depth in whole else targets[chunk][:, last]
                squares = (given - right).square().sum(dim=-1) / scale
                if depth in whole:
                    means = torch.stack([squares[:, group].mean(dim=1) for group in groups], dim=1)
                    by_sample[kind][depth][chunk] = means.numpy()
                    squares = squares[:, last]
                by_depth[kind][chunk, place] = squares.mean(dim=1).numpy()
        if progress is not None:
            progress(min(start + batch, prompt.batch), prompt.batch)
    bands: dict[str, Any] = {"label": label, "seed": seed}
    counts = seen.unique().tolist()
    return {
        kind: DepthErrors(
            by_depth=curve_of(by_depth[kind], axis="iterations", x=depths, **bands),
            by_sample={
                depth: curve_of(errors, axis="samples", x=counts, **bands)
                for depth, errors in by_sample[kind].items()
            },
        )
        for kind in against
    }


def solver_answers(solver: Solver) -> AnswersAt:
    """Any solver as something that answers at chosen depths: it is unrolled to the deepest of them."""

    def answers(prompt: Prompt, depths: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        predictions = solver(prompt, Unroll(steps=depths[-1])).predictions
        for depth in depths:
            yield depth, predictions[depth - 1]

    return answers


def _answers(prompt: Prompt, against: Against) -> Float[Tensor, "batch point out"]:
    if against == "shown":
        return prompt.targets.cpu().double()
    if prompt.clean is None:
        raise ValueError("this prompt does not hold its answers without noise; measure against='shown'")
    return prompt.clean.cpu().double()
