"""Changed inputs of every kind: what the library accepts, what it refuses, and what breaks it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.formats import all_sources
from torture.sources import uncovered
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
            "faults": len(self.faults),
            "examples": self.faults[:60],
        }


def mutate(
    count: int,
    *,
    seed: int,
    scratch: Path,
    only: str = "",
    report: Callable[[str], None] = print,
    save: Callable[[Mutants], None] = lambda done: None,
) -> Mutants:
    """Make and judge mutants, drawn by the weights of their sources.

    Args:
        count: the number of mutants.
        seed: of everything that is drawn.
        scratch: an empty folder.
        only: a part of the names of the sources to draw from; empty, all of them.
        report: called with a line after every thousand mutants.
        save: called with the counts so far after every batch.

    Raises:
        ValueError: no source has such a name.
    """
    rng, done = random.Random(seed), Mutants()
    known = all_sources(scratch)
    sources = [source for source in known if only in source.name]
    if not sources:
        raise ValueError(f"no source is called {only!r}; there are {', '.join(one.name for one in known)}")
    done.faults += [f"no source of mutants for the reader {name}" for name in uncovered(known)]
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
        save(done)
        if (count - left) % 1000 < BATCH:
            report(f"{count - left} mutants, {len(done.faults)} faults")
    return done
