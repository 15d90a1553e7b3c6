"""The command line in a process of its own, any of whose streams may be a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
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
        self._changed = threading.Condition()
        self._is_open, self._is_handed_over = True, False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def hand_over(self) -> None:
        """Leave the terminal to the programs that have it: it ends when the last of them does."""
        if not self._is_handed_over:
            self._is_handed_over = True
            os.close(self.theirs)

    def wait_for(self, text: str) -> None:
        """Wait until it shows something, or until all programs left it, which is an error."""
        self.hand_over()
        with self._changed:
            self._changed.wait_for(lambda: text.encode() in self._shown or not self._is_open)
        assert text.encode() in self._shown, f"{text!r} was not shown, only {bytes(self._shown)!r}"

    def close(self) -> str:
        """Return what was shown until all programs left it."""
        self.hand_over()
        self._reader.join()
        os.close(self._ours)
        return self._shown.decode()

    def _read(self) -> None:
        # a terminal that nobody has open any more is an error, not an end
        with contextlib.suppress(OSError):
            while chunk := os.read(self._ours, 4096):
                with self._changed:
                    self._shown += chunk
                    self._changed.notify_all()
        with self._changed:
            self._is_open = False
            self._changed.notify_all()


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
    """Wait for the next line that a process prints into its pipe; its end is an error."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended without another line"
    return line.decode()
