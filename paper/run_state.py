"""Runs that were begun: how far they are, and which of them cannot go on."""

from __future__ import annotations

from pathlib import Path

from algoformer.checkpoint import LATEST
from algoformer.training import load_checkpoint


class DamagedRun(ValueError):
    """A checkpoint cannot be read: its run can neither go on nor begin anew while its folder is there."""

    def __init__(self, folder: Path, reason: object) -> None:
        super().__init__(f"{reason}. Remove {folder} to begin the run anew")


def steps_taken(folder: Path) -> int:
    """Return the training steps of the run in a folder; 0 if there is no checkpoint yet.

    Raises:
        DamagedRun: there is one that cannot be read.
    """
    path = folder / LATEST
    if not path.exists():
        return 0
    try:
        step = load_checkpoint(path).card.get("step")
    except ValueError as error:
        raise DamagedRun(folder, error) from None
    if not isinstance(step, int):
        raise DamagedRun(folder, f"{path} does not say at which step it was made")
    return step
