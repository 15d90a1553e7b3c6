"""The written pages as programs: their code is run, and the output they show is compared with what comes out.

A page is read from top to bottom in one namespace and one empty folder. A ```python block is executed; a
```text block right after it is what it prints. A ```console block holds commands after `$ ` and what they
print; commands of this library are run in this very process, `ls` for real, and others not at all.
`...` stands for any number of words. After "trained" in a fence numbers may be
off by some, as training is on another CPU. Run this file to write today's output into the pages.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from algoformer.algorithms import SOLVERS
from algoformer.data import protocol
from algoformer.language.corpora import CORPORA
from algoformer.language.scores import METRICS
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS
from algoformer.search.kinds import KINDS
from algoformer.tasks import TASKS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
"""The pages whose code is run."""

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\d)")
VARIES = re.compile(r"\d+ of \d+ steps")
CLOSE = 0.05
"""How far a shown number with a fraction may be off, relatively."""

ROUGH = 0.75
"""The same in a block marked `trained`: a few training steps end in other digits on another CPU."""


@dataclass
class Block:
    """One fenced block: its language and marks, its lines, and where its first line stands in the page."""

    language: str
    marks: list[str]
    lines: list[str]
    start: int

    @property
    def close(self) -> float:
        """How far its numbers may be off."""
        return ROUGH if "trained" in self.marks else CLOSE


@dataclass
class Reader:
    """Runs the blocks of one page in order."""

    folder: Path
    module: ModuleType = field(default_factory=lambda: ModuleType("page"))

    def run(self, block: Block) -> str:
        """Execute a python block and give back what it prints."""
        # the empty lines make tracebacks point at the page's own line
        source = "\n" * (block.start - 1) + "\n".join(block.lines)
        code = compile(source, "page", "exec", dont_inherit=True)
        sys.modules[self.module.__name__] = self.module  # dataclasses look their module up
        with captured() as printed:
            exec(code, vars(self.module))
        return printed.getvalue()

    def command(self, line: str) -> str | None:
        """Run a command line and give back what it prints; None if it is not one for a test."""
        words = shlex.split(line, comments=True)
        if (program := program_of(words)) is not None:
            with captured() as printed, contextlib.redirect_stderr(io.StringIO()) as complaints:
                code = program()
            # a wrong call complains on standard error, and the pages show that
            return printed.getvalue() if code == 0 else complaints.getvalue()
        if words[0] == "ls":
            done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=self.folder)
            return done.stdout
        return None


def program_of(words: list[str]) -> Callable[[], int] | None:
    """The command of this repository that a command line calls; None if it calls another one."""
    if words[0] == "algoformer":
        return lambda: importlib.import_module("algoformer.cli").main(words[1:])
    if words[:2] == ["python", "-m"] and words[2] in ("paper", "benchmarks"):
        return lambda: importlib.import_module(f"{words[2]}.command").main(words[3:])
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


@contextlib.contextmanager
def own_registrations() -> Iterator[None]:
    """Forget at the end what is registered inside, so that no page depends on another."""
    words: list[dict[str, Any]] = [NORMS, ACTIVATIONS, POSITIONS, INJECTIONS, STARTS]
    named = [protocol._KINDS, CORPORA, METRICS]
    registries: list[dict[str, Any]] = [TASKS, SOLVERS, KINDS, *named, *words]
    before = [dict(entries) for entries in registries]
    try:
        yield
    finally:
        for entries, kept in zip(registries, before, strict=True):
            entries.clear()
            entries.update(kept)


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    open_block: Block | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if open_block is None and line.startswith("```"):
            language, *marks = line[3:].split() or [""]
            open_block = Block(language=language, marks=marks, lines=[], start=number + 1)
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


def same(shown: list[str], printed: str, *, close: float = CLOSE) -> bool:
    """Whether a page shows what was printed: words and whole numbers exactly, fractions nearly.

    >>> same(["error 0.101", "..."], "error 0.100\\nand\\nso on\\n")
    True
    >>> same(["5 layers"], "6 layers")
    False
    """
    return _match(_words("\n".join(shown)), _words(printed), close)


def _words(text: str) -> list[str]:
    # line by line would be too strict: a table's rule and the breaks in its note follow the width of numbers
    return VARIES.sub("(varies)", re.sub(r"─+", "─", text)).split()


def _match(shown: list[str], printed: list[str], close: float) -> bool:
    if "..." in shown:
        gap = shown.index("...")
        start, rest = shown[:gap], shown[gap + 1 :]
        ends = range(gap, len(printed) + 1)
        return _match(start, printed[:gap], close) and any(_match(rest, printed[end:], close) for end in ends)
    return len(shown) == len(printed) and all(
        _same_word(one, other, close) for one, other in zip(shown, printed, strict=True)
    )


def _same_word(shown: str, given: str, close: float) -> bool:
    if shown == given:
        return True
    numbers = NUMBER.findall(shown), NUMBER.findall(given)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", given) or len(numbers[0]) != len(numbers[1]):
        return False
    return all(_same_number(one, other, close) for one, other in zip(*numbers, strict=True))


def _same_number(shown: str, given: str, close: float) -> bool:
    if not any(sign in shown + given for sign in ".e"):
        return shown == given
    one, other = float(shown), float(given)
    return abs(one - other) <= close * max(abs(one), abs(other))


def written_today(path: Path) -> str:
    """The page with the output that its code gives now; what is shortened by `...` and still true is kept."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fresh: dict[tuple[int, int], list[str]] = {}
    with own_registrations(), tempfile.TemporaryDirectory() as name, inside(Path(name)) as folder:
        reader, printed = Reader(folder), ""
        for block in blocks_of("\n".join(lines)):
            if block.language == "python":
                printed = reader.run(block)
            elif block.language == "text":
                fresh[block.start, len(block.lines)] = _renewed(block, block.lines, printed)
            elif block.language == "console":
                output: list[str] = []
                for command, shown in commands_of(block):
                    now = reader.command(command)
                    output += [f"$ {command}", *(shown if now is None else _renewed(block, shown, now))]
                fresh[block.start, len(block.lines)] = output
    for (start, length), output in sorted(fresh.items(), reverse=True):
        lines[start - 1 : start - 1 + length] = output
    return "\n".join(lines) + "\n"


def _renewed(block: Block, shown: list[str], printed: str) -> list[str]:
    if "..." in shown and same(shown, printed, close=block.close):
        return shown
    return [line.rstrip() for line in printed.rstrip().splitlines()]


if __name__ == "__main__":
    sys.modules["tensorboard"] = None  # type: ignore[assignment]  # as in the tests: it would add to run folders
    wanted = {Path(name).resolve() for name in sys.argv[1:]}
    for page in PAGES:
        if not wanted or page in wanted:
            page.write_text(written_today(page), encoding="utf-8")
