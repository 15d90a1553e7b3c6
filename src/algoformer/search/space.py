"""The search space as frozen data, and a point of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from algoformer.common.names import suggests_keywords
from algoformer.common.plain_data import as_data, check_count, read_dataclass, read_object
from algoformer.common.terminal import short
from algoformer.model.program import Layers, Loop, modules_of
from algoformer.search.kinds import KINDS

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from algoformer.training import Experiment

LEAST = {"pre": 0, "loop": 1, "post": 0, "heads": 1, "width": 1, "inner_steps": 1}
"""The smallest value of each whole number of a space."""

WORDS: dict[str, Callable[[str], object]] = {
    "inject": lambda word: Loop(Layers(1), 1, inject=word),
    "norm": lambda word: Layers(1, norm=word),
    "positions": lambda word: Layers(1, positions=word),
    "activation": lambda word: Layers(1, activation=word),
}
"""Fields that hold words of a table, and what refuses a word that is not in it."""

OPTIONAL = ("norm", "positions", "activation")
"""Words that may be left out; programs then have those of the experiment's own program."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a search space; only the number of iterations is missing to make it a program.

    Attributes:
        kind: and all other fields: as in `SearchSpace`; `norm`, `positions` and `activation` may be None.
    """

    kind: str
    pre: int
    loop: int
    post: int
    heads: int
    width: int
    inject: str
    inner_steps: int
    lr: float
    norm: str | None = None
    positions: str | None = None
    activation: str | None = None

    @property
    def words(self) -> dict[str, Any]:
        """The settings of all layers that the space decides."""
        chosen = {name: getattr(self, name) for name in OPTIONAL if getattr(self, name) is not None}
        return {"heads": self.heads, **chosen}

    @property
    def params(self) -> dict[str, Any]:
        """The fields that have a value, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        words = [self.inject, *(str(getattr(self, name)) for name in OPTIONAL if getattr(self, name))]
        inner = "" if self.kind in ("algoformer", "parallel") else f" inner {self.inner_steps}"
        layers = f"{self.pre}+{self.loop}+{self.post}{inner}"
        heads = f"{self.heads} head{'s' * (self.heads > 1)}"
        return f"{self.kind} {layers}, width {self.width}, {heads}, {', '.join(words)}"


@suggests_keywords({"widths": "width", "learning_rate": "lr", "injection": "inject", "kinds": "kind"})
@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """The programs and learning rates that a search chooses from; iterations follow from a FLOP budget.

    >>> space = SearchSpace(kind=("algoformer",), width=(16, 32), heads=(2, 4), lr=(1e-3, 1e-2))
    >>> SearchSpace.from_json(space.to_json()) == space
    True
    >>> SearchSpace(width=(20,), heads=(8,))
    Traceback (most recent call last):
    ValueError: heads=8 divides none of the widths 20; choose other widths or heads
    """

    kind: tuple[str, ...] = ("algoformer", "two_loops", "nested", "parallel")
    """Kinds of programs, names in `KINDS`."""
    pre: tuple[int, ...] = (0, 1, 2)
    """Layers before the last loop."""
    loop: tuple[int, ...] = (1, 2)
    """Layers in the body of every loop."""
    post: tuple[int, ...] = (0, 1, 2)
    """Layers after the last loop."""
    heads: tuple[int, ...] = (1, 2, 4, 8)
    """Attention heads of every layer."""
    width: tuple[int, ...] = (128, 192, 256, 384)
    """Widths of the residual stream."""
    inject: tuple[str, ...] = ("add", "gate", "none")
    """Names of injections, by which a loop's input reaches its iterations."""
    inner_steps: tuple[int, ...] = (2, 4)
    """Iterations of the loop that an unroll does not change: the first of two, or the inner one."""
    lr: tuple[float, float] = (5e-4, 6e-3)
    """Lowest and highest learning rate; it is drawn on a log scale."""
    norm: tuple[str, ...] = ()
    """Norms of the layers; empty keeps that of the experiment's program."""
    positions: tuple[str, ...] = ()
    """Positions of the layers; empty keeps those of the experiment's program."""
    activation: tuple[str, ...] = ()
    """Activations of the layers; empty keeps that of the experiment's program."""

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_choices(item.name, getattr(self, item.name))
        for kind in self.kind:
            KINDS.find(kind)
        for name, least in LEAST.items():
            for value in getattr(self, name):
                check_count(name, value, least)
        for name, refuse in WORDS.items():
            for word in getattr(self, name):
                refuse(word)
        for heads in self.heads:
            if all(width % heads for width in self.width):
                widths = ", ".join(map(str, self.width))
                raise ValueError(
                    f"heads={heads} divides none of the widths {widths}; choose other widths or heads"
                )

    def __str__(self) -> str:
        lines = []
        for item in fields(self):
            values = getattr(self, item.name)
            if item.name == "lr":
                lines.append(f"lr           {values[0]:g} to {values[1]:g}, log scale")
            elif values:
                lines.append(f"{item.name:<13}{', '.join(map(str, values))}")
        return "\n".join([*lines, "iterations   as many as the FLOP budget allows"])

    def to_json(self) -> str:
        """Return the space as JSON text."""
        return json.dumps(as_data(self))

    @classmethod
    def from_json(cls, text: str) -> SearchSpace:
        """Read a space from JSON text; fields that are left out have their defaults.

        Raises:
            ValueError: it is not a space.
        """
        return read_dataclass(cls, read_object(text))

    @property
    def names(self) -> list[str]:
        """The parameters of the space, in order."""
        return [item.name for item in fields(self) if getattr(self, item.name)]

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the distribution of each parameter for Optuna: whole numbers in a row are ordered."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        found: dict[str, BaseDistribution] = {"lr": FloatDistribution(*self.lr, log=True)}
        for name in self.names:
            if name != "lr":
                values = getattr(self, name)
                found[name] = _ordered(values) or CategoricalDistribution(values)
        return {name: found[name] for name in self.names}

    def point(self, params: Mapping[str, Any]) -> Point:
        """Return the point of these parameters.

        Raises:
            ValueError: a parameter is missing, or its value is not in the space.
        """
        for name in self.names:
            if name not in params:
                raise ValueError(f"a point of the space needs a value of {name}")
            value, values = params[name], getattr(self, name)
            inside = values[0] <= value <= values[1] if name == "lr" else value in values
            if not inside:
                raise ValueError(f"{name}={short(value)} is not in the space, which has {short(values)}")
        return Point(**{name: params[name] for name in self.names})

    def hand_made(self, experiment: Experiment) -> Point | None:
        """Return the AlgoFormer of one layer in each module, as near to the experiment as the space allows.

        None if the space has no such program.
        """
        ones = all(1 in values for values in (self.pre, self.loop, self.post))
        if "algoformer" not in self.kind or not ones:
            return None
        layers = modules_of(experiment.program)[0]

        def distance(pair: tuple[int, int]) -> tuple[float, float]:
            return abs(math.log(pair[0] / experiment.width)), abs(math.log(pair[1] / layers.heads))

        pairs = [(width, heads) for width in self.width for heads in self.heads if width % heads == 0]
        width, heads = min(pairs, key=distance)
        words = {name: _kept(getattr(self, name), getattr(layers, name)) for name in OPTIONAL}
        return Point(
            kind="algoformer",
            pre=1,
            loop=1,
            post=1,
            heads=heads,
            width=width,
            inject=_kept(self.inject, "add"),
            inner_steps=self.inner_steps[0],
            lr=min(max(experiment.training.lr, self.lr[0]), self.lr[1]),
            **words,
        )


def space_around(experiment: Experiment) -> SearchSpace:
    """Return the default space of an experiment: widths and learning rates around its own."""
    width, lr = experiment.width, experiment.training.lr
    heads = tuple(count for count in (1, 2, 4, 8) if width % (4 * count) == 0 and width // count >= 4) or (1,)
    widths = {width // 2, 3 * width // 4, width, 3 * width // 2}
    chosen = tuple(sorted(one for one in widths if one and all(one % count == 0 for count in heads)))
    return SearchSpace(width=chosen, heads=heads, lr=(lr / 3, 3 * lr))


def _check_choices(name: str, values: object) -> None:
    """Refuse what is not a tuple of different values; `lr` is a range instead."""
    if not isinstance(values, tuple):
        raise ValueError(f"{name} must be a tuple of values, got {short(values)}")
    if name == "lr":
        numbers = len(values) == 2 and all(type(one) in (int, float) for one in values)
        if not numbers or not 0 < values[0] <= values[1] < math.inf:
            raise ValueError(f"lr must be the lowest and the highest learning rate, got {short(values)}")
        return
    if not values and name not in OPTIONAL:
        raise ValueError(f"{name} needs at least one value, got none")
    kinds = {type(one) for one in values}
    if kinds - ({int} if name in LEAST else {str}):
        what = "whole numbers" if name in LEAST else "words"
        raise ValueError(f"{name} must be {what}, got {short(values)}")
    if len(set(values)) < len(values):
        raise ValueError(f"{name} has a value twice: {short(values)}")


def _ordered(values: tuple[Any, ...]) -> BaseDistribution | None:
    """Return a distribution over whole numbers at equal distances; None for other values."""
    from optuna.distributions import IntDistribution

    if len(values) < 2 or not isinstance(values[0], int):
        return None
    low, high, step = min(values), max(values), sorted(values)[1] - min(values)
    if sorted(values) != list(range(low, high + 1, step)):
        return None
    return cast("BaseDistribution", IntDistribution(low, high, step=step))


def _kept(values: tuple[str, ...], wanted: Any) -> Any:
    """Return the wanted word if it is one of the values, else the first of them; None if there are none."""
    return wanted if wanted in values else next(iter(values), None)
