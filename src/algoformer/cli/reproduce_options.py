"""What the options of `algoformer reproduce` mean for figures and tables alike."""

from __future__ import annotations

from collections.abc import Sequence

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
