"""Run a command and return its exit status; a failure becomes one line that says what to do about it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

from algoformer.common.terminal import printable

WRONG_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
"""Error numbers of files and folders that cannot be where they were asked for: mistakes of the user."""

LOST_PROCESS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "remote process")
"""What gloo and NCCL say when a process of the group is gone."""

LONGEST = 2000
"""Characters of a message that are printed; a file can make a message as long as it likes."""


def exit_code(command: Callable[[], int], *, name: str) -> int:
    """Run a command and return its exit status: 2 if its options or files are wrong, 1 for other failures.

    After Ctrl-C it is 130, as for any program. An exception becomes one line that begins with `name`; with
    the environment variable `ALGOFORMER_TRACEBACK` set, it is raised.
    """
    try:
        code = command()
        if sys.stdout is not None:
            sys.stdout.flush()  # a closed pipe is noticed here at the latest
        return code
    except SystemExit as stop:  # help was printed, or an option was refused
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; finished checkpoints and results are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader (head, less) has gone; without this Python complains once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("ALGOFORMER_TRACEBACK"):
            raise
        if not is_reported_by_rank_zero(error):
            print(f"{name}: {describe_failure(error)}", file=sys.stderr)
        return 2 if is_users_mistake(error) else 1


def is_first_process() -> bool:
    """Return whether this process prints messages: of those that torchrun started, only rank zero does."""
    if os.environ.get("RANK", "0") == "0":
        return True
    from algoformer.training.process_group import started_by_torchrun

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
    if isinstance(error, RuntimeError) and any(words in text for words in LOST_PROCESS):
        return f"another process of this run has ended ({text[:200]}); continue with --resume"
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text:
        return "not enough memory for these sizes; choose smaller ones, such as a smaller batch or width"
    if isinstance(error, ValueError | FloatingPointError | ModuleNotFoundError):
        return text
    return f"{type(error).__name__}: {text} (set ALGOFORMER_TRACEBACK=1 to see where)"
