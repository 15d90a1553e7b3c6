"""The depth certificate of a model of text: how far its probabilities move beyond the trained depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from algoformer.insight.certificate import StateReport, state_lines
from algoformer.insight.certify import state_report
from algoformer.insight.growth import disturbance_growth
from algoformer.insight.instrument import LoopMap
from algoformer.insight.stored import Stored
from algoformer.insight.trajectory import ORDER, SETTLED, follow, read_depths

HOLDS = 0.1
"""Probabilities hold if none moves by more than this beyond the trained depth."""


@dataclass(frozen=True, kw_only=True)
class ProbabilityCertificate(Stored):
    """The movement of a text model's probabilities beyond its trained depth.

    Attributes:
        trained: the trained depth.
        far: the depth that was run to.
        depths: passes after which probabilities were read, from the trained depth on.
        shift: the largest change of a probability since the trained depth, after each of `depths`.
        changed: the number of texts whose most probable answer changed.
        worst: the text, counted from 0, whose probability moved most.
        states: what the states do, over all texts.
        bleu: for a translator with references, BLEU as (depth, value, low, high), a 95 % interval.
        setting: model, sizes and provenance.
    """

    trained: int
    far: int
    depths: tuple[int, ...]
    shift: tuple[float, ...]
    changed: int
    worst: int
    states: StateReport
    bleu: tuple[tuple[int, float, float, float], ...] = ()
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """True if no probability moved by more than 0.1."""
        return max(self.shift) <= HOLDS

    @property
    def sentence(self) -> str:
        """The certificate in one sentence."""
        total = sum(self.states.prompts.values())
        return (
            f"probabilities {'hold' if self.holds else 'move'}: by at most {max(self.shift):.3g} from "
            f"{self.trained} to {self.far} passes; the answer changes in {self.changed} of {total} texts "
            f"(moves most in text {self.worst + 1})."
        )

    def __str__(self) -> str:
        lines = [self.sentence, *state_lines(self.states)]
        if self.bleu:
            lines.append(f"{'passes':8}" + "".join(f"{depth:>8}" for depth, *_ in self.bleu))
            lines.append(f"{'BLEU':8}" + "".join(f"{value:>8.1f}" for _, value, *_ in self.bleu))
        return "\n".join(lines)


def certify_probabilities(
    loops: Iterable[tuple[LoopMap, LoopMap]], *, reach: int = 50, setting: dict[str, Any] | None = None
) -> ProbabilityCertificate:
    """Certify the probabilities of a text model.

    Args:
        loops: for each text its loop as a map, in the model's precision and in float64; `read` returns
            probabilities (batch, point, class).
        reach: the depth to run to, in multiples of the trained depth.
        setting: what to store beside the result.

    Raises:
        ValueError: there is no text.
    """
    shifts, reports, growths, changed, trained = [], [], [], 0, 0
    depths: tuple[int, ...] = ()
    for loop, double in loops:
        trained = loop.trained_steps
        depths = read_depths(trained, reach * trained)
        run = follow(loop, depths)
        late = run.answers[depths.index(trained) :]
        shifts.append((late - late[0]).abs().flatten(1).amax(1))
        changed += int((late[-1].argmax(-1) != late[0].argmax(-1)).any())
        reports.append(state_report(loop, run))
        growths.append(disturbance_growth(double)[0])
    if not reports:
        raise ValueError("a certificate of a text model needs at least one text")
    moved = torch.stack(shifts)  # (text, depth)
    return ProbabilityCertificate(
        trained=trained,
        far=depths[-1],
        depths=depths[depths.index(trained) :],
        shift=tuple(moved.amax(0).tolist()),
        changed=changed,
        worst=int(moved.amax(1).argmax()),
        states=_merged(reports, growths),
        setting=setting or {},
    )


def _merged(reports: list[StateReport], growths: list[Any]) -> StateReport:
    prompts: Counter[str] = Counter()
    periods: Counter[str] = Counter()
    for report in reports:
        prompts.update(report.prompts)
        periods.update(report.periods)
    count = len(reports)
    observed = torch.cat([growth.observed for growth in growths]).tolist()
    return StateReport(
        prompts={name: prompts[name] for name in ORDER},
        tokens={name: sum(report.tokens[name] for report in reports) / count for name in ORDER},
        read={name: sum(report.read[name] for report in reports) / count for name in ORDER},
        periods=dict(periods),
        predicted=tuple(torch.cat([growth.predicted for growth in growths]).tolist()),
        observed=tuple(value if value == value else None for value in observed),
        settled=tuple((torch.cat([growth.residual for growth in growths]) < SETTLED).tolist()),
    )
