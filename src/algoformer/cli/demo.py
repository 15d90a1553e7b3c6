"""`algoformer demo`: from a task to a page of results, in a few minutes on two CPU cores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from algoformer.cli.parse import parse

DESCRIPTION = """Train a small AlgoFormer, a looped and a standard transformer side by side on in-context
regression, compare them with gradient descent, Newton and least squares, and write a page in which the
AlgoFormer runs in the browser. The shipped model `linear` gets a page of its own, and `books`, if it is
installed, writes a few lines.

Example: algoformer demo --out demo
"""


@dataclass(frozen=True)
class DemoOptions:
    """Options of `algoformer demo`."""

    out: Path = Path("demo")  # The folder for runs, plots and the page.
    fresh: bool = False  # Train again, even if a demo was run here before.


def run_demo(arguments: list[str]) -> int:
    """Train, compare, print, draw."""
    chosen = parse(DemoOptions, arguments, command="demo", description=DESCRIPTION)
    from algoformer.cli.demo_page import make_demo

    return make_demo(chosen.out, fresh=chosen.fresh)
