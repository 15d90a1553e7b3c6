"""Tasks: their protocol, checks of their constants, draws, and the base classes of regression tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.common.plain_data import check_count, is_number
from algoformer.common.terminal import short
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt


@runtime_checkable
class Task(Protocol):
    """A distribution over prompts that also names the regression problems inside them."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a row."""

    @property
    def points(self) -> int:
        """The number of samples in a prompt, including the last query: 41 are 40 examples and a query."""

    @property
    def out(self) -> int:
        """The number of coordinates of an answer."""

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""

    @property
    def parts(self) -> int:
        """The number of rows of a sample."""

    @property
    def scale(self) -> float:
        """The divisor of squared errors summed over `out`; predicting zero then has error 1 in regression."""

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on labels; 0 without noise."""

    @property
    def takes_dims(self) -> bool:
        """True if `sample` accepts `active_dims`: only where fewer coordinates make an easier task."""

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device, from the generator alone."""

    def problems(self, prompt: Prompt) -> Problems:
        """Return the regression problems inside `prompt`, with the task's true features."""


MAX_DIM = 2**16
"""The largest number of coordinates of a row."""

MAX_LAYERS = 2**10
"""The largest number of layers of a fixed or hidden network."""

MAX_SEED = 2**63 - 1
"""The largest seed that every generator of PyTorch accepts."""

MAX_SPREAD = 1e18
"""The largest scale of random numbers: their squares still fit into float32."""


def check_spread(name: str, value: int | float) -> None:
    """Refuse a standard deviation that is negative, not finite, or too large for float32."""
    if not (is_number(value) and 0 <= value <= MAX_SPREAD):
        raise ValueError(
            f"{name} is a standard deviation: give a finite number >= 0 and at most {MAX_SPREAD:g}, "
            f"got {short(value)}"
        )


def check_positive(name: str, value: int | float) -> None:
    """Refuse a size that is not a finite number above zero."""
    most = MAX_SPREAD**2
    if not (is_number(value) and 0 < value <= most):
        raise ValueError(f"{name} must be a finite number > 0 and at most {most:g}, got {short(value)}")


def check_slope(slope: int | float) -> None:
    """Refuse a leaky ReLU that is not monotone or cannot be inverted."""
    if not (is_number(slope) and 0 < slope <= 1):
        raise ValueError(f"slope of a leaky ReLU that can be inverted must lie in (0, 1], got {short(slope)}")


def normal(
    *shape: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """Standard normal numbers on the generator's device, the same ones in every precision.

    They are drawn in float32 and then cast, so one seed means one set of prompts whatever `dtype` is.
    """
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32).to(dtype)


def mask_dims(
    xs: Float[Tensor, "batch point dim"], active_dims: int | Int[Tensor, ""] | None
) -> Float[Tensor, "batch point dim"]:
    """Zero the coordinates from `active_dims` on; `None` keeps them all.

    A 0-dim tensor is never read back, so a captured graph follows it as it is updated in place.
    """
    if active_dims is None:
        return xs
    dim = xs.shape[-1]
    if isinstance(active_dims, int) and not 1 <= active_dims <= dim:
        raise ValueError(f"active_dims must lie in 1..{dim} (the dim of the task), got {active_dims}")
    return xs * (torch.arange(dim, device=xs.device) < active_dims)


def refuse_dims(active_dims: int | Int[Tensor, ""] | None) -> None:
    """Refuse `active_dims` where the task has a fixed representation that needs every coordinate."""
    if active_dims is not None:
        raise ValueError(
            f"this task uses all of its coordinates, got active_dims={active_dims}: leave it out "
            "(only tasks with takes_dims accept it)"
        )


class AllDimsTask(ABC):
    """A task that uses all of its coordinates, so that there is no curriculum over them; abstract."""

    takes_dims: ClassVar[bool] = False

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        refuse_dims(active_dims)
        return self._draw(batch, generator, dtype)

    @abstractmethod
    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        """Draw `batch` prompts."""


@dataclass(frozen=True, kw_only=True)
class StateTask(AllDimsTask):
    """A task whose rows are states of `dim` coordinates, and whose answers are whole states; abstract.

    Attributes:
        dim: the number of coordinates of a state.
        points: the number of samples of a prompt, including the last question.
    """

    dim: int = 20
    points: int = 41

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)

    @property
    def out(self) -> int:
        """The number of coordinates of an answer: a whole state."""
        return self.dim

    @property
    def scale(self) -> float:
        """The number of coordinates, so that errors are per coordinate."""
        return float(self.dim)


@dataclass(frozen=True, kw_only=True)
class PairTask:
    """y = <w, features(x)> + noise, with x and w standard normal and w drawn afresh for each prompt.

    The noise is on the labels that are shown and on the targets alike; `clean` is free of it. One seed
    gives the same x and w at every noise level.

    Attributes:
        dim: the number of coordinates of x.
        points: the number of pairs, including the question at the end: 41 are 40 examples and a question.
        noise: the standard deviation of the noise on the labels.
    """

    dim: int = 20
    points: int = 41
    noise: float = 0.0

    out: ClassVar[int] = 1
    parts: ClassVar[int] = 2
    takes_dims: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_spread("noise", self.noise)
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""
        return self.parts * self.points

    @property
    def scale(self) -> float:
        """The variance of a label without its errors."""
        return float(self.dim)

    def features(self, xs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Return the features that labels are linear in: here x itself."""
        return xs

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        if not self.takes_dims:
            refuse_dims(active_dims)
        draw = partial(normal, generator=generator, dtype=dtype)
        xs = mask_dims(draw(batch, self.points, self.dim), active_dims)
        clean = self.features(xs) @ draw(batch, self.dim, 1)
        labels = clean + self.noise * draw(batch, self.points, 1)
        return self._prompt(xs, labels, clean, generator)

    def _prompt(self, xs: Tensor, labels: Tensor, clean: Tensor, generator: torch.Generator) -> Prompt:
        """Return the prompt that shows these pairs; here all labels are shown as they are."""
        return Prompt.of_pairs(xs, labels, clean=clean)

    def problems(self, prompt: Prompt) -> Problems:
        """Return the pairs (features(x), y): a linear regression."""
        raw = pairs(prompt)
        return replace(raw, features=self.features(raw.features))
