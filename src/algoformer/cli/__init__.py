"""The command line: parse, call, print. Nothing is computed here."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

from algoformer.cli.exit_code import exit_code
from algoformer.common.names import check_choice


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
    "info": Command("info", "what a model is and what it costs", "info --program algoformer"),
    "theory": Command("theory", "verify, show and plot the theorems as weights", "theory show newton"),
    "tasks": Command("listings", "the tasks, with their constants", "tasks"),
    "programs": Command(
        "listings", "the named programs, as outline or picture", "programs nested --svg n.svg"
    ),
}
"""Each command is imported only when it is called, so that help is quick."""


MOVED = {"reproduce": "python -m paper", "bench": "python -m benchmarks"}
"""Commands that stand beside the library, in a checkout of its repository."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command: 0 if it went well, 2 if its options or files are wrong, 1 for any other failure.

    After Ctrl-C it is 130, as for any program.
    """
    words = sys.argv[1:] if arguments is None else arguments
    name = " ".join(["algoformer", *(word for word in words[:1] if word in COMMANDS)])
    return exit_code(lambda: _answer(words), name=name)


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("--version", "version"):
        from algoformer import __version__

        print(f"algoformer {__version__}")
        return 0
    name = words[0]
    if name in MOVED:
        raise ValueError(f"there is no command {name!r}; in a checkout of the repository, run {MOVED[name]}")
    check_choice("command", name, COMMANDS)
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
