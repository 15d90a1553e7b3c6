"""Every command with all its options, found by asking the commands, and changed command lines."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import itertools
import os
import random
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from algoformer.cli import COMMANDS, main
from algoformer.cli.parse import known_flags
from algoformer.shipped import shipped_names
from torture.mutate import ODD_WORDS
from torture.verdicts import LimitError, Mutant, NonsenseError

LIGHT = {
    **{"--steps": "2", "--prompts": "24", "--width": "8", "--reach": "2", "--max-new-tokens": "3"},
    **{"--device": "cpu", "--beam": "1", "--batch-size": "2", "--data.points": "5", "--depths": "3"},
}
"""Values that keep a command light, for every command that has the option."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.symlink", "os.truncate")
"""Events of Python's audit hooks in which a file or folder is changed."""

_GUARDED: list[Path] = []


_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Line:
    """A valid command line, and every option that its command has.

    Attributes:
        words: the command and its arguments.
        flags: the options.
    """

    words: tuple[str, ...]
    flags: tuple[str, ...]


def lines(stand_ins: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return light command lines for every command, made from the example in its help.

    Args:
        stand_ins: paths in place of words of the examples: RUN, files, and names of shipped models. A word
            with several of them gives a line for each.
    """
    found = []
    for name, command in COMMANDS.items():
        example = shlex.split(command.example)
        choices = [(word,) if word == name else stand_ins.get(word, (word,)) for word in example]
        if name == "train":
            choices = [(word,) for word in example]
        flags = _flags(name, [one[0] for one in choices])
        light = [
            word for flag in LIGHT if flag in flags and flag not in example for word in (flag, LIGHT[flag])
        ]
        found += [Line((*words, *light), flags) for words in itertools.product(*choices)]
    return found


def words_to_replace() -> set[str]:
    """Return the words in examples that stand for a model or a file, for which a sample is needed."""
    examples = (word for command in COMMANDS.values() for word in shlex.split(command.example))
    models = {"RUN", *shipped_names()}
    return {word for word in examples if word in models or (Path(word).suffix == ".txt")}


def _flags(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command, by calling it with an option parser that only listens."""
    heard: list[type] = []

    def listen(kind: type, **_: Any) -> Any:
        heard.append(kind)
        raise SystemExit(0)

    usual = tyro.cli
    tyro.cli = listen  # type: ignore[assignment]
    try:
        for arguments in ([name, "--help-all"], list(words)):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                main(arguments)
    finally:
        tyro.cli = usual
    own = [flag for kind in heard for flag in known_flags(kind)]
    module = importlib.import_module(f"algoformer.cli.{COMMANDS[name].module}")
    if not heard:
        raise ValueError(f"the options of {name} ({module.__name__}) cannot be found: it does not call parse")
    return tuple(dict.fromkeys(own))


def changed_line(rng: random.Random, line: Line, scratch: Path) -> Mutant:
    """Return a command line with one to three changes, to be run in an empty folder."""
    words, removed = list(line.words), False
    for _ in range(rng.choice([1, 1, 2, 3])):
        where, what = rng.randint(1, len(words)), rng.random()
        if what < 0.55 and line.flags:
            words += [rng.choice(line.flags), rng.choice(ODD_WORDS)]
        elif what < 0.65 and line.flags:
            words.insert(where, rng.choice(line.flags))
        elif what < 0.8 and where < len(words):
            words[where] = rng.choice(ODD_WORDS)
        elif what < 0.9:
            removed = removed or where < len(words)
            del words[where : where + 1]
        else:
            words.insert(where, rng.choice(ODD_WORDS))
    more = any(_is_large(word) for word in words) or bool(set(LIGHT) & (set(line.words) - set(words)))
    more = more or line.words[0] == "demo" or any(words.count(flag) > 1 for flag in LIGHT)
    more = more or removed  # a command that is given no names takes all of them, as `algoformer theory` does
    name = f"algoformer {shlex.join(words)[:600]}"
    return Mutant(name, lambda: run_line(words, scratch), more_work=more, cpu=2 if more else 5)


def _is_large(word: str) -> bool:
    try:
        return float(word) > 3
    except ValueError:
        return False


def run_line(words: Sequence[str], scratch: Path) -> None:
    """Run a command and judge its exit status and what it prints.

    Raises:
        ValueError: the command refused its input on one line.
        NonsenseError: the command printed something that it should not.
        MemoryError: the command ran out of memory.
        LimitError: a process that the command started ran out of CPU time.
        RuntimeError: the command failed otherwise.
    """
    _enter_new_folder(scratch)
    with _captured() as (out, error):
        code = main(list(words))
    said = error().strip()
    last = said.splitlines()[-1] if said else ""
    if code == 0:
        if any(sign in out() + error() for sign in ("\x1b]", "\x1b[2J", "\x07")):
            raise NonsenseError("control characters of the input reached the terminal")
        return
    if "MemoryError" in last or "can't allocate memory" in last or "out of memory" in last:
        raise MemoryError(last)
    if f"exit code {-signal.SIGXCPU}" in last:
        raise LimitError(last)
    if "ALGOFORMER_TRACEBACK" in last or "Traceback" in said or not last:
        raise RuntimeError(f"status {code}: {said[-300:]}")
    if code == 2 and len(said.splitlines()) != 1:
        raise NonsenseError(f"status 2 with {len(said.splitlines())} lines: {said[:300]}")
    if code not in (1, 2) or not last.startswith("algoformer"):
        raise NonsenseError(f"status {code}: {said[-300:]}")
    raise ValueError(last)


def _enter_new_folder(scratch: Path) -> None:
    """Work in an empty folder, from which nothing outside can be changed: `--out /` must not write there."""
    if not _GUARDED:
        _GUARDED.append(scratch)
        sys.dont_write_bytecode = True
        sys.addaudithook(_refuse_writes_elsewhere)
    folder = scratch / f"work {os.getpid()} {next(_NUMBERS)}"
    folder.mkdir()
    os.chdir(folder)


def _refuse_writes_elsewhere(event: str, arguments: Sequence[Any]) -> None:
    """Raise PermissionError when this process is about to change a file outside the folder of the torture."""
    writes = event in CHANGES or (event == "open" and bool((arguments[2] or 0) & WRITING))
    if not writes or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))
    if not path.startswith((*map(str, _GUARDED), "/dev/", "/tmp/")):
        raise PermissionError(errno.EACCES, "Permission denied", path)


@contextlib.contextmanager
def _captured() -> Iterator[tuple[Any, Any]]:
    """Capture the standard streams as a terminal would get them: text that is not UTF-8 cannot be printed."""
    out, error = io.BytesIO(), io.BytesIO()
    printed = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    reported = io.TextIOWrapper(error, encoding="utf-8", errors="backslashreplace", write_through=True)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(reported):
            yield (lambda: out.getvalue().decode()), (lambda: error.getvalue().decode())
    finally:
        printed.detach()  # or their end would close what they wrote to
        reported.detach()
