"""A worker in a process of its own: python one_worker.py STORAGE OUT TRIALS [KILL_AT].

With KILL_AT it kills itself, as the operating system would, at the first validation of that trial.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from algoformer.search import SearchCallback, search
from tests.search.small import settings


class Killed(SearchCallback):
    """Ends the process without any warning in the middle of a trial."""

    def __init__(self, number: int) -> None:
        self.number = number

    def on_log(self, number: int, step: int, steps: int, error: float) -> None:
        if number >= self.number and step > 1:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    storage, out, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
    callback = Killed(int(sys.argv[4])) if len(sys.argv) > 4 else None
    search(settings(), trials=trials, out=out, storage=storage, callback=callback, interval=0.2, grace=60)
