"""A page of classifications by iteration, computed in advance: tokens of a text or cells of a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from algoformer.report.explorer.page import page_data, scripts
from algoformer.report.page import Page, render

ABOUT = (
    "The answers on this page were computed in Python when the page was written; the model itself is not in "
    "the file. The page makes no request and works offline."
)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of a model to one input, after every iteration of its loop.

    Attributes:
        title: the input in a few words.
        names: what stands at each position: a token, or the name of a cell.
        answers: the most probable class at each position, a row for each iteration.
        probabilities: the probability of that class, in the same shape.
        targets: the correct classes, one for each position; empty where they are not known.
        grid: (rows, columns) of a board, whose positions are its cells row by row; None for a text.
    """

    title: str
    names: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    probabilities: tuple[tuple[float, ...], ...]
    targets: tuple[str, ...] = ()
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        count = len(self.names)
        if not self.answers or len(self.answers) != len(self.probabilities):
            raise ValueError(
                f"answers and probabilities need a row for each iteration, got {len(self.answers)} and "
                f"{len(self.probabilities)} rows"
            )
        for row in (*self.answers, *self.probabilities):
            if len(row) != count:
                raise ValueError(f"each iteration must answer all {count} positions, got {len(row)}")
        if self.targets and len(self.targets) != count:
            raise ValueError(f"targets must be empty or name {count} classes, got {len(self.targets)}")
        if self.grid is not None and self.grid[0] * self.grid[1] != count:
            raise ValueError(f"a grid of {self.grid[0]} × {self.grid[1]} cells cannot show {count} positions")

    @property
    def exits(self) -> tuple[int, ...]:
        """The iteration from which the answer at each position no longer changes, counted from 1."""
        return tuple(_exit([row[place] for row in self.answers]) for place in range(len(self.names)))

    def to_data(self) -> dict[str, Any]:
        """Return the answers as JSON data, probabilities with four digits."""
        return {
            "title": self.title,
            "names": list(self.names),
            "answers": [list(row) for row in self.answers],
            "probabilities": [[round(value, 4) for value in row] for row in self.probabilities],
            "targets": list(self.targets),
            "grid": self.grid,
            "exits": list(self.exits),
        }


def _exit(answers: Sequence[str]) -> int:
    changes = [step for step in range(1, len(answers)) if answers[step] != answers[step - 1]]
    return changes[-1] + 1 if changes else 1


def answers_of(
    scores: Tensor,
    labels: Sequence[str] | Mapping[int, str],
    *,
    title: str,
    names: Sequence[str],
    **options: Any,
) -> Answers:
    """Return the answers that scores give.

    >>> import torch
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 9.0], [0.0, 9.0]]])
    >>> answers_of(scores, ["no", "yes"], title="a board", names=["A", "B"], grid=(1, 2)).exits
    (2, 1)

    Args:
        scores: logits by (iteration, position, class).
        labels: the names of the classes, by number; of many classes those that are answered suffice.
        title: as for `Answers`, and so are `names` and the options `targets` and `grid`.
    """
    best, places = scores.double().softmax(dim=-1).max(dim=-1)
    return Answers(
        title=title,
        names=tuple(names),
        answers=tuple(tuple(labels[place] for place in row) for row in places.tolist()),
        probabilities=tuple(map(tuple, best.tolist())),
        **options,
    )


def answers_page(page: Page, shown: Sequence[Answers], *, trained: int, hint: str) -> str:
    """Return one self-contained HTML file with the answers to some inputs after every iteration.

    Args:
        page: title, lead, further sections and facts.
        shown: the inputs with their answers.
        trained: the number of iterations in training.
        hint: what a position is and what its answer means.
    """
    if not shown:
        raise ValueError("there must be at least one input to show, got none")
    texts = {
        "template": "explorer/page/answers.html",
        "hint": hint,
        "about": ABOUT,
        "engine": "",
        "scripts": scripts(("charts", "player", "cells", "answers")),
        "data": page_data({"trained": trained, "inputs": [one.to_data() for one in shown]}),
    }
    return render(page, texts)
