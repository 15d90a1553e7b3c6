"""The depth certificate of a model of text: how far its probabilities move beyond the trained depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from algoformer.common.plain_data import Stored
from algoformer.common.terminal import filled
from algoformer.insight.certificate import DepthCertificate, StateReport, state_lines
from algoformer.insight.certify import state_report
from algoformer.insight.growth import Growth, disturbance_growth
from algoformer.insight.instrument import LoopMap
from algoformer.insight.trajectory import ORDER, check_reach, follow, read_depths

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
        changed: the number of texts with another most probable answer at `far`, at any token.
        worst: the text, counted from 0, whose probability moved most.
        tokens: the number of tokens at which probabilities were read, over all texts.
        tokens_moved: how many of them have a probability that moved by more than 0.1.
        tokens_changed: how many of them have another most probable answer at `far`.
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
    tokens: int
    tokens_moved: int
    tokens_changed: int
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
            f"probabilities {'hold' if self.holds else 'move'}: they change by at most {max(self.shift):.3g} "
            f"from {self.trained} to {self.far} passes; the answer changes in {self.changed} of {total} "
            f"texts (moves most in text {self.worst + 1}){self._by_token()}."
        )

    def _by_token(self) -> str:
        if self.tokens == sum(self.states.prompts.values()):
            return ""
        return (
            f" and at {self.tokens_changed} of {self.tokens} tokens; {self.tokens_moved} tokens have a "
            f"probability that moves by more than {HOLDS:g}"
        )

    def __str__(self) -> str:
        lines = [*map(filled, (self.sentence, *state_lines(self.states)))]
        if self.bleu:
            lines.append(f"{'passes':8}" + "".join(f"{depth:>8}" for depth, *_ in self.bleu))
            lines.append(f"{'BLEU':8}" + "".join(f"{value:>8.1f}" for _, value, *_ in self.bleu))
        return "\n".join(lines)


def read_certificate(data: Mapping[str, Any]) -> DepthCertificate | ProbabilityCertificate:
    """Rebuild a certificate of either kind from plain data, as a model's card holds it.

    Raises:
        ValueError: the data is not a certificate.
    """
    is_text = isinstance(data, Mapping) and "shift" in data
    return (ProbabilityCertificate if is_text else DepthCertificate).from_data(data)


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
    check_reach(reach)
    shifts, reports, growths, trained = [], [], [], 0
    changed, tokens, moved_tokens, changed_tokens = 0, 0, 0, 0
    depths: tuple[int, ...] = ()
    for loop, double in loops:
        trained = loop.trained_steps
        depths = read_depths(trained, reach * trained)
        run = follow(loop, depths)
        late = run.answers[depths.index(trained) :]
        by_token = (late - late[0]).abs().amax(-1).flatten(1)  # (depth, token)
        shifts.append(by_token.amax(1))
        other = late[-1].argmax(-1) != late[0].argmax(-1)
        changed, tokens = changed + int(other.any()), tokens + by_token.shape[1]
        changed_tokens += int(other.sum())
        moved_tokens += int((by_token.amax(0) > HOLDS).sum())
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
        tokens=tokens,
        tokens_moved=moved_tokens,
        tokens_changed=changed_tokens,
        states=_merged(reports, growths),
        setting=setting or {},
    )


def _merged(reports: list[StateReport], growths: list[Growth]) -> StateReport:
    prompts: Counter[str] = Counter()
    periods: Counter[str] = Counter()
    for report in reports:
        prompts.update(report.prompts)
        periods.update(report.periods)
    count = len(reports)
    return StateReport(
        prompts={name: prompts[name] for name in ORDER},
        tokens={name: sum(report.tokens[name] for report in reports) / count for name in ORDER},
        read={name: sum(report.read[name] for report in reports) / count for name in ORDER},
        periods=dict(periods),
        **Growth.joined(growths).for_report(),
    )
