"""What the commands on text share: the sets of text, and a word on what was noticed in them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from algoformer.language.corpora.files import UnknownFileWarning
from algoformer.language.packing import PackedText
from algoformer.language.training import prepare_text
from algoformer.language.training.experiment import TextSettings


def read_corpus(settings: TextSettings, data: Path | None) -> PackedText:
    """The tokens of the sets that the settings name, from a folder or from hub; notes on standard error."""
    with warnings.catch_warnings():
        # it is among the notes, in a line without the place in this library's source
        warnings.simplefilter("ignore", UnknownFileWarning)
        text = prepare_text(settings, data=data)
    for line in [*text.card["notes"], *(note for split in text.splits.values() for note in split.notes)]:
        print(line, file=sys.stderr)
    return text


@contextmanager
def unknown_files_as_lines() -> Iterator[None]:
    """A file that is not the known one is said once, in a line without the place in this library's source."""
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
