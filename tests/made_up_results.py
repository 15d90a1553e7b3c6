"""Results that were never measured, for tests of what is drawn and concluded from results."""

from __future__ import annotations

from algoformer.evaluation import Curve
from paper.measuring import read_at
from paper.result import Measured, Result
from paper.runs import BaselineSpec, Item, RunSpec, counted_against

PROVENANCE = {"command": "made up", "commit": "0", "device": "NVIDIA H200", "seconds": 400.0}


def constructed(
    item: Item, error: float = 1e-3, *, start: float = 1.0, growth: float = 1.0, spread: float = 0.05
) -> Result:
    """A result of the item: falls from `start` to `error` along samples and iterations, then grows."""
    task = item.task
    samples = range(task.order, task.points) if task.parts == 1 else range(task.points)
    trained = item.trained_depth
    looping = item.loops if isinstance(item, RunSpec) else item.iterates
    depths = read_at(trained, item.far) if looping else [trained]

    def fall(place: float) -> float:
        return start * (error / start) ** min(1.0, place)

    def beyond(depth: int) -> float:
        return error * growth ** min(1.0, max(0, depth - trained) / (item.far - trained))

    by_step = [fall(depth / trained) if depth <= trained else beyond(depth) for depth in depths]
    last = samples[-1]
    by_sample = {
        depth: curve("samples", samples, [fall(count / last) * factor for count in samples], spread)
        for depth, factor in ({trained: 1.0} | ({item.far: growth} if looping else {})).items()
    }
    deep = sorted({trained, 50, 100, item.far, 500, 1000})
    measured = Measured(
        by_sample=by_sample,
        by_step=curve("iterations", depths, by_step, spread),
        deep=curve("iterations", deep, [beyond(depth) for depth in deep], spread)
        if looping and isinstance(item, RunSpec)
        else None,
    )
    return Result(
        name=item.name,
        settings=item.settings,
        trained_depth=trained,
        against=counted_against(task),
        errors={counted_against(task): measured},
        prompts=item.prompts,
        parameters=None if isinstance(item, BaselineSpec) else 2_000_000,
        provenance=PROVENANCE,
        history={} if isinstance(item, BaselineSpec) else {"step": (1.0,), "error": (error,)},
    )


def curve(axis: str, x: object, error: list[float], spread: float) -> Curve:
    return Curve(
        label="made up",
        axis=axis,
        x=tuple(float(value) for value in x),
        error=tuple(error),
        low=tuple(value * (1 - spread) for value in error),
        high=tuple(value * (1 + spread) for value in error),
    )
