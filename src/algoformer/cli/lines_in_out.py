"""Lines in, answers out: what `translate`, `classify` and `generate` share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import tyro

from algoformer.cli.parse import DeviceName, ModelOption
from algoformer.cli.progress import bars

if TYPE_CHECKING:
    from algoformer.checkpoint import Checkpoint
    from algoformer.model.stopping import StoppingRule


@dataclass(frozen=True)
class LineOptions:
    """Options of all commands that answer lines of text."""

    model: ModelOption
    file: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(metavar="[FILE]", help="The text, one item per line; by default standard input."),
    ] = None
    iterations: int | None = None  # Iterations of the loop; by default as trained.
    stop: str | None = None  # Leave the loop early: state:0.03, kl:1e-3, same:2 or gate:0.9.
    encoding: str = "utf-8"  # Encoding of the text: utf-8, latin-1, utf-16, ...
    errors: Literal["strict", "replace"] = "strict"  # Refuse undecodable bytes, or read them as U+FFFD.
    device: DeviceName = "auto"  # Where the model runs.

    def load(self) -> Checkpoint:
        """Load the model on its device; of a run folder, the weights that did best in validation.

        Raises:
            ValueError: there are iterations to run, and the model has no loop.
        """
        from algoformer.common.devices import pick_device
        from algoformer.model.program import traced_part
        from algoformer.shipped import load

        device, checkpoint = pick_device(self.device), load(self.model, best=True)
        if self.iterations is not None and traced_part(checkpoint.model.program) is None:
            raise ValueError(f"--iterations {self.iterations}: {self.model} has no loop to run; leave it out")
        checkpoint.model.to(device)
        return checkpoint

    @property
    def early_exit(self) -> StoppingRule | None:
        """The stopping rule of the loop; None runs all iterations."""
        from algoformer.model.stopping import parse_stopping

        return None if self.stop is None else parse_stopping(self.stop, max_steps=self.iterations)


def answer_lines(
    options: LineOptions,
    answer: Callable[[list[str]], Iterable[Iterable[str]]],
    *,
    at_once: int,
    greeting: str,
) -> None:
    """Print the answer to each line of a file or of standard input as soon as it is known.

    Args:
        options: the file and its encoding.
        answer: returns for each line the pieces of its answer.
        at_once: the maximum number of lines that are answered together.
        greeting: what is printed to standard error when lines are typed on a terminal.
    """
    from algoformer.language.lines import LineReader, blocks

    file, name = options.file, "standard input" if options.file is None else str(options.file)
    if sys.stdout is None:
        raise ValueError("standard output is closed, so no answer can be printed; redirect it to a file")
    if file is None and sys.stdin is not None and sys.stdin.isatty():
        print(f"{greeting}; one line at a time, Ctrl-D to end", file=sys.stderr)
    with _opened(file) as stream, _line_bar(file) as show:
        lines = LineReader(stream, encoding=options.encoding, errors=options.errors, name=name)
        answers = (pieces for block in blocks(lines, at_once) for pieces in answer(block))
        for done, pieces in enumerate(answers, start=1):
            print_answer(pieces)
            show(done)


def print_answer(pieces: Iterable[str]) -> None:
    """Print an answer on a line of its own, each piece as soon as it is there."""
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()


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
