"""What went wrong, in one line that says what to do about it."""

from __future__ import annotations

import errno
import os

WRONG_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG),
)
"""What goes wrong when a file or folder cannot be where it was asked for: the user's to mend."""


def is_first_process() -> bool:
    """Whether this process speaks for all: of those that torchrun started, only the first one does."""
    if os.environ.get("RANK", "0") == "0":
        return True
    from algoformer.training.distributed import started_by_torchrun

    return not started_by_torchrun()


def is_said_elsewhere(error: BaseException) -> bool:
    """Whether the first process of a torchrun has met with the same error, and says so."""
    # settings, files and numbers go wrong for all processes alike; what else happens, happens to one
    return not is_first_process() and isinstance(error, ValueError | FloatingPointError | OSError)


def describe_failure(error: BaseException) -> str:
    """The error as one line; errors that are not the user's keep their type, for a report."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or text}); nothing that was there before is lost"
    if isinstance(error, OSError) and error.errno in WRONG_PLACE:
        # what this library says about a file has the file's name in it already
        said = error.strerror or text
        return said if error.filename is None else f"{said}: {error.filename}"
    if "No space left" in text:
        return f"the disk is full ({text}); nothing that was there before is lost"
    if isinstance(error, ValueError | FloatingPointError | ModuleNotFoundError):
        return text
    return f"{type(error).__name__}: {text} (set ALGOFORMER_TRACEBACK=1 to see where)"
