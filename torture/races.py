"""Let several processes enter one folder at the same instant; exactly one may get in."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from algoformer.training import Experiment, train
from algoformer.training.presets import experiment
from algoformer.training.run_folder import open_folder
from torture.child import finish, start

ENTERED, REFUSED = 0, 2


@dataclass
class Races:
    """Counts of races and of those that did not have exactly one winner."""

    races: int = 0
    processes: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def table(self) -> dict[str, Any]:
        """Return the counts in plain JSON types."""
        return {
            "races": self.races,
            "processes": self.processes,
            **{f"races for {kind}": count for kind, count in sorted(self.by_kind.items())},
            "faults": len(self.faults),
            "examples": self.faults[:20],
        }


def race(
    count: int,
    *,
    seed: int,
    scratch: Path,
    report: Callable[[str], None] = print,
    save: Callable[[Races], None] = lambda done: None,
) -> Races:
    """Hold races for new folders, for empty ones, and for a run to resume.

    Args:
        count: the number of races.
        seed: of everything that is drawn.
        scratch: an empty folder.
        report: called with a line after every two hundred races.
        save: called with the counts so far, as often.
    """
    rng, done = random.Random(seed), Races()
    small = experiment("linear", "looped", "smoke")
    small = replace(small, width=8, training=replace(small.training, steps=1, batch_size=2))
    train(small, scratch / "run", tensorboard=False)
    for number in range(count):
        kind = rng.choice(["a new folder", "an empty folder", "a folder in new folders", "a run to resume"])
        path = scratch / f"race {number}"
        if kind == "a run to resume":
            shutil.copytree(scratch / "run", path)
        elif kind == "an empty folder":
            path.mkdir()
        target = path / "in" / "it" if "new folders" in kind else path
        processes = rng.randint(2, 4)
        codes = _one_race(target, small, processes, resume=kind == "a run to resume")
        if sorted(codes) != [ENTERED] + [REFUSED] * (processes - 1):
            done.faults.append(f"race {number} for {kind}: exit statuses {codes}")
        done.races += 1
        done.processes += processes
        done.by_kind[kind] += 1
        shutil.rmtree(path)
        if done.races % 200 == 0:
            report(f"{done.races} races, {len(done.faults)} faults")
            save(done)
    return done


def _one_race(path: Path, small: Experiment, processes: int, *, resume: bool) -> list[int]:
    """Start processes, let them go at once, and return how they ended; whoever is in stays till all tried."""
    gate, tried, leave = os.pipe(), os.pipe(), os.pipe()

    def enter(seed: int) -> int:
        for end in (gate[1], leave[1], tried[0]):
            os.close(end)
        own = small if resume else replace(small, training=replace(small.training, seed=seed))
        os.read(gate[0], 1)  # returns when the parent closes its end
        try:
            with open_folder(path, own, resume=resume):
                os.write(tried[1], b".")
                os.read(leave[0], 1)
                return ENTERED
        except ValueError:
            os.write(tried[1], b".")
            return REFUSED

    children = [start(lambda seed=seed: enter(seed)) for seed in range(processes)]  # type: ignore[misc]
    os.close(tried[1])
    os.close(gate[1])
    heard = 0
    while heard < processes and (byte := os.read(tried[0], processes)):
        heard += len(byte)
    os.close(leave[1])
    codes = [finish(child).code for child in children]
    for end in (gate[0], leave[0], tried[0]):
        os.close(end)
    return codes
