"""What a figure is made of: runs to be trained and textbook references, each with a name of its own.

A name stands for one configuration at a scale, whichever figure it is drawn in, so that figures share runs.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from algoformer import tasks
from algoformer.evaluation import Against
from algoformer.model import Program
from algoformer.model.presets import algoformer, looped, standard
from algoformer.model.program import default_steps, traced_part
from algoformer.tasks import (
    AutoregressiveWithRepresentation,
    ChainOfThought,
    LinearRegression,
    RegressionWithRepresentation,
    Task,
)
from algoformer.training import Experiment, TrainConfig
from algoformer.training.presets import BURN_IN, LONG_BURN_IN, holding, training
from algoformer.training.presets import Scale as LibraryScale

Scale = Literal["tiny", "short", "paper"]
"""How large figures and tables are made: on two CPU cores in minutes, on a GPU in hours, as printed."""

LIBRARY_SCALES: dict[Scale, LibraryScale] = {"tiny": "smoke", "short": "short", "paper": "paper"}
"""The library's recipes that runs of a scale begin from; figures change their tasks and steps."""

SMALL = "At this scale tasks and models are tiny: it shows how verdicts are made, and decides nothing."
"""The sentence that is said beside verdicts at the scale `tiny`."""

FAR = 200
"""How far beyond training figures look."""

FARTHEST = 1000
"""How far the recommended recipe has to hold."""

READ_AT = (*range(1, 31), 35, 40, 45, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 199, 200)
"""Iterations after which the last sample is read, as far as a run goes."""

FIXED_STEP = "fixed-step"
"""Gradient descent with the one step that is best for all prompts (see `paper.fixed_step`)."""

SLOW = "-slow"
"""Ends the name of a run at a third of the common rate."""

LOG = "-log"
"""Ends the name of a run that learned from the logarithms of errors."""

RECOMMENDED = "-recommended"
"""Ends the name of a run by the recipe that we recommended for linear regression before TF32."""

TF32 = "-tf32"
"""Ends the name of a run by the recipe that we recommend for linear regression."""


def names_of_seeds(name: str) -> tuple[str, str, str]:
    """What a run is called, and what the same with other seeds of weights and prompts are called.

    >>> names_of_seeds("chain/looped")
    ('chain/looped', 'chain/looped-seed1', 'chain/looped-seed2')
    """
    return name, f"{name}-seed1", f"{name}-seed2"


Depth = Literal["scale", "fixed", "holding"]
"""How a loop is trained: as the scale says, at a fixed depth as in the paper, or with random burn-in."""


def fingerprint(settings: Any) -> str:
    """The hash of plain data: the same for the same settings on every machine, another for any change.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def without_steps(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with everything but the number of training steps."""
    plain = copy.deepcopy(dict(settings))
    if "experiment" in plain:
        plain["experiment"]["training"].pop("steps")
    return plain


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A model to be trained and measured.

    Attributes:
        name: of its result, with the group that it is compared in before the slash.
        label: in legends.
        experiment: what is trained on what, and how.
        prompts: held-out prompts that it is measured on.
        far: how many iterations its loop is run for figures.
        farthest: and to see whether it holds.
        deep_prompts: the prompts on which it is run to `farthest`.
    """

    name: str
    label: str
    experiment: Experiment
    prompts: int = 1280
    far: int = FAR
    farthest: int = FARTHEST
    deep_prompts: int = 1280

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its weights."""
        return {"experiment": self.experiment.to_data()}

    @property
    def task(self) -> Task:
        """What it is trained and measured on."""
        task: Task = self.experiment.task
        return task

    @property
    def trained_depth(self) -> int:
        """How many iterations its loop is trained with; 1 without a loop."""
        return default_steps(self.experiment.program)

    @property
    def loops(self) -> bool:
        """Whether it has a loop that can run on."""
        return traced_part(self.experiment.program) is not None

    def trained_with(self, **changes: Any) -> RunSpec:
        """The same run with some settings of its training changed."""
        return self.changed_by(lambda training: replace(training, **changes))

    def changed_by(self, change: Callable[[TrainConfig], TrainConfig]) -> RunSpec:
        """The same run, trained as `change` makes it."""
        training = change(self.experiment.training)
        return replace(self, experiment=replace(self.experiment, training=training))

    def with_steps(self, steps: int) -> RunSpec:
        """The same run over another number of training steps: every curriculum is stretched with it."""
        return self.trained_with(steps=steps)


@dataclass(frozen=True, kw_only=True)
class BaselineSpec:
    """A textbook solver to be measured on the same prompts; there is nothing to train.

    Attributes:
        name: of its result.
        label: in legends.
        solver: its name in `algorithms.SOLVERS`, or `FIXED_STEP`.
        task: what it is measured on.
        iterates: whether it is run iteration by iteration, on the last question only.
        trained_depth: the depth of the models that it stands beside.
        far: how many iterations it is run, if it iterates.
        prompts: held-out prompts that it is measured on.
    """

    name: str
    label: str
    solver: str
    task: Task
    iterates: bool = False
    trained_depth: int = 20
    far: int = FAR
    prompts: int = 1280

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its numbers."""
        return {
            "reference": {
                "solver": self.solver,
                "task": tasks.to_data(self.task),
                "iterates": self.iterates,
                "trained_depth": self.trained_depth,
                "far": self.far,
            }
        }


Item = RunSpec | BaselineSpec
"""Something that has a result."""


def counted_against(task: Task) -> Against:
    """Against which answers a task's headline error is counted.

    A series is scored on the states that come, noise included, as its references are in print (predicting
    zero 1.56, the best 1.15 for one coordinate); everything else on answers without noise.
    """
    return "shown" if isinstance(task, AutoregressiveWithRepresentation) else "clean"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a scale changes in the models of the figures."""

    width: int = 256
    heads: int = 8
    depth: int = 20
    window: int = 15
    layers: int = 12
    far: int = FAR
    farthest: int = FARTHEST
    prompts: int = 1280

    def standard(self, layers: int | None = None) -> Program:
        """The plain transformer."""
        return standard(self.layers if layers is None else layers, heads=self.heads)

    def looped(self, layers: int = 1) -> Program:
        """The looped transformer."""
        return looped(layers, steps=self.depth, heads=self.heads)

    def algoformer(self, pre: int = 1, loop: int = 1, post: int = 1, **changes: Any) -> Program:
        """The paper's model."""
        return algoformer(pre, loop, post, **{"steps": self.depth, "heads": self.heads} | changes)


SIZES: dict[Scale, Sizes] = {
    "tiny": Sizes(width=32, heads=4, depth=6, window=4, layers=4, far=30, farthest=30, prompts=256),
    "short": Sizes(),
    "paper": Sizes(),
}

TINY_STEPS = 300
"""Of a run in a figure at the scale `tiny`: enough to see that errors fall, not more."""

LINEAR_TINY_STEPS = 1000
"""Linear regression begins to learn later."""

SHORT_STEPS: dict[type[Task], int] = {
    RegressionWithRepresentation: 8_000,
    AutoregressiveWithRepresentation: 6_000,
    ChainOfThought: 6_000,
    LinearRegression: 20_000,
}
"""Of a run at the scale `short`, so that each takes a few minutes; the same for all models of a task."""

SWEEP_STEPS: dict[type[Task], int] = {RegressionWithRepresentation: 2_500, LinearRegression: 10_000}
"""Of a run in a sweep at the scale `short`, where many are compared with each other and with nothing else.

Linear regression learns nothing before its curriculum is through, so it gets more.
"""


def trained(
    name: str,
    label: str,
    task: Task,
    program: Program,
    scale: Scale,
    *,
    depth: Depth = "scale",
    sweep: bool = False,
    short_steps: int | None = None,
    **changes: Any,
) -> RunSpec:
    """The run of a program on a task at a scale, everything but `changes` (of the training) as all others.

    At the scale `short` it takes the task's steps, those of a sweep, or `short_steps`.
    """
    sizes = SIZES[scale]
    recipe = training(program, task, LIBRARY_SCALES[scale], seed=changes.pop("seed", 0))
    long = LONG_BURN_IN if isinstance(task, LinearRegression) else BURN_IN
    burn_in = (0, 0, sizes.depth) if scale == "tiny" else long
    if depth == "holding" or (depth == "scale" and scale == "tiny"):
        recipe = holding(recipe, program, burn_in)
    elif depth == "fixed":
        recipe = replace(recipe, burn_in=())
    if scale == "tiny":
        steps = LINEAR_TINY_STEPS if isinstance(task, LinearRegression) else TINY_STEPS
        recipe = replace(recipe, steps=steps, lr=5e-3, checkpoint_every=50)
    elif scale == "short":
        steps = short_steps or (SWEEP_STEPS if sweep else SHORT_STEPS)[type(task)]
        recipe = replace(recipe, steps=steps, log_every=500)
    if "window" in changes and recipe.iterations is not None:
        recipe = replace(recipe, iterations=replace(recipe.iterations, start=changes["window"]))
    recipe = replace(recipe, **changes)
    experiment = Experiment(program=program, data=task, width=sizes.width, training=recipe)
    # going on to the farthest takes longer than all else: sweeps, and long prompts, do it on fewer
    costly = scale != "tiny" and (sweep or task.context > 128)
    return RunSpec(
        name=name,
        label=label,
        experiment=experiment,
        prompts=sizes.prompts,
        far=sizes.far,
        farthest=sizes.farthest,
        deep_prompts=sizes.prompts // 4 if costly else sizes.prompts,
    )
