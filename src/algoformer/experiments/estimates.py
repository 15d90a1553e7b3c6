"""How long a run will take: from runs that were measured, or a guess that is called one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from algoformer.experiments.result import Result
from algoformer.experiments.runs import TrainedRun
from algoformer.model.cost import cost
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.tasks import Task
from algoformer.trace import Unroll
from algoformer.training.config import Experiment

NOMINAL = {"cuda": 1e14, "cpu": 1e10}
"""FLOP in a second that training steps reach where nothing was measured: one H200 in bf16, one CPU core."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds, and what they are based on."""

    seconds: float
    basis: str


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

    The best basis is a run of the same program and task; then the run whose step is most alike in FLOP.
    """
    flops = step_flops(run.experiment)
    left = max(0, run.experiment.training.steps - done)
    timed = [_Timed.of(result) for result in known if _is_timed(result, device)]
    if not timed:
        return Estimate(seconds=left * flops / NOMINAL[device], basis="guess: nothing was measured yet")
    own = (run.experiment.program, run.experiment.task, run.experiment.width)

    def distance(other: _Timed) -> tuple[bool, float]:
        return other.kind != own, abs(math.log(other.flops / flops))

    near = min(timed, key=distance)
    words = "as" if near.kind == own and near.flops == flops else "estimate from"
    return Estimate(seconds=left * near.seconds_a_step * flops / near.flops, basis=f"{words} {near.name}")


@dataclass(frozen=True, kw_only=True)
class _Timed:
    name: str
    experiment: Experiment
    flops: float
    seconds_a_step: float

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
        )


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
