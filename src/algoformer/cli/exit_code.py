"""Run a command and return its exit status, with errors on one line of standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from algoformer.cli.failure import describe_failure, is_reported_by_rank_zero, is_users_mistake


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
