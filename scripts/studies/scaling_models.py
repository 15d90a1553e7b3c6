"""The models and recipes of the scaling study, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from algoformer.model import presets
from algoformer.model.cost import Cost, cost
from algoformer.model.program import Program
from algoformer.tasks import LinearRegression


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of a study.

    Attributes:
        widths: widths of the residual stream.
        budgets: training FLOPs of a run, or its steps: numbers below a million are steps, for small models,
            which take as long as larger ones.
        heads: attention heads.
        ends: layers before the loop, and as many after it.
        depth: layers of the loop with r = 1.
        repetitions: the numbers r.
        task: settings of linear regression, for prompts.
        text: settings of the text; "megabytes" reads only the beginning of each file.
        rates: learning rates of which each r gets the best.
        training: further settings of the training.
        held_out: prompts or tokens on which a run is measured.
    """

    widths: tuple[int, ...]
    budgets: tuple[float, ...]
    heads: int = 4
    ends: int = 1
    depth: int = 8
    repetitions: tuple[int, ...] = (1, 2, 4, 8)
    task: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...]
    training: dict[str, Any]
    held_out: int

    @property
    def middle(self) -> int:
        """The width at which learning rates are chosen."""
        return self.widths[len(self.widths) // 2]


USUAL: dict[str, Any] = {"optimizer": "muon", "schedule": "cosine", "warmup": 0.05, "clip_norm": 1.0}

FULL: dict[str, Any] = {
    "widths": (128, 192, 320),
    "budgets": (1e15, 3e15, 1e16),
    "ends": 2,
    "rates": (1e-3, 3e-3, 1e-2),
}

SIZES = {
    "regression-tiny": Size(
        widths=(24, 32, 48),
        # below some thousand steps it is chance which runs have begun to learn from their context
        budgets=(6000, 12_000, 24_000),
        depth=4,
        repetitions=(1, 2, 4),
        task={"dim": 2, "points": 8},
        rates=(2.5e-3, 5e-3, 1e-2),
        training={**USUAL, "batch_size": 32},
        held_out=8192,
    ),
    "text-tiny": Size(
        widths=(16, 24, 40),
        budgets=(150, 250, 400),
        depth=4,
        repetitions=(1, 2, 4),
        text={"megabytes": 4, "tokenize": "bytes", "context": 64},
        rates=(5e-3, 1e-2, 2e-2, 4e-2),
        training={**USUAL, "batch_size": 8},
        held_out=16_384,
    ),
    # some hours of one core; even the shortest run has hundreds of steps
    "text-small": Size(
        widths=(32, 48, 64),
        budgets=(2e12, 6e12, 1.8e13),
        text={"megabytes": 32, "tokenize": "bytes", "context": 128},
        rates=(5e-3, 1e-2, 2e-2),
        training={**USUAL, "batch_size": 8},
        held_out=131_072,
    ),
    "regression-full": Size(
        **FULL,
        # few dimensions, so that the widest models have left the plateau within the smallest budget
        task={"dim": 5, "points": 12},
        training={**USUAL, "batch_size": 256, "precision": "bf16"},
        held_out=8192,
    ),
    # byte by byte, and a tenth of the FLOPs, so that 112 megabytes are read at most twice
    "text-full": Size(
        **FULL
        | {"widths": (128, 192, 256), "budgets": (4e14, 1.2e15, 3.6e15), "rates": (2e-3, 5e-3, 1e-2, 2e-2)},
        text={"tokenize": "bytes", "context": 256},
        training={**USUAL, "batch_size": 64, "precision": "bf16"},
        held_out=131_072,
    ),
}
"""Sizes for one CPU core, and for a GPU."""

LARGEST_STEPS = 1e6
"""Budgets below this are steps."""

PLAIN = "full"
"""The recipe with which others are compared: gradient through all iterations, loss of the last one."""


def recipe_of(name: str, r: int) -> tuple[str, dict[str, Any]]:
    """Return the injection and the settings of training of a recipe; with r = 1 all recipes are the same."""
    table: dict[str, tuple[str, dict[str, Any]]] = {
        PLAIN: ("add", {}),
        "truncated": ("add", {"backprop": max(1, r // 2)}),
        "window": ("add", {"window": max(1, r // 2)}),
        "burn-in": ("add", {"burn_in": (0, 0, r, 2 * r)}),
        **{inject: (inject, {}) for inject in ("none", "gate", "concat", "decay")},
    }
    if name not in table:
        raise ValueError(f"--recipes knows {', '.join(table)}, got {name!r}")
    inject, words = table[name if r > 1 else PLAIN]
    return inject, {"window": 1, "backprop": "full"} | words


def program_of(size: Size, r: int, inject: str = "add") -> Program:
    """Return the program with r repetitions; all have the same number of layer calls."""
    if size.depth % r:
        raise ValueError(f"r must divide the depth of the loop, {size.depth}, got {r}")
    layers = size.depth // r
    return presets.algoformer(size.ends, layers, size.ends, steps=r, inject=inject, heads=size.heads)


def bill_of(size: Size, program: Program, width: int, vocabulary: int = 0) -> Cost:
    """Return the cost of one prompt or sequence with gradients through all iterations."""
    if not size.task:
        return cost(program, dim=0, out=vocabulary, context=size.text["context"], width=width)
    task = LinearRegression(**size.task)
    return cost(program, dim=task.dim, out=task.out, context=task.context, points=task.points, width=width)


def parameters_of(size: Size, program: Program, width: int) -> tuple[int, int]:
    """Return the parameters outside and inside the loop, without positions and without embeddings."""
    parts = {part.name: part.parameters - part.positions for part in bill_of(size, program, width).parts}
    return parts["pre"] + parts["post"], parts["loop"]


def steps_of(size: Size, width: int, budget: float, vocabulary: int = 0) -> int:
    """Return how many steps the budget pays for; the bill is that of r = 1, for every r and recipe."""
    if budget < LARGEST_STEPS:
        return int(budget)
    each = bill_of(size, program_of(size, 1), width, vocabulary).training
    return max(1, round(budget / each / size.training["batch_size"]))
