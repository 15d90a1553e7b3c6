"""Independent pieces of inference side by side, one CPU core each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


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
