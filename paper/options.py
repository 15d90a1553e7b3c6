"""The options of `python -m paper` that figures and tables share."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from paper.corpora.files import UnknownFileWarning
from paper.runs import Item, RunSpec, Scale

PROGRAM = "python -m paper"
"""The command that makes a figure or a table."""

FLAGS = {f"--{no}{name}" for name in ("list", "train", "prepare") for no in ("", "no-")} | {"-h", "--help"}
"""Options that no value follows."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of `python -m paper` for figures and tables."""

    scale: Annotated[
        Scale, tyro.conf.arg(help="tiny: two CPU cores; short: a GPU, minutes a run; paper: 500,000 steps.")
    ] = "tiny"
    only: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Only these runs, in this order; * stands for anything.")
    ] = ()
    list: Annotated[bool, tyro.conf.arg(help="List the finished and the missing runs, and stop.")] = False
    train: Annotated[bool, tyro.conf.arg(help="Train the missing runs; --no-train uses existing ones.")] = (
        True
    )
    steps: Annotated[int | None, tyro.conf.arg(help="Training steps, instead of the scale's.")] = None
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to train.")] = "auto"
    workers: Annotated[
        int | None, tyro.conf.arg(help="Runs at once; by default one per core or one per GPU.")
    ] = None
    max_minutes: Annotated[
        float | None, tyro.conf.arg(help="Stop after this long; run the command again to resume.")
    ] = None
    folder: Annotated[Path, tyro.conf.arg(help="The folder of the runs' checkpoints.")] = Path("runs")
    results: Annotated[
        Path | None, tyro.conf.arg(help="The folder of the results; by default reproduced/SCALE.")
    ] = None


def what_to_reproduce(arguments: Sequence[str]) -> str | None:
    """Return the figure or table to make: the word that is neither an option nor a value; None without one.

    >>> what_to_reproduce(["--results", "table1", "--list", "fig2"])
    'fig2'
    """
    option = None
    for word in arguments:
        if word.startswith("--") or word in FLAGS:
            option = None if word in FLAGS or "=" in word else word
        elif option is None:
            return word
        elif option != "--only":  # which takes any number of values
            option = None
    return None


def check_numbers(*, steps: int | None, workers: int | None, max_minutes: float | None) -> None:
    """Refuse numbers below their least value; None means that the option was not given."""
    for name, value in {"steps": steps, "workers": workers}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max-minutes must be positive, got {max_minutes}")


def with_steps(item: Item, steps: int | None) -> Item:
    """Return the item with another number of training steps, if one is given and the item is trained."""
    return item.with_steps(steps) if steps is not None and isinstance(item, RunSpec) else item


def results_folder(given: Path | None, scale: Scale, *, reads_only: bool) -> Path:
    """Return the folder of results: as given, or the scale's own folder.

    Raises:
        ValueError: it is a file, or `reads_only` is set and the folder does not exist.
    """
    folder = given or Path("reproduced") / scale
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"results must be a folder, got the file {folder}; choose another with --results")
    if reads_only and not folder.exists():
        raise ValueError(
            f"results: there is no folder {folder}; choose an existing one with --results, or train first"
        )
    return folder


@contextmanager
def unknown_files_as_lines() -> Iterator[None]:
    """Print a warning about a file of a corpus once, without the place in the library's source."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, UnknownFileWarning):
                usual(message, category, *rest, **more)
            elif str(message) not in said:
                said.add(str(message))
                print(message, file=sys.stderr)

        warnings.showwarning = show
        warnings.simplefilter("always", UnknownFileWarning)
        yield
