"""Names for the coordinates of the residual stream and what stands in them, and codes of places."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from algoformer.theory.checks import check_counts

Part = tuple[int | Shaped[Tensor, "token *part"], str]
"""A subspace: its width, or the positions in it, a number or a vector for each token; and its meaning."""


class Subspaces:
    """Disjoint named runs of coordinates, in the order given; a width of 0 is allowed and holds nothing.

    A subspace that is given by positions, and not by its width, holds them before the first layer.

    >>> space = Subspaces({"x": (2, "the input"), "residual": (1, "Ax - y")})
    >>> space.read("residual")
    tensor([[0., 0., 1.]], dtype=torch.float64)
    >>> print(space)
    x         0..1  the input
    residual  2     Ax - y
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._slices: dict[str, slice] = {}
        self._meanings = {name: meaning for name, (_, meaning) in parts.items()}
        self._columns = {name: held for name, (held, _) in parts.items() if isinstance(held, Tensor)}
        start = 0
        for name, (held, _) in parts.items():
            width = held if isinstance(held, int) else held[0].numel()
            if width < 0:
                raise ValueError(f"subspace {name!r} must not have a negative width, got {width}")
            self._slices[name] = slice(start, start + width)
            start += width
        if not start:
            raise ValueError("a stream needs at least one coordinate; give some subspace a width")
        self.width = start

    @property
    def positions(self) -> Float[Tensor, "token width"]:
        """The vector of each token: positions in the subspaces that are given by them, zeros elsewhere."""
        if not self._columns:
            raise ValueError("no subspace is given by positions; give one, such as a 1 for every token")
        tokens = len(next(iter(self._columns.values())))
        table = torch.zeros(tokens, self.width, dtype=torch.float64)
        for name, column in self._columns.items():
            table[:, self._slices[name]] = column.double().reshape(tokens, -1)
        return table

    @property
    def names(self) -> tuple[str, ...]:
        """The subspaces in the order of their coordinates."""
        return tuple(self._slices)

    def run(self, name: str) -> slice:
        """Return the coordinates of `name`."""
        if name not in self._slices:
            raise ValueError(f"no subspace is named {name!r}; there are {', '.join(self._slices)}")
        return self._slices[name]

    def size(self, name: str) -> int:
        """Return the number of coordinates of `name`."""
        run = self.run(name)
        return run.stop - run.start

    def read(self, name: str, first: int | None = None) -> Float[Tensor, "part width"]:
        """Return the matrix that picks `name` (or only its `first` coordinates) out of the stream.

        Sums and multiples of such matrices are linear functions of the stream: `read("one") - read("known")`
        is 1 - known at every token.
        """
        run = self.run(name)
        stop = run.stop if first is None else run.start + first
        if stop > run.stop:
            raise ValueError(f"{name!r} has {run.stop - run.start} coordinates, asked for first={first}")
        return torch.eye(self.width, dtype=torch.float64)[run.start : stop]

    def write(self, name: str, first: int | None = None) -> Float[Tensor, "width part"]:
        """Return the matrix that writes a vector into `name` and zeros elsewhere: the transpose of `read`."""
        return self.read(name, first).mT

    def __str__(self) -> str:
        runs = {
            name: f"{run.start}..{run.stop - 1}" if run.stop - run.start > 1 else f"{run.start}"
            for name, run in self._slices.items()
            if run.stop > run.start
        }
        broad, wide = max(map(len, runs)), max(map(len, runs.values()))
        lines = (f"{name:{broad}}  {run:{wide}}  {self._meanings[name]}" for name, run in runs.items())
        return "\n".join(line.rstrip() for line in lines)


def quasi_orthogonal(count: int, *, epsilon: float = 1.0) -> Float[Tensor, "code bit"]:
    """Return `count` vectors of ⌈log₂ count⌉ coordinates with p_i·p_i > p_i·p_j + epsilon for all i ≠ j.

    Proof. Write i in binary with digits ±s, s a power of two with 2s² > epsilon. Then p_i·p_i = b s² for b
    digits, and two different numbers differ in a digit, which costs 2s²: p_i·p_j ≤ (b - 2) s². Products are
    multiples of s², hence exact in floating point. ∎ The paper draws random vectors, whose gap is only
    likely; these are deterministic.

    >>> quasi_orthogonal(4)
    tensor([[-1., -1.],
            [ 1., -1.],
            [-1.,  1.],
            [ 1.,  1.]], dtype=torch.float64)
    """
    check_counts(count=count)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number, got {epsilon}")
    bits = max(1, math.ceil(math.log2(count)))
    scale = 2.0 ** max(0, math.floor(math.log2(epsilon / 2) / 2) + 1) if epsilon >= 2 else 1.0
    numbers = torch.arange(count)
    digits = (numbers[:, None] >> torch.arange(bits)) & 1
    return scale * (2 * digits - 1).to(torch.float64)
