"""The written pages as programs: their code is run, and the output they show is compared with what comes out.

A page is read from top to bottom in one namespace and one empty folder. A ```python block is executed; a
```text block right after it is what it prints. A ```console block holds commands after `$ ` and what they
print; commands of this library are run in this very process, `cat` and `ls` for real, and others not at all.
A line `...` stands for any number of lines. Run this file to write today's output into the pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("getting-started", "notation", "extending"))]
"""The pages whose code is run."""

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\d)")
SECONDS = re.compile(r"seconds: [\d.]+|torch: \S+|device: .*")
CLOSE = 0.25
"""How far a shown number with a fraction may be off, relatively: training differs in its digits between CPUs."""


@dataclass
class Block:
    """One fenced block: its language, its lines, and where its first line stands in the page."""

    language: str
    lines: list[str]
    start: int


@dataclass
class Reader:
    """Runs the blocks of one page in order."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})

    def run(self, block: Block) -> str:
        """Execute a python block and give back what it prints."""
        # the empty lines make tracebacks point at the page's own line
        source = "\n" * (block.start - 1) + "\n".join(block.lines)
        with captured() as printed:
            exec(compile(source, "page", "exec"), self.names)
        return printed.getvalue()

    def command(self, line: str) -> str | None:
        """Run a command line and give back what it prints; None if it is not one for a test."""
        words = shlex.split(line, comments=True)
        if words[0] == "algoformer":
            from algoformer.cli import main

            with captured() as printed, contextlib.redirect_stderr(io.StringIO()) as complaints:
                code = main(words[1:])
            # a wrong call complains on standard error, and the pages show that
            return printed.getvalue() if code == 0 else complaints.getvalue()
        if words[0] in ("cat", "ls", "head"):
            done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=self.folder)
            return done.stdout
        return None


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """What is printed inside, rich's tables included."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        yield printed


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[Path]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    open_block: Block | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if open_block is None and line.startswith("```"):
            open_block = Block(language=line[3:].strip(), lines=[], start=number + 1)
        elif open_block is not None and line.startswith("```"):
            found.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.lines.append(line)
    assert open_block is None, "a fenced block is not closed"
    return found


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """Each command of a console block with the lines shown under it."""
    pieces: list[tuple[str, list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            pieces.append((line[2:], []))
        elif pieces:
            pieces[-1][1].append(line)
    return pieces


def same(shown: list[str], printed: str) -> bool:
    """Whether a page shows what was printed: words exactly, blanks freely, fractions roughly.

    >>> same(["error 0.101", "..."], "error 0.100\\nand\\nso on\\n")
    True
    >>> same(["5 layers"], "6 layers")
    False
    """
    pattern = [_words(line) for line in shown if line.strip()]
    given = [_words(line) for line in printed.splitlines() if line.strip()]
    return _match(pattern, given)


def _match(pattern: list[list[str]], given: list[list[str]]) -> bool:
    if not pattern:
        return not given
    if pattern[0] == ["..."]:
        return any(_match(pattern[1:], given[skip:]) for skip in range(len(given) + 1))
    return bool(given) and _same_line(pattern[0], given[0]) and _match(pattern[1:], given[1:])


def _words(line: str) -> list[str]:
    # a table's rules are as long as its numbers are wide
    return SECONDS.sub("(varies)", re.sub(r"─+", "─", line)).split()


def _same_line(shown: list[str], given: list[str]) -> bool:
    return len(shown) == len(given) and all(map(_same_word, shown, given))


def _same_word(shown: str, given: str) -> bool:
    if shown == given:
        return True
    numbers = NUMBER.findall(shown), NUMBER.findall(given)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", given) or len(numbers[0]) != len(numbers[1]):
        return False
    return all(map(_same_number, *numbers))


def _same_number(shown: str, given: str) -> bool:
    if not any(sign in shown + given for sign in ".e"):
        return shown == given
    one, other = float(shown), float(given)
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


def written_today(path: Path) -> str:
    """The page with the output that its code gives now; a `...` in the shown output is kept with its end."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fresh: dict[tuple[int, int], list[str]] = {}
    with tempfile.TemporaryDirectory() as name, inside(Path(name)) as folder:
        reader, printed = Reader(folder), ""
        for block in blocks_of("\n".join(lines)):
            if block.language == "python":
                printed = reader.run(block)
            elif block.language == "text" and not same(block.lines, printed):
                fresh[block.start, len(block.lines)] = printed.rstrip().splitlines()
            elif block.language == "console":
                output: list[str] = []
                for command, shown in commands_of(block):
                    now = reader.command(command)
                    keep = now is None or same(shown, now)
                    output += [f"$ {command}", *(shown if keep else _tidy(now or ""))]
                fresh[block.start, len(block.lines)] = output
    for (start, length), output in sorted(fresh.items(), reverse=True):
        lines[start - 1 : start - 1 + length] = output
    return "\n".join(lines) + "\n"


def _tidy(printed: str) -> list[str]:
    return [line.rstrip() for line in printed.rstrip().splitlines()]


if __name__ == "__main__":
    wanted = {Path(name).resolve() for name in sys.argv[1:]}
    for page in PAGES:
        if not wanted or page in wanted:
            page.write_text(written_today(page), encoding="utf-8")
