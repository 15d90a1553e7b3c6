"""A task and a program at a scale: `smoke` on two CPU cores, `short` in GPU minutes, `paper` as printed.

All scales have the same curricula in fractions of the run, so that a shorter run is the same recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from algoformer.common.names import check_choice
from algoformer.data.protocol import as_data_object, data_names
from algoformer.model.loop_models import LOOP_MODELS, small_loop_model
from algoformer.model.presets import PRESETS
from algoformer.model.program import Loop, Program, default_steps, is_causal, traced_part
from algoformer.tasks import TASKS, LinearRegression, PuzzleTask, Task, find
from algoformer.training.config import Experiment, Ramp, Recipe, TrainConfig, sees_input_once

Scale = Literal["smoke", "short", "paper"]

SMALL_TASKS: dict[str, dict[str, Any]] = {
    "linear": {"dim": 3, "points": 8},
    "representation": {"dim": 3, "points": 10},
    "autoregressive": {"dim": 3, "points": 16},
    "chain": {"dim": 3, "points": 8, "layers": 2},
    "robust": {"dim": 3, "points": 12},
}
"""The changes of `smoke` to a task, so that a prompt is a few dozen rows."""

FULL_TASKS: dict[str, dict[str, Any]] = {"robust": {"dim": 10}}
"""The changes of the other scales: in 20 dimensions 40 examples with outliers say too little about w."""

SMALL_PROGRAMS: dict[str, dict[str, int]] = {
    "standard": {"layers": 4},
    "looped": {"steps": 6},
    "algoformer": {"steps": 6},
    "nested": {"steps": 3, "inner_steps": 2},
    "two_loops": {"steps": 5},
}
"""The changes of `smoke` to a program."""

BURN_IN = (0, 0, 10, 20)
"""Numbers of iterations without gradient, one drawn at random for each step: they keep a loop stable."""

LONG_BURN_IN = (0, 0, 10, 20, 40, 80)
"""The same for linear regression, where loops that were trained with less drift away far beyond it."""

SHORT_RATE = 3e-3
"""The learning rate of Muon for all models at the scale `short`.

On regression with representation 4,000 steps brought an AlgoFormer's error on fresh batches to 0.26 with Adam
at 6e-4, 0.19 with Adam at 1.2e-3, 0.018 with Muon at 1e-3 and 0.011 with Muon at 3e-3.
"""

WAIT = 1_000
"""Steps with the first few coordinates, where a curriculum waits: a loop has the idea after 500 to 1,000."""

REFINED_STEPS = 40_000
"""Steps of `refined`: 13 minutes on one H200."""

SMALL_RATES: dict[str, float] = {"nested": 1.5e-3}
"""Learning rates of `smoke` where 3e-3 is too much: a loop in a loop did not learn at all with it."""


def named_recipe(
    name: str, program: str | Program, scale: Any = "smoke", *, files: Sequence[str] = ()
) -> Recipe:
    """Return the recipe for a task or a kind of text by name, with the user's own program and files.

    The name is that of a task, also as package.module:Class, of a kind of text, or of data that was
    registered. A published loop model has one layer in each module.
    """
    is_task = ":" in name or name in TASKS.names()
    if not is_task:
        check_choice("task", name, [*TASKS.names(), *(kind for kind in data_names() if kind != "prompts")])
    if isinstance(program, str):
        check_choice("program", program, [*PRESETS, *LOOP_MODELS])
    if isinstance(program, str) and program in LOOP_MODELS:
        full = full_attention(find(name)()) if is_task else name == "labels"
        program = small_loop_model(program, heads=4 if scale == "smoke" else 8, causal=not full)
    if not is_task:
        from algoformer.training.text_recipes import recipe_on_files

        return recipe_on_files(name, program, scale, files)
    if files:
        raise ValueError(f"--data {name} is a task and takes no files, got {files[0]!r}")
    check_choice("scale", scale, get_args(Scale))
    return _recipe(name, program, scale)


def experiment(task: str, program: str | Program, scale: Scale = "smoke") -> Experiment:
    """The named program, or one of the user's own, on the named task at a scale.

    >>> run = experiment("linear", "algoformer", "paper")
    >>> run.width, run.training.steps, run.training.window
    (256, 500000, 15)
    """
    if isinstance(program, str):
        check_choice("program", program, PRESETS)
    return Experiment(*_recipe(task, program, scale))


def _recipe(task: str, program: str | Program, scale: Scale) -> Recipe:
    """Return what `experiment` is made of."""
    kind = find(task)
    small = scale == "smoke"
    chosen: Task = kind(**(SMALL_TASKS if small else FULL_TASKS).get(task, {}))
    rate = None
    if isinstance(program, str):
        shape = {"heads": 4, **SMALL_PROGRAMS.get(program, {})} if small else {"heads": 8}
        rate = SMALL_RATES.get(program) if small else None
        program = PRESETS[program](**shape, causal=not full_attention(chosen))
    config = recommended(program, chosen, scale)
    config = config if rate is None else replace(config, lr=rate)
    return Recipe(program, as_data_object(chosen), 32 if small else 256, config)


def full_attention(task: Task) -> bool:
    """Return whether every row of the task's prompts may attend to every other: no row shows an answer."""
    return isinstance(task, PuzzleTask) and not task.answers_in_rows


def recommended(program: Program, task: Task, scale: Scale) -> TrainConfig:
    """Return the recommended training of this program on this task at a scale.

    That is `training`, by which figures compare models, but for linear regression at the scale `short`: there
    `refined` left an AlgoFormer with an error of 5.5e-6, and 20,000 steps of `training` with 5.1e-4.
    """
    config = training(program, task, scale)
    return refined(config) if scale == "short" and isinstance(task, LinearRegression) else config


def training(program: Program, task: Task, scale: Scale, *, seed: int = 0) -> TrainConfig:
    """Return the paper's recipe at a scale for this program and task."""
    steps = default_steps(program)
    window = min(steps, 15 if scale != "smoke" else 4)
    looping = traced_part(program) is not None
    samples = is_causal(program) and not isinstance(task, PuzzleTask)
    backprop = "full" if sees_input_once(program) else "window"
    depth: dict[str, Any] = {
        "iterations": Ramp(start=window, increment=2, interval=0.001) if looping else None,
        "window": window,
        "backprop": backprop,
        "seed": seed,
    }
    if scale == "smoke":
        return TrainConfig(
            **depth,
            dims=Ramp(start=1, increment=1, interval=0.12) if task.takes_dims else None,
            samples=Ramp(start=min(5, task.points), increment=2, interval=0.06) if samples else None,
            steps=3500,
            batch_size=32,
            lr=3e-3,
            schedule="cosine",
            warmup=0.05,
            clip_norm=1.0,
            log_every=50,
            checkpoint_every=500,
        )
    paper = TrainConfig(
        **depth,
        dims=Ramp(start=min(5, task.dim), increment=1) if task.takes_dims else None,
        samples=Ramp(start=min(11, task.points), increment=2) if samples else None,
    )
    if scale != "short":
        return paper
    minutes = replace(
        paper,
        steps=10_000,
        optimizer="muon",
        lr=SHORT_RATE,
        schedule="cosine",
        warmup=0.02,
        clip_norm=1.0,
        precision="bf16",
        dims=stretch(paper.dims, 2.5),
        samples=stretch(paper.samples, 2.5),
    )
    return holding(minutes, program, LONG_BURN_IN if isinstance(task, LinearRegression) else BURN_IN)


def holding(config: TrainConfig, program: Program, burn_in: tuple[int, ...]) -> TrainConfig:
    """The recommended recipe for depth: random burn-in, gradient through all iterations after it, no ramp.

    Trained at a fixed depth, a loop may lose its answer when it runs on; trained like this it keeps it.
    Programs without a loop, and loops that see their input once only, are left as they are.
    """
    index = traced_part(program)
    part = None if index is None else program.parts[index]
    if not isinstance(part, Loop) or part.inject == "none":
        return config
    return replace(config, burn_in=burn_in, backprop="full", iterations=None)


def refined(config: TrainConfig) -> TrainConfig:
    """The same training by logarithms of errors, in TF32, with curricula that wait, and longer.

    TF32, because runs as long as this one, by logarithms in bf16, can lose what they have learned. The
    curricula wait for as large a fraction of the run as they would in the shorter one.
    """
    return replace(waiting(config), loss="log", precision="tf32", steps=REFINED_STEPS)


def waiting(config: TrainConfig) -> TrainConfig:
    """The same training with curricula that wait before they grow, so that a loop has the idea first.

    >>> waiting(TrainConfig(steps=10_000, dims=Ramp(start=5, increment=1))).dims
    Ramp(start=5, increment=1, interval=0.02, delay=0.1)
    """

    def late(ramp: Ramp | None) -> Ramp | None:
        return ramp and replace(ramp, interval=0.02, delay=min(1.0, WAIT / config.steps))

    return replace(config, dims=late(config.dims), samples=late(config.samples))


def stretch(ramp: Ramp | None, factor: float) -> Ramp | None:
    """The same curriculum over a larger fraction of the run."""
    return None if ramp is None else replace(ramp, interval=ramp.interval * factor)
