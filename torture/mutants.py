"""Changed inputs of every kind: what the library accepts, what it refuses, and what breaks it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.formats import all_sources
from torture.verdicts import ACCEPTED, BUSY, FAULTS, REFUSED, judge

BATCH = 200
"""Mutants that one child takes on."""


@dataclass
class Mutants:
    """Counts of verdicts for each source, and the faults."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    faults: list[str] = field(default_factory=list)

    def table(self) -> dict[str, Any]:
        """Return the counts in plain JSON types."""
        total: Counter[str] = Counter()
        for one in self.counts.values():
            total += one
        return {
            "mutants": sum(total.values()),
            **{verdict: total[verdict] for verdict in (ACCEPTED, REFUSED, BUSY, *FAULTS)},
            **{name: sum(one.values()) for name, one in sorted(self.counts.items())},
            "faults": sum(total[verdict] for verdict in FAULTS),
            "examples": self.faults[:60],
        }


def mutate(count: int, *, seed: int, scratch: Path, report: Callable[[str], None] = print) -> Mutants:
    """Make and judge mutants of all sources, drawn by their weights."""
    rng, done = random.Random(seed), Mutants()
    sources = all_sources(scratch)
    weights = [source.weight for source in sources]
    left = count
    while left:
        chosen = rng.choices(sources, weights, k=min(BATCH, left))
        mutants = [source.mutant(rng) for source in chosen]
        for source, mutant, (verdict, said) in zip(
            chosen, mutants, judge(mutants, scratch / "verdicts"), strict=True
        ):
            done.counts[source.name][verdict] += 1
            if verdict in FAULTS:
                done.faults.append(f"{verdict}: {said} || {mutant.name}")
        left -= len(chosen)
        if (count - left) % 1000 < BATCH:
            report(f"{count - left} mutants, {len(done.faults)} faults")
    return done
