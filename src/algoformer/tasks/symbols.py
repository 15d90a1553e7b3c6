"""The base classes of tasks without examples: symbols in and classes out, or a matrix in and a vector out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Trace, Unroll, constant_trace


@dataclass(frozen=True, kw_only=True)
class PuzzleTask(ABC):
    """A task whose prompts are one whole question, such as a board, a sequence or a matrix; abstract.

    A subclass has the members of `Task`, and `textbook`, the classical algorithm that answers its prompts.
    """

    @property
    def noise(self) -> float:
        """Answers have no noise."""
        return 0.0

    @property
    def parts(self) -> int:
        """A row is not part of an example."""
        return 1

    @property
    def answers_in_rows(self) -> bool:
        """No row shows an answer, so that programs may use full attention."""
        return False

    @property
    def scale(self) -> float:
        """Errors are not divided."""
        return 1.0

    @property
    def takes_dims(self) -> bool:
        """There is no curriculum over coordinates."""
        return False

    @abstractmethod
    def textbook(self) -> Solver:
        """Return the classical algorithm that answers the prompts of this task."""

    def problems(self, prompt: Prompt) -> Problems:
        """Refuse: such prompts hold no regression problem.

        Raises:
            ValueError: always; the message names the textbook algorithm instead.
        """
        raise ValueError(
            f"{type(self).__name__} has no regression problem inside its prompts; "
            "compare with its own algorithm, task.textbook()"
        )


def one_hot(
    symbols: Int[Tensor, "batch row"], count: int, dtype: torch.dtype
) -> Float[Tensor, "batch row out"]:
    """Return rows of `count` numbers with a one at the symbol."""
    return (symbols[..., None] == torch.arange(count, device=symbols.device)).to(dtype)


def symbol_prompt(
    symbols: Int[Tensor, "batch row"],
    answers: Int[Tensor, "batch question"],
    *,
    reads: tuple[int, ...],
    dim: int,
    out: int,
    dtype: torch.dtype,
    answers_in_rows: bool = False,
) -> Prompt:
    """Return prompts of one-hot rows that ask for one of `out` classes at each of the rows `reads`."""
    targets = one_hot(answers, out, dtype)
    return Prompt(
        rows=one_hot(symbols, dim, dtype),
        targets=targets,
        clean=targets,
        reads=reads,
        classes=True,
        answers_in_rows=answers_in_rows,
    )


@dataclass(frozen=True)
class Iteration:
    """A textbook algorithm as a solver: an endless sequence of answers, one after each iteration."""

    answers: Callable[[Prompt], Iterator[Float[Tensor, "batch point out"]]]

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Run the algorithm and return the answers of the window."""
        if unroll.keep:
            return constant_trace(prompt.targets, unroll)  # which refuses: there are no hidden states
        read = islice(self.answers(prompt), unroll.first_step - 1, unroll.steps)
        return Trace(predictions=torch.stack(list(read)), first_step=unroll.first_step)


def textbook(answers: Callable[[Prompt], Iterator[Float[Tensor, "batch point out"]]]) -> Solver:
    """Return a solver from a function that yields the answers after each iteration."""
    return Iteration(answers)
