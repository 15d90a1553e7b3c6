"""Kill real training runs with SIGKILL, resume them, and compare with a run that nobody stopped."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from algoformer.checkpoint import BEST, LATEST, load_checkpoint
from algoformer.cli import main
from algoformer.training.run_folder import read_metrics
from torture.child import finish, start
from torture.samples import scenarios

MOST_KILLS_OF_A_RUN = 9
"""After so many kills a run may finish, so that its end can be compared."""

TIMES = {"seconds", "steps_per_second"}
"""Columns of the metrics that measure time, and so differ between two equal runs."""


@dataclass
class Kills:
    """Counts of kills and of what went wrong.

    Attributes:
        kills: runs killed, each resumed afterwards.
        moments: how many of them by another process, at a random moment.
        operations: how many of them at a file operation: before or after it, or with half a file written.
        before_first: how many of them before the first checkpoint was there.
        by_kind: how many of them for every kind of run, by the first word of its name.
        runs: runs that were killed at least once and compared at their end.
        faults: what went wrong, in words: a checkpoint that cannot be read, a refused resume, other weights.
    """

    kills: int = 0
    moments: int = 0
    operations: int = 0
    before_first: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    faults: list[str] = field(default_factory=list)

    def table(self) -> dict[str, Any]:
        """Return the counts in plain JSON types."""
        return {
            "kills": self.kills,
            "at a random moment": self.moments,
            "at a file operation": self.operations,
            "before the first checkpoint": self.before_first,
            **{f"kills of runs: {kind}": count for kind, count in sorted(self.by_kind.items())},
            "runs compared": self.runs,
            "faults": len(self.faults),
            "examples": self.faults[:20],
        }


def kill_runs(
    count: int,
    *,
    seed: int,
    scratch: Path,
    report: Callable[[str], None] = print,
    save: Callable[[Kills], None] = lambda done: None,
) -> Kills:
    """Kill runs until there were `count` kills, over all kinds of runs in turn, in a random order.

    Args:
        count: the number of kills.
        seed: of the moments and of the settings of the runs.
        scratch: an empty folder.
        report: called with a line about every reference run and every fifty kills.
        save: called with the counts so far after every run.
    """
    rng, done = random.Random(seed), Kills()
    words_of, known = scenarios(scratch), dict[str, _Reference]()
    names = list(words_of)
    rng.shuffle(names)
    for name in itertools.cycle(names):
        if name not in known:
            known[name] = _Reference(name, words_of[name], scratch)
            report(f"{name}: {known[name].seconds:.2f} s without a kill")
        before = done.kills
        known[name].compare(done, rng, count - before)
        save(done)
        if before // 50 != done.kills // 50:
            report(f"{done.kills} kills, {done.runs} runs, {len(done.faults)} faults")
        if done.kills >= count:
            break
    return done


class _Reference:
    """A run that was not stopped, and others like it that are."""

    def __init__(self, name: str, words: tuple[str, ...], scratch: Path) -> None:
        self.name, self.words, self.scratch = name, words, scratch
        self.folder = scratch / f"reference {name}"
        self.output = scratch / f"output {name}"
        began = time.monotonic()
        ended = finish(start(lambda: main(["train", *words, "--out", str(self.folder)]), output=self.output))
        self.seconds = time.monotonic() - began
        if ended.code:
            raise RuntimeError(f"{name} cannot be trained at all: {self.output.read_text()[-1000:]}")
        self.content = run_content(self.folder)

    def compare(self, done: Kills, rng: random.Random, most: int) -> None:
        """Kill one run a few times, let it end, and compare it."""
        folder, before = self.scratch / f"{self.name} killed", done.kills
        left = min(most, rng.randint(1, MOST_KILLS_OF_A_RUN))
        while True:
            self.output.unlink(missing_ok=True)
            resume = (folder / LATEST).exists()
            words = ["train", "--resume"] if resume else ["train", *self.words]
            words += ["--out", str(folder)] + (["--no-evaluate"] if resume else [])
            by_another = rng.random() < 0.5
            if left == 0:
                ended = finish(start(partial(main, words), output=self.output)).code
            elif by_another:
                ended = self._kill_at_a_moment(words, rng.uniform(0, self.seconds))
            else:
                ended = self._kill_at_an_operation(words, rng)
            if ended != -signal.SIGKILL:
                break
            left -= 1
            done.kills += 1
            done.by_kind[self.name.split()[0]] += 1
            done.moments += by_another
            done.operations += not by_another
            if not (folder / LATEST).exists():
                done.before_first += 1
            elif fault := unreadable(folder / LATEST):
                done.faults.append(f"{self.name}: {fault}")
        done.runs += done.kills > before
        if ended != 0:
            done.faults.append(f"{self.name}: status {ended} after {words}: {self.output.read_text()[-300:]}")
        elif fault := difference(self.content, run_content(folder)):
            done.faults.append(f"{self.name}: {fault}")
        remove(folder)

    def _kill_at_a_moment(self, words: list[str], seconds: float) -> int:
        child = start(lambda: main(words), output=self.output)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        return finish(child).code

    def _kill_at_an_operation(self, words: list[str], rng: random.Random) -> int:
        operation = rng.choice([*OPERATIONS, HALF])
        count, before = rng.randint(1, 8), rng.random() < 0.5

        def work() -> int:
            if operation == HALF:
                _die_with_half_a_file(count, rng.random())
            else:
                _die_at(operation, count, before=before)
            return main(words)

        return finish(start(work, output=self.output)).code


OPERATIONS = ("replace", "fsync", "chmod", "unlink", "mkdir", "open")
"""Functions of `os` that a run writes its files with."""

HALF = "half a file"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at(operation: str, count: int, *, before: bool) -> None:
    """Let this process kill itself at the `count`-th call of a function of `os`, before or after it."""
    function, calls = getattr(os, operation), [0]

    def mortal(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if before and calls[0] == count:
            _die()
        result = function(*arguments, **options)
        if calls[0] == count:
            _die()
        return result

    setattr(os, operation, mortal)


def _die_with_half_a_file(count: int, fraction: float) -> None:
    """Let this process kill itself when a part of the `count`-th file of tensors is written."""
    import safetensors.torch

    function, calls = safetensors.torch.save_file, [0]

    def mortal(tensors: Any, path: Any, metadata: Any = None) -> None:
        function(tensors, path, metadata=metadata)
        calls[0] += 1
        if calls[0] == count:
            os.truncate(path, int(fraction * Path(path).stat().st_size))
            _die()

    safetensors.torch.save_file = mortal  # type: ignore[assignment]


def run_content(folder: Path) -> dict[str, Any]:
    """Return all that a finished run left and that must not depend on kills."""
    found: dict[str, Any] = {}
    for name in (LATEST, BEST):
        if (folder / name).exists():
            found |= {f"{name}/{key}": value for key, value in load_file(folder / name).items()}
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in read_metrics(folder)]
    return found | {"metrics": rows, "config": (folder / "config.json").read_text()}


def difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Return the first thing in which two runs differ, bit for bit; None if they are equal."""
    if set(expected) != set(found):
        return f"one run has {sorted(set(expected) ^ set(found))[:3]}, the other has not"
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            if not torch.equal(_bits(value), _bits(found[name])):
                return f"{name} differs by {float((value - found[name]).abs().max()):.3g}"
        elif value != found[name]:
            return f"{name} differs"
    return None


def unreadable(path: Path) -> str | None:
    """Return why a checkpoint cannot be read; None if it can."""
    try:
        load_checkpoint(path)
    except ValueError as error:
        return f"after a kill: {error}"
    return None


def remove(folder: Path) -> None:
    """Remove a run folder."""
    for path in folder.glob("*"):
        path.unlink()
    for path in folder.glob(".*"):
        path.unlink()
    folder.rmdir()


def _bits(value: torch.Tensor) -> torch.Tensor:
    return value.reshape(-1).view(torch.uint8)
