"""How long a run will take: from runs that were measured, or a guess that is called one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from algoformer.model.cost import cost
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.tasks import TASKS, Task
from algoformer.trace import Unroll
from algoformer.training.config import Experiment
from algoformer.training.schedule import precisions
from paper.result import AT_ONCE, Result
from paper.runs import SIZES, TrainedRun, trained

NOMINAL = 1e10
"""FLOP in a second that training steps reach on one CPU core where nothing was measured."""

H200_MILLISECONDS = {
    "representation": {"algoformer": 5.4, "standard": 2.7, "looped": 3.8},
    "autoregressive": {"algoformer": 3.5, "standard": 1.8, "looped": 2.4},
    "chain": {"algoformer": 19.0, "standard": 9.0, "looped": 13.0},
    "linear": {"algoformer": 5.0},
}
"""Of a training step at the scale `short` on one H200 that has nothing else to do, by task and model.

They are Adam's. Muon adds 0.2 to AlgoFormer's; with more matrices it is more, which was not timed.
"""

SLOWER = 5.7
"""How many times longer a compiled step in fp32 takes on an H200 than one in bf16 by hand-written kernels."""

STARTING = 20.0
"""Seconds on a GPU that go with every run: imports, capturing the step, measuring the model."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds, and what they are based on."""

    seconds: float
    basis: str


@cache
def step_flops(experiment: Experiment) -> float:
    """FLOP of a training step when all curricula are through, the mean over the burn-in."""
    config, task, program = experiment.training, experiment.task, experiment.program
    depth = default_steps(program)
    loops = traced_part(program) is not None
    window = min(config.window, depth)
    total = 0.0
    extras = config.burn_in or (0,)
    for extra in extras:
        unroll = Unroll(steps=1, window=1)
        if loops:
            tracked = window if config.grad == "window" else depth
            unroll = Unroll(steps=depth + extra, window=window, grad_steps=tracked)
        bill = cost(
            program,
            dim=task.dim,
            out=task.out,
            context=task.context,
            width=experiment.width,
            unroll=unroll,
            batch=config.batch,
        )
        total += bill.training
    return total / len(extras)


def estimate(run: TrainedRun, known: Sequence[Result], *, device: str, done: int = 0) -> Estimate:
    """How long the rest of a run takes on a device of this kind ("cuda" or "cpu").

    The best basis is a run of the same program and task; then, on the same task if possible, the run whose
    step is most alike in FLOP. On a GPU there are always the milliseconds of one H200 to go by. Runs that
    shared the device count only where no other does, for they took longer than a run takes alone.
    """
    flops = step_flops(run.experiment)
    left = max(0, run.experiment.training.steps - done)
    timed = [_Timed.of(result) for result in known if _is_timed(result, device)]
    timed += _on_one_h200() if device == "cuda" else ()
    timed = [one for one in timed if one.runs_at_once == 1] or timed
    if not timed:
        return Estimate(seconds=left * flops / NOMINAL, basis="guess: nothing was measured yet")
    own = (run.experiment.program, run.experiment.task, run.experiment.width)

    def distance(other: _Timed) -> tuple[bool, bool, float]:
        same_task = type(other.experiment.task) is type(run.task)
        return other.kind != own, not same_task, abs(math.log(other.flops / flops))

    near = min(timed, key=distance)
    words = "as" if near.kind == own and near.flops == flops else "estimate from"
    pace = near.seconds_a_step * flops / near.flops
    if device == "cuda":
        pace *= _slowness(run.experiment) / _slowness(near.experiment)
    starting = STARTING if device == "cuda" else 0.0
    shared = f", {near.runs_at_once} {AT_ONCE}" if near.runs_at_once > 1 else ""
    return Estimate(seconds=starting + left * pace, basis=f"{words} {near.name}{shared}")


def _slowness(experiment: Experiment) -> float:
    training = experiment.training
    exact = precisions(training).get("fp32", 0) / training.steps
    return 1.0 + exact * (SLOWER - 1.0)


@dataclass(frozen=True, kw_only=True)
class _Timed:
    name: str
    experiment: Experiment
    flops: float
    seconds_a_step: float
    runs_at_once: int = 1

    @property
    def kind(self) -> tuple[Program, Task, int]:
        """What was trained on what."""
        return self.experiment.program, self.experiment.task, self.experiment.width

    @classmethod
    def of(cls, result: Result) -> _Timed:
        experiment = result.experiment
        assert experiment is not None  # see _is_timed
        return cls(
            name=result.name,
            experiment=experiment,
            flops=step_flops(experiment),
            seconds_a_step=result.seconds_a_step or 0.0,
            runs_at_once=result.runs_at_once,
        )


@cache
def _on_one_h200() -> tuple[_Timed, ...]:
    sizes = SIZES["short"]
    programs = {"algoformer": sizes.algoformer(), "standard": sizes.standard(), "looped": sizes.looped()}
    found = []
    for task, models in H200_MILLISECONDS.items():
        for model, milliseconds in models.items():
            run = trained(f"{task}/{model}", "", TASKS[task](), programs[model], "short").experiment
            name = f"{task}/{model} on an H200"
            pace = milliseconds / 1000
            found.append(_Timed(name=name, experiment=run, flops=step_flops(run), seconds_a_step=pace))
    return tuple(found)


def _is_timed(result: Result, device: str) -> bool:
    if result.seconds_a_step is None:
        return False
    return kind_of_device(str(result.provenance.get("device", ""))) == device


def kind_of_device(name: str) -> str:
    """Whether a device in words (as results store it) is a CPU or a GPU."""
    return "cpu" if name.startswith("cpu") else "cuda"


def usual_device(known: Sequence[Result], default: str) -> str:
    """The kind of device that most of the known runs were trained on."""
    kinds = Counter(
        kind_of_device(str(result.provenance.get("device", ""))) for result in known if result.steps
    )
    return kinds.most_common(1)[0][0] if kinds else default
