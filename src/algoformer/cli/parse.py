"""Parse command-line options into dataclasses with tyro; report mistakes on one line."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import tyro

from algoformer.cli import is_first_process
from algoformer.depth import Depth

Options = TypeVar("Options")

ModelOption = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(metavar="MODEL", help="Run folder, checkpoint file or shipped model."),
]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]
EngineName = Literal["auto", "eager", "graph", "compiled", "fused"]

HELP_FLAGS = frozenset({"-h", "--help", "--help-all"})
"""Options that print the help, wherever they stand on the command line."""

LONGEST_MESSAGE = 400
"""Characters of a message about a wrong option; its middle is left out beyond that."""

OTHER_WORDS = {
    "batch-size": "batch bs",
    "lr": "learning-rate rate",
    "steps": "num-steps max-steps iters epochs",
    "out": "output output-dir",
    "weight-decay": "wd",
    "clip-norm": "grad-clip clip",
    "data": "task dataset",
    "scale": "size",
    "width": "d-model",
    "device": "gpu",
    "iterations": "loops depth",
    "max-new-tokens": "max-tokens",
    "flops": "budget",
    "trials": "n-trials num-trials",
    "reduction": "eta",
}
"""Our words for options, each with those that other programs use for it."""


def parse(
    kind: type[Options],
    arguments: list[str],
    *,
    command: str,
    description: str,
    default: Options | None = None,
    program: str = "algoformer",
) -> Options:
    """Read options into a dataclass. A wrong option prints one line and exits with status 2.

    The help of an option is the docstring below its field, or the comment beside it.

    Args:
        kind: the dataclass.
        arguments: the words after the command's name.
        command: the command's name, for messages.
        description: the text at the top of the help.
        default: the defaults, where they are not those of `kind`.
        program: the program that the command belongs to, for messages.
    """
    # beside a request for help, no other word is checked
    words = ["--help"] if HELP_FLAGS.intersection(arguments) else arguments
    name = f"{program} {command}".strip()
    messages, page = io.StringIO(), _HelpPage(sys.stdout)
    try:
        with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(page):
            return tyro.cli(
                kind,
                args=words,
                prog=name,
                description=description,
                config=(tyro.conf.AvoidSubcommands,),
                default=tyro.MISSING_NONPROP if default is None else default,
                registry=_words(),
            )
    except SystemExit as stop:
        # a script for completion is printed as it is
        print(page.wrapped() if words == ["--help"] else page.getvalue(), end="")
        if stop.code and is_first_process():
            line = one_line(messages.getvalue(), known_flags(kind))
            print(f"{name}: {line}", file=sys.stderr)
        raise


class _HelpPage(io.StringIO):
    """The help that tyro prints; its paragraphs are broken into lines that fit the terminal."""

    encoding = "utf-8"  # tyro draws frames with ASCII characters otherwise

    def __init__(self, screen: Any) -> None:
        super().__init__()
        self.isatty = lambda: screen is not None and screen.isatty()  # type: ignore[method-assign]

    def wrapped(self) -> str:
        width = shutil.get_terminal_size().columns
        lines = self.getvalue().splitlines(keepends=True)
        # boxes fit already, and lines of examples, which are indented, stay whole to be copied
        kept = tuple(" │╭╰\x1b\n")
        return "".join(one if one.startswith(kept) else textwrap.fill(one, width) + "\n" for one in lines)


def _words() -> tyro.constructors.ConstructorRegistry:
    """Return how values that are one word on the command line are read: distributions of depth."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def rule(kind: tyro.constructors.PrimitiveTypeInfo) -> Any:
        if kind.type != Depth | None:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="WORD",
            instance_from_str=lambda words: None if words[0] == "None" else Depth.parse(words[0]),
            is_instance=lambda value: value is None or isinstance(value, Depth),
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def known_flags(kind: type, prefix: str = "") -> tuple[str, ...]:
    """Return every flag of an options dataclass, nested ones included."""
    hints = get_type_hints(kind, include_extras=True)
    found: list[str] = []
    for item in fields(kind):
        hint = hints[item.name]
        settings = list(getattr(hint, "__metadata__", ()))
        positional = any("Positional" in repr(one) for one in settings)
        names = [one.name for one in settings if getattr(one, "name", None) is not None]
        name = (names[0] if names else item.name).replace("_", "-")
        inner = _dataclass_in(hint)
        if inner is not None:
            found += known_flags(inner, f"{prefix}{name}." if name else prefix)
        elif not positional:
            found.append(f"--{prefix}{name}")
    return tuple(found)


def _dataclass_in(hint: Any) -> type | None:
    if isinstance(hint, type):
        return hint if is_dataclass(hint) and hint is not Depth else None
    return next((found for one in get_args(hint) if (found := _dataclass_in(one)) is not None), None)


def nearest_flag(flag: str, known: tuple[str, ...]) -> str | None:
    """Return the flag that was probably meant: by another usual word, by its last word, or by its letters.

    >>> nearest_flag("--training.learning-rate", ("--lr", "--clip-norm"))
    '--lr'
    >>> nearest_flag("--model.loop.head", ("--model.loop.head-width", "--model.loop.heads"))
    '--model.loop.heads'
    """
    word = flag.split("=")[0].lstrip("-").replace("_", "-")
    last = word.rpartition(".")[2]
    close: Mapping[str, str] = {one.lstrip("-"): one for one in known}
    if "." in word:  # a part of the program, or of the data, with a slip in its name
        ending = [one for one in known if one.endswith(f".{word}")]
        ending += [close[one] for one in difflib.get_close_matches(word, close, n=1, cutoff=0.85)]
        if ending:
            return ending[0]
    ours = [ours for one in (word, last) for ours, others in OTHER_WORDS.items() if one in others.split()]
    for wanted in (word, last, *ours):
        if f"--{wanted}" in known:
            return f"--{wanted}"
    ending = [one for one in known if one.lstrip("-").rpartition(".")[2] == last]
    if len(ending) == 1:
        return ending[0]
    match = difflib.get_close_matches(word, close, n=1, cutoff=0.6)
    return close[match[0]] if match else None


def one_line(box: str, known: tuple[str, ...] = ()) -> str:
    """Return the message inside tyro's box on one line, with the option that was probably meant."""
    rows = [row.strip(" │") for row in box.splitlines()]
    paragraphs: list[list[str]] = [[]]
    for row in rows:
        if re.fullmatch(r"[-─]+", row):
            paragraphs.append([])
        elif row and row[0] not in "╭╰":
            paragraphs[-1].append(row)
    if not box.lstrip().startswith("╭"):
        paragraphs = paragraphs[1:]  # without a frame, the title is the first paragraph
    if not paragraphs or not paragraphs[0]:
        return " ".join(box.split())
    message = re.sub(r"^Error parsing [^-:][^:]*: ", "", " ".join(paragraphs[0]))
    # an option that may be None reports both of its types; the last one is the one that was meant
    message = re.sub(r"no type matching .* - <class '\w+'>: ", "", message)
    message = re.sub(r"^Missing from .*?: (\S+) (.*?)\.? \(required\)", r"\1 is missing: \2", message)
    message = re.sub(r"invalid literal for int\(\) with base 10:", "a whole number is needed, got", message)
    message = re.sub(r"could not convert string to float:", "a number is needed, got", message)
    unknown = re.match(r"Unrecognized options?: (\S+?),?(?:\s|$)", message)
    if unknown:
        message = f"unknown option {unknown[1]}"
        if not unknown[1].startswith("-"):
            return f"{_bounded(message)}; it is not the value of any option before it (see --help)"
        meant = nearest_flag(unknown[1], known)
        message += f"; did you mean {meant}?" if meant else ""
    return f"{_bounded(message)} (see --help)"


def _bounded(message: str) -> str:
    """Leave out the middle of a long message: it repeats what was typed."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]}...{message[-half:]}"
