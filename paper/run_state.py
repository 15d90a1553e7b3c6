"""Runs that were begun: how far they are, and which of them cannot go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


class DamagedRun(ValueError):
    """A checkpoint cannot be read: its run can neither go on nor begin anew while its folder is there."""

    def __init__(self, folder: Path, reason: object) -> None:
        super().__init__(f"{reason}. Remove {folder} to begin the run anew")


@runtime_checkable
class Carded(Protocol):
    """Any kind of checkpoint."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts about it."""
        ...


def steps_taken(folder: Path, load: Callable[[Path], Carded]) -> int:
    """The training steps of the run in a folder; 0 if there is no checkpoint yet.

    Raises:
        DamagedRun: there is one that cannot be read.
    """
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    try:
        step = load(path).card.get("step")
    except ValueError as error:
        raise DamagedRun(folder, error) from None
    if not isinstance(step, int):
        raise DamagedRun(folder, f"{path} does not say at which step it was made")
    return step
