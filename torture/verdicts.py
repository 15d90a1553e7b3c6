"""Run one mutant with limits and say what became of it."""

from __future__ import annotations

import json
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torture.child import CPU_SECONDS, MEMORY, finish, limit_cpu, limit_memory, start

ACCEPTED, REFUSED, BUSY = "accepted", "refused", "busy with more work"
TRACEBACK, HANG, TOO_MUCH, NONSENSE = "traceback", "hang", "too much memory", "nonsense"
FAULTS = (TRACEBACK, HANG, TOO_MUCH, NONSENSE)
"""What must not happen."""

LONGEST_MESSAGE = 3000
"""A refusal must fit on a screen."""


class NonsenseError(Exception):
    """Raised by a check of something that was accepted and should not have been."""


class LimitError(Exception):
    """Raised when a process that the input made the library start was ended by the limit on CPU time."""


@dataclass(frozen=True)
class Mutant:
    """One changed input.

    Attributes:
        name: what was changed and how, for the report.
        run: reads it; returns if it is accepted, and raises ValueError if it is refused.
        more_work: whether the input asks for more work than the original, so that it may take longer.
        cpu: the CPU seconds that it may take.
    """

    name: str
    run: Callable[[], None]
    more_work: bool = False
    cpu: float = CPU_SECONDS


def judge(mutants: Sequence[Mutant], log: Path) -> list[tuple[str, str]]:
    """Run mutants in forked children and return a verdict and a message for each.

    A child takes on one mutant after the other and writes each verdict into the log. If a limit ends it, the
    mutant that it was at gets the blame, and a new child goes on with the next one.
    """
    verdicts: list[tuple[str, str]] = []
    while len(verdicts) < len(mutants):
        rest = mutants[len(verdicts) :]
        log.unlink(missing_ok=True)
        log.touch()
        ended = finish(start(partial(_run_all, rest, log)))
        with log.open(encoding="utf-8", errors="replace") as lines:
            verdicts += [tuple(json.loads(line)) for line in lines]
        if ended.code:
            at = mutants[len(verdicts)]
            verdicts.append(_blame(at, ended.code, ended.too_slow))
    return verdicts


def _blame(mutant: Mutant, code: int, too_slow: bool) -> tuple[str, str]:
    if too_slow:
        return (BUSY if mutant.more_work else HANG), f"ended by signal {-code}"
    if mutant.more_work and code in (-signal.SIGKILL, -signal.SIGABRT):
        return BUSY, f"ended by signal {-code}: out of memory"
    return TRACEBACK, f"the process ended with status {code}"


def _run_all(mutants: Sequence[Mutant], log: Path) -> int:
    with log.open("w", encoding="utf-8", errors="surrogateescape") as out:
        for mutant in mutants:
            limit_cpu(mutant.cpu)
            signal.alarm(int(60 * mutant.cpu))
            limit_memory()
            verdict = _verdict(mutant)
            out.write(json.dumps(verdict) + "\n")
            out.flush()
    return 0


def _verdict(mutant: Mutant) -> tuple[str, str]:
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict, message = ACCEPTED, ""
    try:
        mutant.run()
    except NonsenseError as error:
        verdict, message = NONSENSE, str(error)
    except ValueError as error:
        verdict, message = REFUSED, str(error)
        if len(message) > LONGEST_MESSAGE:
            verdict, message = NONSENSE, f"a message of {len(message)} characters: {message}"
    except MemoryError:
        verdict = BUSY if mutant.more_work else TOO_MUCH
    except LimitError as error:
        verdict, message = (BUSY if mutant.more_work else HANG), str(error)
    except Exception as error:
        verdict, message = TRACEBACK, f"{type(error).__name__}: {error}"
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if verdict not in FAULTS and not mutant.more_work:
        if grown > MEMORY:
            verdict, message = TOO_MUCH, f"{grown} bytes"
        elif time.process_time() - began > CPU_SECONDS:
            verdict, message = HANG, f"{time.process_time() - began:.1f} CPU seconds"
    return verdict, message[:400]
