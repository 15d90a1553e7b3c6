"""Options to dataclasses through tyro, with errors on one line."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from typing import TypeVar

import tyro

from algoformer.cli.failure import is_first_process

Options = TypeVar("Options")


def parse(
    kind: type[Options],
    arguments: list[str],
    *,
    command: str,
    description: str,
    default: Options | None = None,
    program: str = "algoformer",
) -> Options:
    """Read the options of a command into a dataclass; a wrong one prints one line and exits with 2."""
    name = f"{program} {command}".strip()
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            return tyro.cli(
                kind,
                args=arguments,
                prog=name,
                description=description,
                config=(tyro.conf.AvoidSubcommands,),
                default=tyro.MISSING_NONPROP if default is None else default,
            )
    except SystemExit as stop:
        if stop.code and is_first_process():
            print(f"{name}: {one_line(noise.getvalue())}", file=sys.stderr)
        raise


def one_line(box: str) -> str:
    """The message inside tyro's box: the complaint and, if there is one, the nearest option."""
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
    message = re.sub(r"invalid literal for int\(\) with base 10:", "a whole number is needed, got", message)
    message = re.sub(r"could not convert string to float:", "a number is needed, got", message)
    for paragraph in paragraphs[1:]:
        if paragraph and paragraph[0].startswith("Perhaps you meant") and len(paragraph) > 1:
            message += f"; perhaps you meant {paragraph[1].split()[0]}"
            break
    return f"{message} (see --help)"
