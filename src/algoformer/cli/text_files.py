"""What `translate` and `classify` share: a checkpoint, lines in, lines out, a bar on standard error."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, cast

import tyro

from algoformer.cli.progress import bars
from algoformer.language.checkpoint import TextCheckpoint, load_text_model
from algoformer.language.line_reader import Errors, LineReader, blocks
from algoformer.language.training.trainer import BEST

CheckpointOption = Annotated[
    tyro.conf.Positional[Path], tyro.conf.arg(help="A checkpoint, or a run folder, whose best weights count.")
]
FileOption = Annotated[
    tyro.conf.Positional[Path | None], tyro.conf.arg(help="Text, a line each; by default standard input.")
]
EncodingOption = Annotated[str, tyro.conf.arg(help="Of the text: utf-8, latin-1, utf-16, ...")]
ErrorsOption = Annotated[Errors, tyro.conf.arg(help="Bytes that are no text: refuse, or read as U+FFFD.")]


def open_text_model(path: Path, device: str) -> TextCheckpoint:
    """The model at a path, on a device; of a run folder, the best weights or else the newest."""
    if path.is_dir():
        names = [path / BEST, path / "checkpoint.safetensors"]
        found = next((name for name in names if name.exists()), None)
        if found is None:
            raise ValueError(f"{path} is a folder without a checkpoint; give a file or a run folder")
        path = found
    checkpoint = load_text_model(path)
    checkpoint.model.to(device)
    return checkpoint


def answer_lines(
    file: Path | None,
    *,
    encoding: str,
    errors: Errors,
    most: int,
    answer: Callable[[Iterable[str]], Iterable[str]],
) -> None:
    """Print what `answer` gives for each line of a file or of standard input, as soon as it is there.

    Args:
        file: the text; None for standard input.
        encoding: of the text.
        errors: what to do with bytes that are no text.
        most: lines that are answered together at most.
        answer: a line for each line.

    Raises:
        ValueError: a line is not in the encoding; what comes before it was answered and printed. Or there is
            nowhere to read from or to print on.
    """
    name = "standard input" if file is None else str(file)
    if sys.stdout is None:
        raise ValueError(
            "standard output is closed, so that no answer can be printed; open it, with > FILE say"
        )
    with _opened(file) as stream, _line_bar(file) as show:
        lines = LineReader(stream, encoding=encoding, errors=errors, name=name)
        answers = (text for block in blocks(lines, most) for text in answer(block))
        for done, text in enumerate(answers, start=1):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            show(done)


def _opened(file: Path | None) -> AbstractContextManager[io.BufferedReader]:
    """The file, or standard input, which stays open afterwards."""
    if file is not None:
        return file.open("rb")
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file, or give the lines through a pipe")
    return nullcontext(cast(io.BufferedReader, sys.stdin.buffer))


@contextmanager
def _line_bar(file: Path | None) -> Iterator[Callable[[int], None]]:
    """A bar over the lines; a callback for how many are done."""
    # redrawn again and again, it would erase lines that are typed or printed on the same terminal
    if sys.stdout.isatty() or (file is None and sys.stdin.isatty()):
        yield lambda done: None
        return
    with bars() as progress:
        bar = progress.add_task("lines", total=_count_lines(file), note="")
        yield lambda done: progress.update(bar, completed=done)


def _count_lines(file: Path | None) -> int | None:
    # what comes through a pipe can be read once only, even where the pipe has a name
    if file is None or not file.is_file():
        return None
    with file.open("rb") as stream:
        return sum(1 for _ in stream)
