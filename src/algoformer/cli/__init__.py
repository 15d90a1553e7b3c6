"""The command line: parse, call, print. Nothing is computed here."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from dataclasses import dataclass

from algoformer.cli.failure import describe_failure, is_said_elsewhere


@dataclass(frozen=True)
class Command:
    """A word of the command line, the module whose `run(arguments)` answers it, and its help."""

    module: str
    help: str
    example: str


COMMANDS = {
    "demo": Command("demo", "train three small models, compare them with textbook algorithms", "demo"),
    "train": Command("train", "train a program on a task", "train --task linear --program looped"),
    "evaluate": Command("evaluate", "measure and draw runs and solvers", "evaluate RUN --against newton,gd"),
    "export": Command("export", "a trained model as one file with its card", "export RUN model.safetensors"),
    "text": Command("text", "train a translator or classifier, or pack its corpus", "text train"),
    "translate": Command("translate", "a text, line by line", "translate RUN german.txt"),
    "classify": Command("classify", "the class of each line of a text", "classify RUN texts.txt"),
    "reproduce": Command("reproduce", "the paper's figures: train, measure, draw", "reproduce fig5 --list"),
    "info": Command("info", "what a model is and what it costs", "info --program algoformer"),
    "bench": Command("bench", "time training steps beside plain PyTorch", "bench --quick"),
    "theory": Command("theory", "verify, show and plot the theorems as weights", "theory show newton"),
    "explore": Command("explore", "a page in which a model runs in the browser", "explore newton"),
    "tasks": Command("listings", "the tasks, with their constants", "tasks"),
    "programs": Command(
        "listings", "the named programs, as outline or picture", "programs nested --svg n.svg"
    ),
}
"""Each command is imported only when it is called, so that help is quick."""


WRONG = (ValueError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""What is raised for options and files that are wrong."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command: 0 if it went well, 2 if its options or files are wrong, 1 for any other failure.

    After Ctrl-C it is 130, as for any program.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = _answer(words)
        if sys.stdout is not None:
            sys.stdout.flush()  # where the reader has gone, this is the last moment to notice
        return code
    except KeyboardInterrupt:
        print("\nalgoformer: stopped by Ctrl-C; what was saved is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader (head, less) has gone; without this Python complains once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("ALGOFORMER_TRACEBACK"):
            raise
        if not is_said_elsewhere(error):
            print(f"algoformer {words[0]}: {describe_failure(error)}", file=sys.stderr)
        return 2 if isinstance(error, WRONG) else 1


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("--version", "version"):
        from algoformer import __version__

        print(f"algoformer {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
        print(f"algoformer: no command {name!r}; {hint}", file=sys.stderr)
        return 2
    return _call(name, words[1:])


def _call(name: str, arguments: list[str]) -> int:
    module = importlib.import_module(f"algoformer.cli.{COMMANDS[name].module}")
    entry = getattr(module, f"run_{name}")
    result: int = entry(arguments)
    return result


def usage() -> str:
    """The help of the command line as a whole."""
    broad = max(map(len, COMMANDS))
    rows = [f"  {name.ljust(broad)}  {command.help}" for name, command in COMMANDS.items()]
    samples = [f"  algoformer {command.example}" for command in COMMANDS.values()]
    return "\n".join(
        [
            "algoformer: transformers with algorithmic structure",
            "",
            "usage: algoformer COMMAND [OPTIONS]      (algoformer COMMAND --help for its options)",
            "",
            *rows,
            "",
            "examples:",
            *samples,
        ]
    )
