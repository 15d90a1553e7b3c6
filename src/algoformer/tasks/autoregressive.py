"""Series in which each state follows from the last few through a fixed representation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks.representation_map import RepresentationMap
from algoformer.tasks.task import MAX_DIM, StateTask, check_positive, check_spread, normal

_SPARE_SERIES = 16
_SPARE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class AutoregressiveWithRepresentation(StateTask):
    """x_{t+1} = A Φ*([x_{t+1-q}, ..., x_t]) + noise, q = `order`; A is standard normal, one for each prompt.

    A prompt shows x_1 .. x_{points-1} and asks for x_{q+1} .. x_points. E‖Φ*(u)‖² = `signal`² for standard
    normal u; a larger signal makes series explode. A series with max_t ‖x_t‖²/dim > `bound` is never
    returned: more series than asked for are drawn in one go and the first that stay in bounds are taken,
    in tensor code, so a captured graph can do it. If too few do, accepted ones are repeated; if none does,
    the prompts are NaN rather than wrong (at the defaults about 3 % are rejected).

    Attributes:
        order: the number of past states that the next one depends on, q.
        noise: the standard deviation of the noise on each state.
        signal: the root mean square of ‖Φ*(u)‖.
        bound: the largest mean square of a state; series with a larger one are not returned.
        layers: the number of layers of Φ*.
        slope: the slope of the leaky ReLU in Φ* below zero.
        phi_seed: the seed of Φ*.

    >>> prompt = AutoregressiveWithRepresentation().sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.shape, prompt.points, prompt.reads[0]
    (torch.Size([2, 40, 20]), 38, 2)
    """

    order: int = 3
    noise: float = 1.0
    signal: float = 0.6
    bound: float = 10.0
    layers: int = 3
    slope: float = 0.01
    phi_seed: int = 0

    parts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("order", self.order, most=MAX_DIM)
        if self.points <= self.order:
            raise ValueError(f"points must exceed order={self.order} to leave a question, got {self.points}")
        check_spread("noise", self.noise)
        check_positive("signal", self.signal)
        check_positive("bound", self.bound)
        _ = self.phi  # checks its constants

    @property
    def context(self) -> int:
        """The number of rows of a prompt: all states but the last."""
        return self.points - 1

    @property
    def phi(self) -> RepresentationMap:
        """The representation Φ* that all prompts share."""
        return RepresentationMap(
            in_dim=self.order * self.dim,
            out_dim=self.dim,
            mean_square=self.signal**2,
            layers=self.layers,
            slope=self.slope,
            seed=self.phi_seed,
        )

    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        drawn = batch + math.ceil(_SPARE_SHARE * batch) + _SPARE_SERIES
        states = list(normal(drawn, self.order, self.dim, generator=generator, dtype=dtype).unbind(dim=1))
        matrices = normal(drawn, self.dim, self.dim, generator=generator, dtype=dtype)
        questions = self.points - self.order
        noise = self.noise * normal(drawn, questions, self.dim, generator=generator, dtype=dtype)
        expected = []
        for shock in noise.unbind(dim=1):
            features = self.phi(torch.cat(states[-self.order :], dim=-1))
            expected.append((matrices @ features[..., None]).squeeze(-1))
            states.append(expected[-1] + shock)
        series, clean = self._within_bound(torch.stack(states, dim=1), torch.stack(expected, dim=1), batch)
        return Prompt(
            rows=series[:, :-1],
            targets=series[:, self.order :],
            clean=clean,
            reads=tuple(range(self.order - 1, self.points - 1)),
            parts=1,
        )

    def _within_bound(
        self, series: Float[Tensor, "drawn point dim"], clean: Float[Tensor, "drawn question dim"], batch: int
    ) -> tuple[Float[Tensor, "batch point dim"], Float[Tensor, "batch question dim"]]:
        """Return the first `batch` series that stay in bounds, in the order drawn; if too few, some twice."""
        peaks = series.square().sum(dim=-1).amax(dim=1) / self.dim
        rejected = ~(peaks <= self.bound)  # so that a series that overflowed to NaN is rejected too
        accepted_first = torch.argsort(rejected.to(torch.uint8), stable=True)
        accepted = (~rejected).sum()
        turn = torch.arange(batch, device=series.device) % accepted.clamp(min=1)
        chosen = accepted_first[turn]
        none = accepted == 0
        return series[chosen].masked_fill(none, torch.nan), clean[chosen].masked_fill(none, torch.nan)

    def problems(self, prompt: Prompt) -> Problems:
        """Return the regression of x_{t+1} on Φ*([x_{t+1-q}, ..., x_t]), which is linear given Φ*."""
        if prompt.parts != 1 or prompt.dim != self.dim:
            raise ValueError(
                f"a series has rows of dim={self.dim}, one in a sample; got rows of dim={prompt.dim}, "
                f"{prompt.parts} in a sample"
            )
        windows = prompt.rows.unfold(1, self.order, 1)  # (batch, sample, dim, order)
        features = self.phi(windows.transpose(-1, -2).flatten(-2))
        # the state after the last window is not shown, and no question depends on it
        labels = torch.nn.functional.pad(prompt.rows[:, self.order :], (0, 0, 0, 1))
        return Problems(
            features=features[:, None],
            labels=labels[:, None],
            questions=tuple((0, row - self.order + 1) for row in prompt.reads),
        )
