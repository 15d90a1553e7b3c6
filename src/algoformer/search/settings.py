"""The settings of a study: the experiment, the space, the FLOP budget, the rungs of halving."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from algoformer.common.names import check_choice, suggests_keywords
from algoformer.common.plain_data import as_data
from algoformer.model.program import Layers, Program, modules_of
from algoformer.search.budget import (
    MOST_ITERATIONS,
    InputSizes,
    body_parameters,
    fitting_iterations,
    input_sizes,
    training_flops,
)
from algoformer.search.kinds import KINDS
from algoformer.search.space import LEAST, OPTIONAL, Point, SearchSpace, space_around
from algoformer.training import Experiment
from algoformer.training.config import sees_input_once

if TYPE_CHECKING:
    from algoformer.config import TrainConfig

SamplerName = Literal["tpe", "random"]


class Impossible(Exception):
    """A point of the space that no program within the budget belongs to; the message says why."""


@dataclass(frozen=True)
class Candidate:
    """A point of the space as an experiment of the budget's FLOPs.

    Attributes:
        point: where it stands in the space.
        experiment: the program with its iterations, and how it is trained.
        iterations: how often the last loop runs.
        flops: FLOPs of a training step for one prompt, averaged over the run.
        parameters: without positions, read-in and read-out.
    """

    point: Point
    experiment: Experiment
    iterations: int
    flops: float
    parameters: int


@suggests_keywords({"budget": "flops", "eta": "reduction"})
@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a study. Workers with other settings cannot join it.

    Attributes:
        experiment: the data, the training, and the program and width whose FLOPs are the default budget.
        space: the programs to choose from; None means `space_around(experiment)`.
        flops: budget of each trial, as FLOPs of a training step for one prompt or sequence; None means those
            of the experiment itself.
        tolerance: how far the FLOPs of a trial may be off the budget, as a fraction of it; iterations are
            whole, so that some points of the space cannot come nearer, and these are not trained.
        reduction: at each rung about one trial in this many continues (successive halving).
        rungs: how many rungs there are before the end. With reduction 3 and 2 rungs trials are compared after
            a ninth and a third of their steps; with 0 rungs every trial is trained to its end.
        sampler: "tpe" (multivariate TPE) or "random".
    """

    experiment: Experiment
    space: SearchSpace | None = None
    flops: float | None = None
    tolerance: float = 0.2
    reduction: int = 3
    rungs: int = 2
    sampler: SamplerName = "tpe"

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance is a fraction of the budget between 0 and 1, got {self.tolerance}")
        if self.reduction < 2:
            raise ValueError(f"reduction must be at least 2, got {self.reduction}")
        if self.rungs < 0 or self.reduction**self.rungs > self.experiment.training.steps:
            raise ValueError(
                f"rungs={self.rungs} with reduction={self.reduction} do not fit into "
                f"{self.experiment.training.steps} steps; choose fewer rungs, or 0 for no pruning"
            )
        for name in ("depth", "inner_depth"):
            if getattr(self.experiment.training, name) is not None:
                raise ValueError(f"a search decides how often loops run; leave out {name} of the training")
        check_choice("sampler", self.sampler, ("tpe", "random"))
        if self.flops is not None and not 0 < self.flops < math.inf:
            raise ValueError(f"flops must be a positive number, or None, got {self.flops}")
        if self.space is None:
            object.__setattr__(self, "space", space_around(self.experiment))
        if self.flops is None:
            own = self.experiment
            flops = training_flops(own.program, own.width, own.training, self.sizes)
            object.__setattr__(self, "flops", flops)
        self._check_budget()

    @property
    def budget(self) -> float:
        """FLOPs of a training step for one prompt."""
        return cast(float, self.flops)

    @property
    def chosen_space(self) -> SearchSpace:
        """The space."""
        return cast(SearchSpace, self.space)

    @property
    def rung_steps(self) -> int:
        """Steps between two validations, which is also the first rung."""
        return max(1, self.experiment.training.steps // self.reduction**self.rungs)

    @cached_property
    def sizes(self) -> InputSizes:
        """The sizes of the data."""
        return input_sizes(self.experiment)

    @cached_property
    def _layer(self) -> dict[str, Any]:
        """Settings of the experiment's layers that the space does not decide."""
        layers = modules_of(self.experiment.program)[0]
        decided = {"count", "name", "heads", *(name for name in OPTIONAL if getattr(self.space, name))}
        return {item.name: getattr(layers, item.name) for item in fields(Layers) if item.name not in decided}

    def program(self, point: Point, iterations: int) -> Program:
        """Return the program of a point whose last loop runs this many iterations."""
        return KINDS[point.kind](point, iterations, {**self._layer, **point.words})

    def training(self, point: Point, iterations: int) -> TrainConfig:
        """Return how a point is trained: as the experiment, with its learning rate, validated at rungs.

        A loop that sees its input only once is trained through all iterations: its gradient would not reach
        what stands before the loop otherwise.
        """
        config, every = self.experiment.training, self.rung_steps
        once = sees_input_once(self.program(point, iterations))
        unseen: dict[str, Any] = {"backprop": "full", "burn_in": ()} if once else {}
        return replace(
            config,
            lr=point.lr,
            window=min(config.window, iterations),
            log_every=every,
            validate_every=every,
            checkpoint_every=every,
            patience=None,
            **unseen,
        )

    def flops_of(self, point: Point, iterations: int) -> float:
        """Return the FLOPs of a training step of a point with this many iterations, for one prompt."""
        training = self.training(point, iterations)
        return training_flops(self.program(point, iterations), point.width, training, self.sizes)

    def candidate(self, point: Point) -> Candidate:
        """Return a point as an experiment whose iterations bring it nearest to the budget.

        Raises:
            Impossible: its FLOPs are off the budget by more than the tolerance, or it cannot be trained.
        """
        try:
            if point.width % point.heads:
                raise Impossible(f"width {point.width} is not divisible by {point.heads} heads")
            iterations = fitting_iterations(lambda steps: self.flops_of(point, steps), self.budget)
            flops = self.flops_of(point, iterations)
            share, plural = flops / self.budget, "s" * (iterations > 1)
            if abs(share - 1) > self.tolerance:
                raise Impossible(f"with {iterations} iteration{plural} it takes {share:.2f} of the budget")
            program, training = self.program(point, iterations), self.training(point, iterations)
            experiment = Experiment(program, self.experiment.data, point.width, training)
        except ValueError as error:
            raise Impossible(str(error)) from None
        parameters = body_parameters(program, point.width, self.sizes)
        return Candidate(point, experiment, iterations, flops, parameters)

    def to_data(self) -> dict[str, Any]:
        """Return the settings in plain JSON types, as a study stores them."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        return own | {"experiment": self.experiment.to_data(), "space": as_data(self.space)}

    def _check_budget(self) -> None:
        """Refuse a budget that the cheapest program exceeds, or the most expensive one cannot use."""
        space, bounds = self.chosen_space, []
        words: dict[str, Any] = {name: next(iter(getattr(space, name)), None) for name in OPTIONAL}
        for pick, iterations in ((min, 1), (max, MOST_ITERATIONS)):
            params = {name: pick(getattr(space, name)) for name in LEAST}
            points = [
                Point(**params, kind=kind, inject=inject, lr=space.lr[0], **words)
                for kind in space.kind
                for inject in space.inject
            ]
            found = [(self._fixed_flops(point, iterations), point) for point in points]
            bounds.append(pick(found, key=lambda pair: pair[0]))
        (least, cheapest), (most, _) = bounds
        if least > self.budget * (1 + self.tolerance):
            raise ValueError(
                f"flops={self.budget:.3g} is too small: the cheapest program of the space, {cheapest}, takes "
                f"{least:.3g} with one iteration; raise flops or add smaller programs"
            )
        if most < self.budget * (1 - self.tolerance):
            raise ValueError(
                f"flops={self.budget:.3g} is too large: {MOST_ITERATIONS} iterations of the largest program "
                f"of the space take {most:.3g}; lower flops or add larger programs"
            )

    def _fixed_flops(self, point: Point, iterations: int) -> float:
        """Return the FLOPs of a point at its full depth, without curriculum and burn-in."""
        training = replace(self.training(point, iterations), iterations=None, burn_in=())
        return training_flops(self.program(point, iterations), point.width, training, self.sizes)
