"""Lines in, lines out: what `translate` and `classify` share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import tyro

from algoformer.cli.progress import bars

if TYPE_CHECKING:
    from algoformer.checkpoint import Checkpoint

ModelOption = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(metavar="MODEL", help="A run folder, a checkpoint file or a shipped model."),
]
FileOption = Annotated[
    tyro.conf.Positional[Path | None],
    tyro.conf.arg(metavar="[FILE]", help="The text, one item per line; by default standard input."),
]
EncodingOption = Annotated[str, tyro.conf.arg(help="Encoding of the text: utf-8, latin-1, utf-16, ...")]
ErrorsOption = Annotated[
    Literal["strict", "replace"], tyro.conf.arg(help="Refuse undecodable bytes, or read them as U+FFFD.")
]
DeviceOption = Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where the model runs.")]
IterationsOption = Annotated[int | None, tyro.conf.arg(help="Iterations of the loop; by default as trained.")]


def open_text_model(path: Path, device: str) -> Checkpoint:
    """Load a model of text on a device; of a run folder, the weights that did best in validation."""
    from algoformer.shipped import load

    checkpoint = load(path, best=True)
    checkpoint.model.to(device)
    return checkpoint


def answer_lines(
    file: Path | None,
    *,
    encoding: str,
    errors: Literal["strict", "replace"],
    most: int,
    answer: Callable[[Iterable[str]], Iterable[str]],
    greeting: str,
) -> None:
    """Print the answer to each line of a file or of standard input as soon as it is known.

    Args:
        file: the text; None for standard input.
        encoding: the encoding of the text.
        errors: what to do with bytes that cannot be decoded.
        most: the maximum number of lines that are answered together.
        answer: returns a line for each line.
        greeting: what is printed to standard error when lines are typed on a terminal.

    Raises:
        ValueError: a line is not in the encoding; the lines before it were answered. Or there is nothing to
            read from or to print on.
    """
    from algoformer.language.line_reader import LineReader, blocks

    name = "standard input" if file is None else str(file)
    if sys.stdout is None:
        raise ValueError("standard output is closed, so no answer can be printed; redirect it to a file")
    if file is None and sys.stdin is not None and sys.stdin.isatty():
        print(f"{greeting}; one line at a time, Ctrl-D to end", file=sys.stderr)
    with _opened(file) as stream, _line_bar(file) as show:
        lines = LineReader(stream, encoding=encoding, errors=errors, name=name)
        answers = (text for block in blocks(lines, most) for text in answer(block))
        for done, text in enumerate(answers, start=1):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            show(done)


def _opened(file: Path | None) -> AbstractContextManager[io.BufferedReader]:
    """Open the file, or standard input, which stays open afterwards."""
    if file is not None:
        return file.open("rb")
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file, or pipe the lines in")
    return nullcontext(cast(io.BufferedReader, sys.stdin.buffer))


@contextmanager
def _line_bar(file: Path | None) -> Iterator[Callable[[int], None]]:
    """Draw a bar over the lines; yields a callback for the number of lines done."""
    # a bar would erase lines that are typed or printed on the same terminal
    if sys.stdout.isatty() or (file is None and sys.stdin.isatty()):
        yield lambda done: None
        return
    with bars() as progress:
        bar = progress.add_task("lines", total=_count_lines(file), note="")
        yield lambda done: progress.update(bar, completed=done)


def _count_lines(file: Path | None) -> int | None:
    # a pipe can be read only once, even where it has a name
    if file is None or not file.is_file():
        return None
    with file.open("rb") as stream:
        return sum(1 for _ in stream)
