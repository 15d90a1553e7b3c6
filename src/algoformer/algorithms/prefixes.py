"""The moments of the pairs before each question, their eigenvalues, and the base class of methods on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.problems import Problems, View, pairs
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll, iterated_trace

_NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**24}
"""Numbers held at once in the largest intermediate: 8 MiB in float64 fit a cache, 128 MiB fill a GPU."""


@dataclass(frozen=True, kw_only=True)
class Prefixes:
    """For question k: the pairs before it, their sums of f fᵀ and f yᵀ, and the features it is asked at."""

    problems: Problems
    gram: Float[Tensor, "batch point dim dim"]
    cross: Float[Tensor, "batch point dim out"]
    count: Int[Tensor, " point"]
    query: Float[Tensor, "batch point dim"]
    problem: Int[Tensor, " point"]

    @property
    def divisor(self) -> Float[Tensor, "point 1 1"]:
        """The number of pairs seen, or 1 where there are none."""
        return self.count.clamp(min=1).to(self.gram.dtype)[:, None, None]

    @property
    def seen(self) -> Bool[Tensor, "point sample"]:
        """True for the samples of its problem that each question may use."""
        samples = torch.arange(self.problems.features.shape[2], device=self.count.device)
        return samples < self.count[:, None]

    def features_seen(self) -> Float[Tensor, "batch point sample dim"]:
        """Return the features before each question; zeros from the question on."""
        return self.problems.features[:, self.problem] * self.seen[..., None]

    def labels_seen(self) -> Float[Tensor, "batch point sample out"]:
        """Return the labels before each question; zeros from the question on."""
        return self.problems.labels[:, self.problem] * self.seen[..., None]

    def answers(self, weights: Float[Tensor, "batch point dim out"]) -> Float[Tensor, "batch point out"]:
        """Return the answers of a linear model with these weights."""
        return self.problems.link((self.query[..., None] * weights).sum(dim=-2))


def prefixes_of(problems: Problems) -> Prefixes:
    """Sum up what is known before each question; pair i itself is never in its own sums."""
    features, labels = problems.features, problems.labels
    problem, count = torch.tensor(problems.questions, device=features.device).unbind(dim=1)

    def before(products: Tensor) -> Tensor:
        sums = products.cumsum(dim=2)[:, problem, (count - 1).clamp(min=0)]
        return sums.where((count > 0)[:, None, None], torch.zeros((), dtype=sums.dtype, device=sums.device))

    return Prefixes(
        problems=problems,
        # outer products and running sums, not matmul: TF32 would cost three digits on a GPU
        gram=before(features[..., :, None] * features[..., None, :]),
        cross=before(features[..., :, None] * labels[..., None, :]),
        count=count,
        query=features[:, problem, count],
        problem=problem,
    )


Iterates = Callable[[Prefixes], Iterator[Float[Tensor, "batch point dim out"]]]
"""An iteration: the weights after step 1, after step 2, and so on; the last ones are kept if it ends."""


def trace_of_iteration(iterates: Iterates, problems: Problems, unroll: Unroll) -> Trace:
    """Run an iteration for every question and read out the unroll's window."""
    chunks = []
    for prefixes in map(prefixes_of, _in_chunks(problems)):
        chunks.append(iterated_trace(map(prefixes.answers, iterates(prefixes)), unroll).predictions)
    return Trace(predictions=torch.cat(chunks, dim=1), first_step=unroll.first_step)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A textbook method on the problems that `view` reads from a prompt; abstract.

    With `in_float64` it works in float64 whatever the precision of the prompt, which the answers have.
    """

    view: View = pairs
    in_float64: ClassVar[bool] = False

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the answers after each step, for every question from the pairs before it."""
        problems = self.view(prompt)
        return trace_of_iteration(self.iterates, in_double(problems) if self.in_float64 else problems, unroll)

    @abstractmethod
    def iterates(self, prefixes: Prefixes) -> Iterator[Float[Tensor, "batch point dim out"]]:
        """Yield the weights after each step, without end, or once if the method does not iterate."""


def in_double(problems: Problems) -> Problems:
    """Return the same problems in float64; answers come back in the precision the prompt has."""
    dtype = problems.features.dtype
    return replace(
        problems,
        features=problems.features.double(),
        labels=problems.labels.double(),
        link=lambda values: problems.link(values.to(dtype)),
    )


def _in_chunks(problems: Problems) -> Iterator[Problems]:
    """Split the batch so that one moment of every pair fits into the allowance."""
    batch, columns, samples, dim = problems.features.shape
    out = problems.labels.shape[-1]
    per_prompt = max(columns * samples, len(problems.questions)) * dim * max(dim, out)
    per_prompt = max(per_prompt, len(problems.questions) * samples * max(dim, out))
    allowance = _NUMBERS_AT_ONCE.get(problems.features.device.type, _NUMBERS_AT_ONCE["cpu"])
    size = max(1, allowance // per_prompt)
    for start in range(0, batch, size):
        chunk = slice(start, start + size)
        yield replace(problems, features=problems.features[chunk], labels=problems.labels[chunk])


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Eigenvalues in rising order with their vectors, in float64; `kept` marks those above rounding.

    With fewer pairs than coordinates the rest of the eigenvalues are zero, which in floating point means
    below dim · eps · the largest one, eps being that of the matrix as it was given.
    """

    values: Float[Tensor, "*batch dim"]
    vectors: Float[Tensor, "*batch dim dim"]
    kept: Bool[Tensor, "*batch dim"]

    @property
    def largest(self) -> Float[Tensor, "*batch"]:
        """The largest eigenvalue, or 1 where all are zero."""
        return self._or_one(self.values[..., -1])

    @property
    def smallest(self) -> Float[Tensor, "*batch"]:
        """The smallest eigenvalue above rounding, or 1 where all are zero."""
        return self._or_one(self.values.masked_fill(~self.kept, torch.inf).amin(dim=-1))

    def _or_one(self, values: Tensor) -> Tensor:
        return values.where(self.kept[..., -1], torch.ones((), dtype=values.dtype, device=values.device))

    @property
    def projector(self) -> Float[Tensor, "*batch dim dim"]:
        """The orthogonal projection onto the space that the pairs span."""
        basis = self.vectors * self.kept[..., None, :]
        return basis @ basis.mT

    def minimum_norm(self, cross: Float[Tensor, "*batch dim out"]) -> Float[Tensor, "*batch dim out"]:
        """Return the smallest solution of gram · w = cross."""
        inverses = self.values.reciprocal().where(self.kept, torch.zeros_like(self.values))
        return self.vectors @ (inverses[..., None] * (self.vectors.mT @ cross.double()))


def spectrum_of(gram: Float[Tensor, "*batch dim dim"]) -> Spectrum:
    """Decompose symmetric matrices in float64."""
    values, vectors = torch.linalg.eigh(gram.double())
    rounding = gram.shape[-1] * torch.finfo(gram.dtype).eps * values[..., -1:]
    return Spectrum(values=values, vectors=vectors, kept=(values > rounding) & (values > 0))
