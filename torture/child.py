"""Run work in a forked child with limits on its CPU time and memory.

The parent imports PyTorch once and forks, so that a child costs milliseconds instead of seconds. No thread
may run in the parent: call `warm_up` before the first fork.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS = 5
"""CPU seconds that one hostile input may take."""

MEMORY = 2 * 2**30
"""Bytes of address space that one hostile input may add to the process."""

BLOCKED_SECONDS = 600
"""Wall seconds after which a child that waits for something without end is stopped."""

RAISED = 99
"""The exit status of a child whose work raised an exception."""


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        code: its exit status; negative, the number of the signal that ended it.
        cpu: the CPU seconds that it took.
    """

    code: int
    cpu: float

    @property
    def too_slow(self) -> bool:
        """Whether the limit on CPU time or the limit on waiting ended the child."""
        return self.code in (-signal.SIGXCPU, -signal.SIGALRM)


def warm_up() -> None:
    """Import the library with all its rooms, so that children do not, and keep to one thread.

    Raises:
        RuntimeError: OMP_NUM_THREADS is not 1, so that a fork could lose a thread that holds a lock.
    """
    if os.environ.get("OMP_NUM_THREADS") != "1":
        raise RuntimeError("set OMP_NUM_THREADS=1 before Python starts: children are forked")
    import torch

    import algoformer

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(algoformer.__path__, "algoformer."):
        if not module.name.endswith("__main__") and ".kernels." not in module.name:
            importlib.import_module(module.name)


def start(work: Callable[[], int], *, output: Path | None = None) -> int:
    """Fork a child that runs the work and exits with what it returns; return the child's process id.

    Args:
        work: what to run; an exception ends the child with status `RAISED` and a traceback in the output.
        output: the file for standard output and error; None discards them.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = RAISED
    try:
        signal.alarm(BLOCKED_SECONDS)
        _redirect(output)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(child: int) -> Ended:
    """Wait for a child and say how it ended."""
    _, status, usage = os.wait4(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


def limit_cpu(seconds: float) -> None:
    """Let this process use so many CPU seconds from now on; then SIGXCPU ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))


def limit_memory(extra: int = MEMORY) -> None:
    """Let this process's address space grow by so many bytes from now on; further allocations fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    allowed = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (allowed, resource.RLIM_INFINITY))


def _redirect(output: Path | None) -> None:
    """Point the standard streams of this process elsewhere, and replace Python's objects for them."""
    quiet = os.open(os.devnull, os.O_RDONLY)
    where = os.devnull if output is None else output
    noise = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(quiet, 0)
    os.dup2(noise, 1)
    os.dup2(noise, 2)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False, errors="backslashreplace")
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
