"""What the options of `python -m paper` mean for figures and tables alike."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from algoformer.language.corpora.files import UnknownFileWarning
from paper.runs import Item, RunSpec, Scale

PROGRAM = "python -m paper"
"""The command that makes a figure or a table."""

FLAGS = {f"--{no}{name}" for name in ("list", "train", "prepare") for no in ("", "no-")} | {"-h", "--help"}
"""Options that no value follows."""


def what_to_reproduce(arguments: Sequence[str]) -> str | None:
    """The word that is neither an option nor the value of one: what is made; None if there is no such word.

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
    """Refuse numbers with which nothing could be done; None is no number."""
    for name, value in {"steps": steps, "workers": workers}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max-minutes must be positive, got {max_minutes}")


def with_steps(item: Item, steps: int | None) -> Item:
    """The item over another number of training steps, if one is given and it is trained at all."""
    return item.with_steps(steps) if steps is not None and isinstance(item, RunSpec) else item


def results_folder(given: Path | None, scale: Scale, *, reads_only: bool) -> Path:
    """Where results are: as given, or the scale's own folder.

    Raises:
        ValueError: it is a file, or with `reads_only` it is not there: it would be made, and be empty.
    """
    folder = given or Path("reproduced") / scale
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"results must be a folder, got the file {folder}; choose another with --results")
    if reads_only and not folder.exists():
        raise ValueError(
            f"results: there is no folder {folder}; name the one that holds them with --results, or make some"
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
