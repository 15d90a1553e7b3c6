"""Searches as small as they can be."""

from __future__ import annotations

from functools import cache
from typing import Any

from algoformer import programs, tasks
from algoformer.search import SearchSettings, SearchSpace
from algoformer.training import Experiment, TrainConfig

SPACE = SearchSpace(
    kind=("algoformer", "nested"),
    pre=(0, 1),
    loop=(1,),
    post=(0, 1),
    heads=(1, 2),
    width=(6, 8),
    inject=("add", "none"),
    inner_steps=(2,),
    lr=(1e-3, 1e-2),
)


def experiment(steps: int = 9) -> Experiment:
    training = TrainConfig(steps=steps, batch_size=4, lr=3e-3, window=2)
    task = tasks.LinearRegression(dim=2, points=4)
    return Experiment(programs.algoformer(heads=2, steps=6), task, width=8, training=training)


@cache
def settings(steps: int = 9, **changes: Any) -> SearchSettings:
    return SearchSettings(**({"experiment": experiment(steps), "space": SPACE} | changes))
