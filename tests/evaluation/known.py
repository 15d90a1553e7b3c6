"""Solvers and prompts whose errors can be worked out by hand; curves and evaluations made up."""

from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

from algoformer.evaluation import Curve, Evaluation
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll


@dataclass
class Off:
    """Answers question k after step t with its target plus `offsets[k]` / t, in every number of it."""

    offsets: tuple[float, ...]
    calls: list[tuple[int, Unroll]] = field(default_factory=list)

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        self.calls.append((prompt.batch, unroll))
        steps = torch.arange(unroll.first_step, unroll.steps + 1, dtype=prompt.rows.dtype)
        off = torch.tensor(self.offsets, dtype=prompt.rows.dtype)[None, :, None] / steps[:, None, None, None]
        return Trace(predictions=prompt.targets + off, first_step=unroll.first_step)


def pairs(batch: int = 2, points: int = 3, dim: int = 4) -> Prompt:
    xs = torch.arange(batch * points * dim, dtype=torch.float64).reshape(batch, points, dim)
    ys = xs.sum(dim=-1, keepdim=True)
    return Prompt.of_pairs(xs, ys, clean=ys)


def chain(batch: int = 2, samples: int = 3, layers: int = 2, dim: int = 2) -> Prompt:
    parts = layers + 1
    rows = torch.arange(batch * samples * parts * dim, dtype=torch.float64).reshape(
        batch, samples * parts, dim
    )
    reads = tuple(row for row in range(samples * parts) if row % parts < layers)
    targets = rows[:, [row + 1 for row in reads]]
    return Prompt(rows=rows, targets=targets, clean=targets, reads=reads, parts=parts)


def series(batch: int = 2, length: int = 5, order: int = 3, dim: int = 2) -> Prompt:
    states = torch.arange(batch * (length + 1) * dim, dtype=torch.float64).reshape(batch, length + 1, dim)
    reads = tuple(range(order - 1, length))
    targets = states[:, order:]
    return Prompt(rows=states[:, :-1], targets=targets, clean=targets, reads=reads, parts=1)


numbers = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def curve_parts(draw: st.DrawFn, axis: str | None = None) -> dict:
    """What a curve is made of; made into one inside the tests, where the shape hook may draw at random."""
    x = sorted(draw(st.sets(st.integers(0, 1000), min_size=1, max_size=6)))
    columns = [tuple(draw(st.lists(numbers, min_size=len(x), max_size=len(x)))) for _ in range(3)]
    chosen = axis or draw(st.sampled_from(["samples", "iterations"]))
    places = tuple(float(value) for value in x)
    lines = dict(zip(("error", "low", "high"), columns, strict=True))
    return {"label": draw(st.text()), "axis": chosen, "x": places, **lines}


def line(**changes: object) -> Curve:
    parts: dict = {"label": "a", "axis": "samples", "x": (0.0, 1.0), "error": (1.0, 0.5)}
    parts |= {"low": (0.9, 0.4), "high": (1.1, 0.6)} | changes
    return Curve(**parts)


def one() -> Evaluation:
    return Evaluation(
        label="a",
        by_sample=line(),
        by_step=line(axis="iterations"),
        steps=2,
        prompts=3,
        scale=1.0,
        against="clean",
    )
