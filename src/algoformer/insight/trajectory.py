"""A loop run far beyond its trained depth: what its states and answers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algoformer.common.terminal import short
from algoformer.insight.instrument import LoopMap

LONGEST_PERIOD = 12
"""Periods up to this are looked for at the end of a trajectory."""

TAIL = 2 * LONGEST_PERIOD
"""States at the end of a trajectory that are kept."""

SETTLED = 1e-4
"""A token whose relative movement in a pass is below this is at rest."""

StateClass = Literal["settles", "cycles", "drifts", "wanders", "diverges"]
"""The behaviour of a token's state at the end of a run."""

ORDER: tuple[StateClass, ...] = ("settles", "drifts", "cycles", "wanders", "diverges")
"""The classes from the calmest to the most restless; a prompt has that of its most restless token."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A loop's run on a batch of prompts.

    Attributes:
        residual: |z_t - z_{t-1}| / |z_t| of every token after each pass, (step, batch, token).
        answers: answers after each pass in `depths`, (depth, batch, point, out).
        depths: the passes after which answers were read.
        tail: the last states, (pass, batch, token, width).
    """

    residual: Tensor
    answers: Tensor
    depths: tuple[int, ...]
    tail: Tensor


MAX_REACH = 10_000
"""The largest multiple of the trained depth that a certificate may ask for."""


def check_reach(reach: int) -> None:
    """Refuse a multiple of the trained depth to which nothing can be run."""
    if type(reach) is not int or not 2 <= reach <= MAX_REACH:
        raise ValueError(
            f"reach must lie in 2..{MAX_REACH:,}, got {short(reach)}; it is a multiple of the trained depth"
        )


def read_depths(trained: int, far: int) -> tuple[int, ...]:
    """Return the passes to read answers after: all up to five times the trained depth, then ever fewer."""
    close = range(1, min(far, 5 * trained) + 1)
    last = range(max(1, far - TAIL + 1), far + 1)
    between = (round(far ** (index / 24)) for index in range(25))
    return tuple(sorted({*close, *last, *(depth for depth in between if depth >= 1)}))


@torch.no_grad()
def follow(loop: LoopMap, depths: Sequence[int]) -> Trajectory:
    """Run a loop to the last of `depths` and record it."""
    state, wanted = loop.start, set(depths)
    residual, answers, tail = [], [], []
    for step in range(1, depths[-1] + 1):
        new = loop.step(state)
        residual.append((new - state).norm(dim=-1) / new.norm(dim=-1).clamp(min=1e-30))
        state = new
        if step in wanted:
            answers.append(loop.read(state))
        if step > depths[-1] - TAIL:
            tail.append(state)
    return Trajectory(
        residual=torch.stack(residual),
        answers=torch.stack(answers),
        depths=tuple(depths),
        tail=torch.stack(tail),
    )


def classify(tail: Tensor) -> tuple[list[list[StateClass]], Tensor]:
    """Return the class of every token, [batch][token], and the period of those that cycle (else 0).

    A token diverges if it is not finite or its norm grows steadily by more than 1 % a pass; it settles if its
    relative movement is below 1e-4; it cycles with period p if states p passes apart are at least five
    times closer than neighbours; it drifts if successive steps point the same way; else it wanders.
    """
    passes = len(tail)
    finite = torch.isfinite(tail).all(-1).all(0)
    sound = tail.nan_to_num(0.0, 0.0, 0.0)
    norms = sound.norm(dim=-1).clamp(min=1e-30)  # (pass, batch, token)
    early, late = norms[: passes // 2], norms[passes // 2 :]
    grown = (late.log().mean(0) - early.log().mean(0)) / (passes / 2)
    grows = (grown > 0.00995) & (late.amin(0) > early.amax(0))
    steps = sound[1:] - sound[:-1]
    movement = steps.norm(dim=-1)
    restless = (movement / norms[1:]).mean(0)
    lags = torch.stack(
        [(sound[lag:] - sound[:-lag]).norm(dim=-1).mean(0) for lag in range(1, passes // 2 + 1)]
    )
    returns = lags[1:] < 0.2 * lags[:1]
    period = torch.where(returns.any(0), returns.float().argmax(0) + 2, torch.zeros((), dtype=torch.long))
    cosine = torch.nn.functional.cosine_similarity(steps[1:], steps[:-1], dim=-1).mean(0)
    code = torch.full(finite.shape, ORDER.index("wanders"))
    code[cosine > 0.9] = ORDER.index("drifts")  # a later class takes precedence
    code[period > 0] = ORDER.index("cycles")
    code[restless < SETTLED] = ORDER.index("settles")
    code[~finite | grows] = ORDER.index("diverges")
    period = period.masked_fill(code != ORDER.index("cycles"), 0)
    return [[ORDER[value] for value in row] for row in code.tolist()], period
