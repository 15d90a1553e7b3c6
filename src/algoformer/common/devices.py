"""Devices, the precision of matrix products, work on several cores, and the source of a number."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def pick_device(name: str) -> str:
    """Return the device of that name, if PyTorch sees one; "auto" is a CUDA GPU or else the CPU."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kinds: dict[str, Any] = {"cuda": torch.cuda, "mps": torch.backends.mps}
    if name in kinds and not kinds[name].is_available():
        raise ValueError(f"device {name} was asked for, but PyTorch sees none; choose cpu or auto")
    return name


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device_name(device: torch.device) -> str:
    """Return the name of the GPU, or the kind of device with the processor's architecture and threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {torch.get_num_threads()} threads)"


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Take matrix products inside in full single precision ("fp32"), or allow TF32 ("tf32", "bf16")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision in ("tf32", "bf16") else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def source_commit() -> str:
    """The commit of this library's source, with "+changes" if files differ from it; "unknown" outside git.

    The environment variable ALGOFORMER_COMMIT says it instead: a copy may lie outside git, or in another
    state of it than the one that it was copied from.
    """
    told = os.environ.get("ALGOFORMER_COMMIT")
    if told:
        return told
    here = Path(__file__).resolve()
    # an installed copy may lie inside somebody else's repository: only one that tracks this file counts
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return "unknown"
    commit = _git(here.parent, "rev-parse", "HEAD")
    changed = _git(here.parents[1], "status", "--porcelain", "--untracked-files=no", ".")
    if commit is None:
        return "unknown"
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def run_side_by_side(pieces: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
    """Return the results of the pieces, in order.

    On a CPU each of PyTorch's threads runs pieces of its own. Operations of inference are so short that
    threads which share each of them wait for one another most of the time. On other devices the pieces run
    one after the other.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(pieces)) if device.type == "cpu" else 1
    if workers < 2:
        return [piece() for piece in pieces]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(lambda piece: piece(), pieces))
    finally:
        torch.set_num_threads(threads)
