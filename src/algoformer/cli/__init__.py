"""The command line: parse, call, print. Nothing is computed here.

Command modules import PyTorch inside their `run_` functions, so that help is printed at once.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

from algoformer.cli.failure import exit_code
from algoformer.common.names import check_choice


@dataclass(frozen=True)
class Command:
    """A command, the module whose `run_NAME(arguments)` executes it, its help line and an example."""

    module: str
    help: str
    example: str


COMMANDS = {
    "demo": Command("demo", "train three small models and compare them with textbook algorithms", "demo"),
    "train": Command("train", "train a model on a task or on your own files", "train --data linear"),
    "evaluate": Command(
        "evaluate", "measure runs, beside textbook solvers", "evaluate RUN --against newton,gd"
    ),
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

MOVED = {"reproduce": "python -m paper", "bench": "python -m benchmarks", "text": "algoformer train --data"}
"""Commands of earlier versions, and what replaces them."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    The status is 0 for success, 2 for wrong options or files, 130 after Ctrl-C and 1 for any other failure.
    """
    words = sys.argv[1:] if arguments is None else arguments
    name = " ".join(["algoformer", *(word for word in words[:1] if word in COMMANDS)])
    return exit_code(lambda: _dispatch(words), name=name)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version", "version"):
        from algoformer import __version__

        print(f"algoformer {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name == "help":
        return _dispatch([*rest[:1], "--help"])
    if name in MOVED:
        raise ValueError(f"{name} is not a command of this version; use {MOVED[name]}")
    if name not in COMMANDS:
        check_choice("command", name, COMMANDS)
    module = importlib.import_module(f"algoformer.cli.{COMMANDS[name].module}")
    result: int = getattr(module, f"run_{name}")(rest)
    return result


def usage() -> str:
    """Return the help of the command line as a whole."""
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
