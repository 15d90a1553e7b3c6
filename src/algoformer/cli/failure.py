"""Describe a failure in one line that says what to do about it."""

from __future__ import annotations

import errno
import os

from algoformer.common.terminal import printable

WRONG_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
"""Error numbers of files and folders that cannot be where they were asked for: mistakes of the user."""

LONGEST = 2000
"""Characters of a message that are printed; a file can make a message as long as it likes."""


def is_first_process() -> bool:
    """Return whether this process prints messages: of those that torchrun started, only rank zero does."""
    if os.environ.get("RANK", "0") == "0":
        return True
    from algoformer.training.distributed import started_by_torchrun

    return not started_by_torchrun()


def is_reported_by_rank_zero(error: BaseException) -> bool:
    """Return whether rank zero of a torchrun meets the same error and prints it."""
    # settings, files and numbers go wrong in all processes alike; anything else happens to one of them
    return not is_first_process() and isinstance(error, ValueError | FloatingPointError | OSError)


def is_users_mistake(error: BaseException) -> bool:
    """Return whether wrong options or files caused this error, so that the exit status is 2."""
    wrong_file = isinstance(error, OSError) and error.errno in WRONG_PLACE
    return wrong_file or isinstance(error, ValueError | OverflowError)


def describe_failure(error: BaseException) -> str:
    """Return the error as one line; errors that are not the user's keep their type, for a report."""
    return printable(_described(error))[:LONGEST]


def _described(error: BaseException) -> str:
    text = " ".join(str(error)[: 2 * LONGEST].split())
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or text}); files that were there before are unchanged"
    if isinstance(error, OSError) and error.errno in WRONG_PLACE:
        # errors of this library name the file in their text already
        said = error.strerror or text
        return said if error.filename is None else f"{said}: {error.filename}"
    if "No space left" in text:
        return f"the disk is full ({text}); files that were there before are unchanged"
    if isinstance(error, ValueError | FloatingPointError | ModuleNotFoundError):
        return text
    return f"{type(error).__name__}: {text} (set ALGOFORMER_TRACEBACK=1 to see where)"
