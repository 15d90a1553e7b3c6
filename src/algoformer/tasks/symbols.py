"""The base classes of tasks without examples: symbols in and classes out, or a matrix in and a vector out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks.task import AllDimsTask
from algoformer.trace import Solver, iterated_trace

Answers = Iterator[Float[Tensor, "batch point out"]]
"""The answers of a textbook algorithm after each iteration; the last ones are kept when it ends."""


@dataclass(frozen=True, kw_only=True)
class PuzzleTask(ABC):
    """A task whose prompts are one whole question, such as a board, a sequence or a matrix; abstract.

    A subclass has the members of `Task`, and `textbook_answers`, the classical algorithm for its prompts.
    Answers have no noise, a row is not part of an example, and there is no curriculum over coordinates.
    """

    noise: ClassVar[float] = 0.0
    parts: ClassVar[int] = 1
    takes_dims: ClassVar[bool] = False
    answers_in_rows: ClassVar[bool] = False
    """True if rows show answers, so that programs must be causal."""

    @property
    def scale(self) -> float:
        """Errors are not divided."""
        return 1.0

    @abstractmethod
    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the classical algorithm on prompts: yield its answers after each iteration."""

    def textbook(self) -> Solver:
        """Return the classical algorithm of this task as a solver; see `textbook_answers`."""
        return lambda prompt, unroll: iterated_trace(self.textbook_answers(prompt), unroll)

    def problems(self, prompt: Prompt) -> Problems:
        """Refuse: such prompts hold no regression problem."""
        raise ValueError(
            f"{type(self).__name__} has no regression problem inside its prompts; "
            "compare with its own algorithm, task.textbook()"
        )


def one_hot(
    symbols: Int[Tensor, "*batch row"], count: int, dtype: torch.dtype
) -> Float[Tensor, "*batch row out"]:
    """Return rows of `count` numbers with a one at the symbol."""
    return (symbols[..., None] == torch.arange(count, device=symbols.device)).to(dtype)


class Shape(NamedTuple):
    """The sizes of a prompt of symbols: rows of one-hot symbols, the last of which ask for a class each."""

    symbols: int
    classes: int
    rows: int
    questions: int


class SymbolTask(AllDimsTask, PuzzleTask):
    """A puzzle whose rows are one-hot symbols; the last rows ask for one of `out` classes each; abstract."""

    has_stages: ClassVar[bool] = False
    """True if prompts hold the answers of the textbook algorithm after each iteration, which are few."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The sizes of a prompt."""

    @property
    def dim(self) -> int:
        """The number of symbols: a row is a one-hot vector."""
        return self.shape.symbols

    @property
    def out(self) -> int:
        """The number of classes of an answer."""
        return self.shape.classes

    @property
    def context(self) -> int:
        """The number of rows."""
        return self.shape.rows

    @property
    def points(self) -> int:
        """The number of questions, which the last rows ask."""
        return self.shape.questions

    @abstractmethod
    def _symbols(
        self, batch: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch row"], Int[Tensor, "batch question"]]:
        """Draw the symbols of `batch` prompts and the classes of their answers."""

    @abstractmethod
    def _steps(self, symbols: Int[Tensor, "batch row"]) -> Iterator[Int[Tensor, "batch question"]]:
        """Yield the classes that the textbook algorithm answers after each iteration."""

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the textbook algorithm, which answers with one class each."""
        for classes in self._steps(prompt.rows.argmax(dim=2)):
            yield one_hot(classes, self.out, prompt.rows.dtype)

    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        symbols, answers = self._symbols(batch, generator)
        rows, questions = symbols.shape[1], answers.shape[1]
        targets = one_hot(answers, self.out, dtype)
        stages = torch.stack(list(self._steps(symbols))) if self.has_stages else None
        return Prompt(
            rows=one_hot(symbols, self.dim, dtype),
            targets=targets,
            clean=targets,
            reads=tuple(range(rows - questions, rows)),
            classes=True,
            answers_in_rows=self.answers_in_rows,
            stages=None if stages is None else one_hot(stages, self.out, dtype),
            scale=self.scale,
        )
