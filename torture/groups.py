"""Kill processes of a group that trains together, resume it, and compare with one that nobody stopped."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from algoformer.checkpoint import LATEST
from algoformer.cli import main
from torture.child import finish, start
from torture.kills import difference, remove, run_content, unreadable
from torture.samples import SMALL, data_files

RANKS = 2
MOST_KILLS_OF_A_RUN = 4
"""After so many kills a run may finish, so that its end can be compared."""


@dataclass
class GroupKills:
    """Counts of groups in which a process was killed, and of what went wrong.

    Attributes:
        kills: how often a process was killed, by what was killed: rank zero, another rank, or all at once.
        before_first: how many kills came before the first checkpoint was there.
        runs: runs that were killed at least once and compared at their end, by kind of group.
        faults: what went wrong, in words.
    """

    kills: Counter[str] = field(default_factory=Counter)
    before_first: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def table(self) -> dict[str, Any]:
        """Return the counts in plain JSON types."""
        return {
            "kills": self.kills.total(),
            **{f"kills of {what}": count for what, count in sorted(self.kills.items())},
            "before the first checkpoint": self.before_first,
            **{f"runs compared, {kind}": count for kind, count in sorted(self.runs.items())},
            "faults": len(self.faults),
            "examples": self.faults[:20],
        }


def kill_groups(
    count: int,
    *,
    seed: int,
    scratch: Path,
    report: Callable[[str], None] = print,
    save: Callable[[GroupKills], None] = lambda done: None,
) -> GroupKills:
    """Kill processes of groups until there were `count` kills: DDP and FSDP2, on prompts and on text.

    Args:
        count: the number of kills.
        seed: of the moments.
        scratch: an empty folder.
        report: called with a line about every reference run.
        save: called with the counts so far after every run.
    """
    rng, done = random.Random(seed), GroupKills()
    known: dict[tuple[str, str], _Group] = {}
    for one in itertools.cycle(itertools.product(("ddp", "fsdp"), ("prompts", "text"))):
        if one not in known:
            known[one] = _Group(*one, scratch, report)
        known[one].compare(done, rng, count - done.kills.total())
        save(done)
        if done.kills.total() >= count:
            break
    return done


class _Group:
    """A run of two processes that was not stopped, and others like it that are."""

    def __init__(self, kind: str, what: str, scratch: Path, report: Callable[[str], None]) -> None:
        self.name, self.kind, self.scratch = f"{kind} on {what}", kind, scratch
        self.output = scratch / f"output {self.name}"
        short = (*SMALL, "--steps", "7", "--checkpoint-every", "2", "--parallel", kind)
        if what == "text":
            (files,) = data_files(scratch / "data")["text"]
            data = ("--data", "text", *files, "--data.vocabulary", "300", "--validate-every", "3")
        else:
            data = ("--data.points", "6", "--data.dim", "3")
        self.words = (*data, *short, "--batch-size", "4")
        folder = scratch / f"reference {self.name}"
        began = time.monotonic()
        codes = self._wait(self._start(["train", *self.words, "--out", str(folder)]))
        self.seconds = time.monotonic() - began
        report(f"{self.name}: {self.seconds:.2f} s without a kill")
        if any(codes):
            raise RuntimeError(f"{self.name} cannot be trained: {codes} {self.output.read_text()[-1000:]}")
        self.content = run_content(folder)

    def compare(self, done: GroupKills, rng: random.Random, most: int) -> None:
        """Kill one run a few times, let it end, and compare it."""
        folder, before = self.scratch / f"{self.name} killed", done.kills.total()
        left = min(most, rng.randint(1, MOST_KILLS_OF_A_RUN))
        while True:
            self.output.unlink(missing_ok=True)
            resume = (folder / LATEST).exists()
            words = ["train", "--resume", "--parallel", self.kind] if resume else ["train", *self.words]
            words += ["--out", str(folder)] + (["--no-evaluate", "--device", "cpu"] if resume else [])
            ranks = self._start(words)
            if left:
                time.sleep(rng.uniform(0, self.seconds))
                killed = rng.choice(["rank zero", "rank one", "all ranks"])
                victims = {"rank zero": ranks[:1], "rank one": ranks[1:], "all ranks": ranks}[killed]
                for rank in victims:
                    os.kill(rank, signal.SIGKILL)
                for rank in set(ranks) - set(victims):
                    os.kill(rank, signal.SIGTERM)  # as torchrun does when a process is gone
            codes = self._wait(ranks)
            if left and any(codes) and -signal.SIGKILL not in codes:
                continue  # the one to be killed had ended already, and only the other was stopped
            if not left or -signal.SIGKILL not in codes:
                break
            left -= 1
            done.kills[killed] += 1
            if -signal.SIGALRM in codes:
                done.faults.append(f"{self.name}: a process waits for one that is gone")
            if not (folder / LATEST).exists():
                done.before_first += 1
            elif fault := unreadable(folder / LATEST):
                done.faults.append(f"{self.name}: {fault}")
        done.runs[self.kind] += done.kills.total() > before
        if any(codes):
            done.faults.append(f"{self.name}: {codes} after {words}: {self.output.read_text()[-300:]}")
        elif fault := difference(self.content, run_content(folder)):
            done.faults.append(f"{self.name}: {fault}")
        if folder.exists():
            remove(folder)

    def _start(self, words: list[str]) -> list[int]:
        port = _free_port()
        return [start(partial(_rank, rank, port, words), output=self.output) for rank in range(RANKS)]

    def _wait(self, ranks: list[int]) -> list[int]:
        return [finish(rank).code for rank in ranks]


def _rank(rank: int, port: int, words: list[str]) -> int:
    """Train as one of the processes that torchrun would start."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost"}
    os.environ |= {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_PORT": str(port)}
    return main(words)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port
