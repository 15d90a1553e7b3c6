"""Tasks on a symmetric matrix: solve a system, find the leading eigenvector, solve again and again."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.prompt import Prompt
from algoformer.tasks.symbols import Answers, PuzzleTask
from algoformer.tasks.task import MAX_DIM, AllDimsTask, check_positive, normal


@dataclass(frozen=True)
class Matrices:
    """Symmetric matrices by their eigenvectors and eigenvalues, and a vector for each, in float64."""

    frame: Float[Tensor, "batch size size"]
    values: Float[Tensor, "batch size"]
    vector: Float[Tensor, "batch size 1"]

    @property
    def matrix(self) -> Float[Tensor, "batch size size"]:
        """The matrices themselves."""
        return (self.frame * self.values[:, None]) @ self.frame.mT

    def solve(self, right: Float[Tensor, "batch size 1"]) -> Float[Tensor, "batch size 1"]:
        """Return A⁻¹ times a vector, from the eigenvalues."""
        return self.frame @ (self.frame.mT @ right / self.values[..., None])


def random_rotations(batch: int, size: int, generator: torch.Generator) -> Float[Tensor, "batch size size"]:
    """Draw orthogonal matrices uniformly, as products of Householder reflections (Stewart 1980).

    Only products and sums are used, so that a captured CUDA graph can draw them.
    """
    frame = torch.eye(size, dtype=torch.float64, device=generator.device).expand(batch, size, size)
    draws = normal(batch, size, size, generator=generator, dtype=torch.float64)
    places = torch.arange(size, device=generator.device)
    for place in range(size):
        vector = draws[:, place, :, None] * (places >= place)[:, None]
        first = (places == place)[:, None]
        sign = torch.where(vector >= 0, 1.0, -1.0)
        vector = vector + first * sign * vector.norm(dim=1, keepdim=True)
        scale = 2 / vector.square().sum(dim=1, keepdim=True)
        frame = frame - scale * vector @ (vector.mT @ frame)
        frame = torch.where(first, -sign[:, place : place + 1] * frame, frame)
    return frame.mT


@dataclass(frozen=True, kw_only=True)
class MatrixTask(AllDimsTask, PuzzleTask):
    """A task on a random symmetric positive definite matrix A and a vector b; abstract.

    Row i of a prompt is (A_i, b_i), and the question at row i asks for coordinate i of a vector. The
    eigenvectors of A are uniform; its eigenvalues are uniform in `smallest`..`largest`.

    Attributes:
        size: the number of rows and columns of A.
        smallest: the lower bound of the eigenvalues.
        largest: the upper bound.
    """

    size: int = 8
    smallest: float = 0.4
    largest: float = 2.0

    out: ClassVar[int] = 1
    """One coordinate of the answer."""

    def __post_init__(self) -> None:
        check_count("size", self.size, 2, MAX_DIM)
        check_positive("smallest", self.smallest)
        check_positive("largest", self.largest)
        if self.smallest > self.largest:
            raise ValueError(f"smallest={self.smallest} is above largest={self.largest}; exchange them")

    @property
    def dim(self) -> int:
        """A row of the matrix and a coordinate of the vector."""
        return self.size + 1

    @property
    def context(self) -> int:
        """The number of rows of the matrix."""
        return self.size

    @property
    def points(self) -> int:
        """Every row is a question."""
        return self.size

    def _spread(self, uniform: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        return self.smallest + (self.largest - self.smallest) * uniform

    @abstractmethod
    def _stages(self, drawn: Matrices) -> list[Float[Tensor, "batch size 1"]]:
        """Return the answer, and before it the vectors on the way to it."""

    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        uniform = torch.rand(batch, self.size, generator=generator, device=generator.device).double()
        drawn = Matrices(
            frame=random_rotations(batch, self.size, generator),
            values=self._spread(uniform),
            vector=normal(batch, self.size, 1, generator=generator, dtype=torch.float64),
        )
        stages = self._stages(drawn)
        targets = stages[-1].to(dtype)
        return Prompt(
            rows=torch.cat([drawn.matrix, drawn.vector], dim=2).to(dtype),
            targets=targets,
            clean=targets,
            reads=tuple(range(self.size)),
            answers_in_rows=False,
            stages=torch.stack(stages).to(dtype) if len(stages) > 1 else None,
            scale=self.scale,
        )


@dataclass(frozen=True, kw_only=True)
class LinearSystem(MatrixTask):
    """Solve A x = b for a symmetric positive definite A and a standard normal b.

    >>> prompt = LinearSystem(size=3).sample(2, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(prompt.rows[..., :3] @ prompt.targets, prompt.rows[..., 3:], atol=1e-5)
    True
    """

    @property
    def scale(self) -> float:
        """The mean square of a coordinate of x = A⁻¹ b, which is the mean of 1/λ² over the eigenvalues."""
        return 1 / (self.smallest * self.largest)

    def _stages(self, drawn: Matrices) -> list[Float[Tensor, "batch size 1"]]:
        return [drawn.solve(drawn.vector)]

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the method of conjugate gradients, one step at every iteration."""
        matrix, residual = prompt.rows[..., : self.size], prompt.rows[..., self.size :]
        found, direction = torch.zeros_like(residual), residual
        square = residual.square().sum(dim=1, keepdim=True)
        while True:
            image = matrix @ direction
            step = square / (direction * image).sum(dim=1, keepdim=True).clamp(min=1e-30)
            found, residual = found + step * direction, residual - step * image
            before, square = square, residual.square().sum(dim=1, keepdim=True)
            direction = residual + square / before.clamp(min=1e-30) * direction
            yield found


@dataclass(frozen=True, kw_only=True)
class LeadingEigenvector(MatrixTask):
    """Find the unit eigenvector of the largest eigenvalue, with a positive product with a normal vector b.

    The leading eigenvalue is 1. All others are uniform in `smallest`..`largest`, and `largest` is the rate
    at which the error of power iteration falls.

    >>> prompt = LeadingEigenvector(size=3).sample(2, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(prompt.rows[..., :3] @ prompt.targets, prompt.targets, atol=1e-5)
    True
    """

    smallest: float = 0.0
    largest: float = 0.7

    def __post_init__(self) -> None:
        check_count("size", self.size, 2, MAX_DIM)
        if not 0 <= self.smallest <= self.largest < 1:
            raise ValueError(
                f"smallest={self.smallest} and largest={self.largest} must satisfy 0 ≤ smallest ≤ largest < 1"
            )

    @property
    def scale(self) -> float:
        """The mean square of a coordinate of a unit vector."""
        return 1 / self.size

    def _spread(self, uniform: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        first = torch.arange(self.size, device=uniform.device) == 0
        return torch.where(first, 1.0, super()._spread(uniform))

    def _stages(self, drawn: Matrices) -> list[Float[Tensor, "batch size 1"]]:
        leading = drawn.frame[..., :1]
        sign = (leading * drawn.vector).sum(dim=1, keepdim=True).sign()
        return [leading * sign]

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run power iteration from b, one product with A at every iteration."""
        matrix, vector = prompt.rows[..., : self.size], prompt.rows[..., self.size :]
        while True:
            vector = matrix @ vector
            vector = vector / vector.norm(dim=1, keepdim=True).clamp(min=1e-30)
            yield vector


@dataclass(frozen=True, kw_only=True)
class ChainOfSolves(MatrixTask):
    """Apply u ← tanh(2 A⁻¹ u) `rounds` times, starting with a standard normal u = b.

    The answer is u after exactly `rounds` rounds, and the map is not self-correcting, so every round needs
    the solution of its system. `Prompt.stages` holds u after each round.

    Attributes:
        rounds: the number of solves, one after the other.

    >>> prompt = ChainOfSolves(size=3, rounds=2).sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.stages.shape, torch.equal(prompt.stages[-1], prompt.targets)
    (torch.Size([2, 2, 3, 1]), True)
    """

    rounds: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("rounds", self.rounds, 1, 2**10)

    def _stages(self, drawn: Matrices) -> list[Float[Tensor, "batch size 1"]]:
        stages = [torch.tanh(2 * drawn.solve(drawn.vector))]
        for _ in range(self.rounds - 1):
            stages.append(torch.tanh(2 * drawn.solve(stages[-1])))
        return stages

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the chain itself: an exact solve at every iteration, until all rounds are done."""
        matrix, state = prompt.rows[..., : self.size], prompt.rows[..., self.size :]
        for _ in range(self.rounds):
            state = torch.tanh(2 * torch.linalg.solve(matrix, state))
            yield state
