"""The command line: parse, call, print. Nothing is computed here.

Command modules import PyTorch inside their `run_` functions, so that help is printed at once.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from algoformer.common.names import check_choice
from algoformer.common.terminal import printable


@dataclass(frozen=True)
class Command:
    """A command, the module whose `run_NAME(arguments)` executes it, its help line and an example."""

    module: str
    help: str
    example: str


COMMANDS = {
    "demo": Command("demo", "train three small models and compare them with textbook algorithms", "demo"),
    "train": Command("train", "train a model on a task or on your own files", "train --data linear"),
    "search": Command("search", "search programs of equal FLOPs with Optuna", "search --data representation"),
    "evaluate": Command("evaluate", "measure runs and textbook solvers", "evaluate RUN --against newton,gd"),
    "export": Command("export", "write a trained model and its card to one file", "export RUN m.safetensors"),
    "translate": Command("translate", "translate a text line by line", "translate tatoeba_de_en german.txt"),
    "classify": Command("classify", "print the class of each line of a text", "classify dbpedia texts.txt"),
    "generate": Command(
        "generate", "continue a prompt with a language model", "generate RUN --prompt 'To be'"
    ),
    "info": Command("info", "describe a model: program, card, parameters, FLOPs", "info linear"),
    "identify": Command("identify", "find out which algorithm a model runs", "identify linear"),
    "certify": Command("certify", "run a loop far beyond its trained depth", "certify linear"),
    "theory": Command("theory", "verify, show and plot the theorems as weights", "theory show newton"),
    "explore": Command("explore", "write a page in which a model runs in the browser", "explore newton"),
    "tasks": Command("listings", "list the tasks and their constants", "tasks"),
    "programs": Command("listings", "list or draw the named programs", "programs nested --svg n.svg"),
}
"""Each command is imported only when it is called, so that help is quick."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    The status is 0 for success, 2 for wrong options or files, 130 after Ctrl-C and 1 for any other failure.
    """
    words = sys.argv[1:] if arguments is None else arguments
    name = " ".join(["algoformer", *(word for word in words[:1] if word in COMMANDS)])
    return exit_code(lambda: _dispatch(words), name=name)


def run() -> NoReturn:
    """Run one command as the whole of this process, and end the process with its exit status."""
    code = main()
    if "RANK" in os.environ and "MASTER_PORT" in os.environ:
        # one of several: threads that wait for a lost process would abort this one while Python closes
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "--help-all"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version", "version"):
        from algoformer import __version__

        print(f"algoformer {__version__}")
        return 0
    if any("\0" in word for word in words):
        raise ValueError("an argument contains the character NUL, which no file name can have; leave it out")
    name, rest = words[0], words[1:]
    if name == "help":
        return _dispatch([*rest[:1], "--help"])
    if name not in COMMANDS:
        check_choice("command", name, COMMANDS)
    module = importlib.import_module(f"algoformer.cli.{COMMANDS[name].module}")
    result: int = getattr(module, f"run_{name}")(rest)
    return result


def usage() -> str:
    """Return the help of the command line as a whole."""
    broad = max(map(len, COMMANDS))
    lines = [
        "algoformer: train, measure and use looped transformers\n",
        "usage: algoformer COMMAND [OPTIONS]\n       algoformer COMMAND --help  (the options of a command)\n",
        *(f"  {name.ljust(broad)}  {command.help}" for name, command in COMMANDS.items()),
        "\nexamples:",
        *(f"  algoformer {command.example}" for command in COMMANDS.values()),
    ]
    return "\n".join(lines)


WRONG_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
"""Error numbers of files and folders that cannot be where they were asked for: mistakes of the user."""

LOST_PROCESS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "remote process")
"""The words of gloo and NCCL when a process of the group is gone."""

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
        wrong_file = isinstance(error, OSError) and error.errno in WRONG_PLACE
        return 2 if wrong_file or isinstance(error, ValueError | OverflowError) else 1


def is_first_process() -> bool:
    """Return whether this process prints messages: of those that torchrun started, only rank zero does."""
    if os.environ.get("RANK", "0") == "0":
        return True
    from algoformer.training.trainer import started_by_torchrun

    return not started_by_torchrun()


def is_reported_by_rank_zero(error: BaseException) -> bool:
    """Return whether rank zero of a torchrun meets the same error and prints it."""
    # settings, files and numbers go wrong in all processes alike; anything else happens to one of them
    return not is_first_process() and isinstance(error, ValueError | FloatingPointError | OSError)


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
        if error.errno == errno.EEXIST and error.filename is not None:
            return f"{error.filename} exists and is not a folder; choose another name"
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
