"""The paper's "computation comparison": the share of the work outside the loop, and three models' costs."""

from __future__ import annotations

from dataclasses import dataclass

from algoformer.cli.say import say
from algoformer.evaluation import Table
from algoformer.model.cost import Cost, cost
from algoformer.model.presets import algoformer, looped, standard
from algoformer.model.program import Program
from algoformer.model.work import Work
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of the computation that is done outside the loop, by the pre- and post-transformer.

    Attributes:
        setting: "inference", "training forward" or "training step".
        steps: iterations of the loop.
        layers: share of the layer evaluations (in a training step: of the units).
        flops: share of the FLOPs.
    """

    setting: str
    steps: int
    layers: float
    flops: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The paper's "computation comparison" as data: shares outside the loop, and the three models' costs."""

    shares: tuple[Share, ...]
    models: dict[str, Cost]


def computation_comparison(
    *,
    steps: tuple[int, ...] = (20, 200),
    window: int = 15,
    points: int = 41,
    dim: int = 20,
    width: int = 256,
    heads: int = 8,
    batch: int = 64,
) -> Comparison:
    """Measure the paper's claim that pre and post are a small part of the computation.

    All rows are computed to the end, as in the paper. Inference reads the last iteration only. A training
    step reads out and differentiates the last `window` iterations; the models' costs are for one such step,
    with the first of `steps` iterations.
    """

    def bill(program: Program, unroll: Unroll) -> Cost:
        return cost(
            program,
            dim=dim,
            out=1,
            context=2 * points,
            width=width,
            unroll=unroll,
            batch=batch,
        )

    shares = []
    for count in steps:
        inference = bill(algoformer(heads=heads), Unroll(steps=count, window=1))
        training = bill(algoformer(heads=heads), Unroll(steps=count, window=window, grad_steps=window))
        shares.append(_share("inference", count, inference))
        shares.append(_share("training forward", count, training))
        shares.append(_share("training step", count, training))
    unroll = Unroll(steps=steps[0], window=window, grad_steps=window)
    models = {
        "standard": bill(standard(heads=heads), Unroll(steps=1)),
        "looped": bill(looped(heads=heads), unroll),
        "algoformer": bill(algoformer(heads=heads), unroll),
    }
    return Comparison(shares=tuple(shares), models=models)


def _share(setting: str, steps: int, bill: Cost) -> Share:
    whole = setting == "training step"
    outside = sum((part.work for part in bill.parts if part.name in ("pre", "post")), Work())
    layers = [work.layers + whole * 2 * work.tracked_layers for work in (outside, bill.work)]
    flops = [work.forward + whole * work.backward for work in (outside, bill.work)]
    return Share(setting=setting, steps=steps, layers=layers[0] / layers[1], flops=flops[0] / flops[1])


def say_comparison() -> int:
    """Print both tables of the comparison."""
    comparison = computation_comparison()
    shares = tuple(
        (share.setting, share.steps, f"{share.layers:.1%}", f"{share.flops:.1%}")
        for share in comparison.shares
    )
    say(
        Table(
            columns=("setting", "T", "of layer runs", "of FLOPs"),
            rows=shares,
            title="share of the pre- and post-transformer",
            note="The paper says about 1/10 at T = 20 and 1/100 at T = 200. This holds for inference; "
            "in training the post-transformer runs on every iteration of the window (ΔT = 15).",
        )
    )
    models = tuple(
        (name, bill.core_parameters, bill.units, bill.training / 1e12, bill.activation_bytes / 2**30)
        for name, bill in comparison.models.items()
    )
    say(
        Table(
            columns=("model", "parameters", "layer units a step", "TFLOP a step", "kept GiB"),
            rows=models,
            title="a training step at T = 20, ΔT = 15, batch size 64, 41 samples",
            note="Parameters without positions, read-in and read-out; the backward pass of a layer counts as "
            "two units.",
        )
    )
    return 0
