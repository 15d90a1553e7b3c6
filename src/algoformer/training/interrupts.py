"""Ctrl-C between two steps, never in the middle of one."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Inside, a first Ctrl-C is only noted, for the yielded function to tell; a second one interrupts.

    Where somebody else handles Ctrl-C, or outside the main thread, nothing is changed.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: asked
        return
    try:
        signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread
        yield lambda: asked
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
