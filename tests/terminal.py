"""The command line in a process of its own, any of whose streams may be a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterator
from typing import Any


class Terminal:
    """A terminal that keeps what is written on it, and on which lines can be typed."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        # no echo: what it shows is then what the program writes
        tty.setraw(self.theirs)
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until it shows something."""
        for _ in range(600):
            if text in self._shown.decode(errors="replace"):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{text!r} was not shown, only {bytes(self._shown)!r}")

    def close(self) -> str:
        """What was shown until all programs left it."""
        os.close(self.theirs)
        self._reader.join(timeout=60)
        os.close(self._ours)
        return self._shown.decode()

    def _read(self) -> None:
        # a terminal that nobody has open any more is an error, not an end
        with contextlib.suppress(OSError):
            while chunk := os.read(self._ours, 4096):
                self._shown += chunk


@contextlib.contextmanager
def started(*words: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command line with these words, as a process that is gone afterwards."""
    command = [sys.executable, "-m", "algoformer", *words]
    with subprocess.Popen(command, env={**os.environ, "TERM": "xterm"}, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[bytes]) -> str:
    """The next line that a process prints into its pipe; an error after a minute without one."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], 60)[0]:
        raise TimeoutError("nothing was printed")
    return process.stdout.readline().decode()
