"""`algoformer explore`: a page in which a model runs in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse
from algoformer.common.terminal import printable

DESCRIPTION = """Write one HTML file in which a model runs in the browser, offline.

Drag the examples of a prompt, run the loop far beyond its trained depth, and see attention maps and states.
A Sudoku fills itself, and you can enter your own. A text model classifies, translates or continues what you
type, and each token shows the iteration at which it leaves the loop.

Hand-built models: newton, gradient_descent, heavy_ball, ridge, decoder, decoder_newton.

Examples:
  algoformer explore linear
  algoformer explore runs/my-run --out loop.html
  algoformer explore newton
  algoformer explore dbpedia --text "She won the open championship twice."
"""


@dataclass(frozen=True)
class ExploreOptions:
    """Options of `algoformer explore`."""

    model: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="MODEL", help="A run folder, checkpoint file, shipped model or theorem."),
    ]
    out: Path | None = None  # The page; by default MODEL.html.
    identification: Path | None = None  # JSON file of algoformer identify, shown in the page.
    text: tuple[str, ...] = ()  # First lines on the page of a text model; shipped models have their own.
    prompts: int = 64  # Number of held-out prompts for the conclusion.


def run_explore(arguments: list[str]) -> int:
    """Measure, write the page, print where it is."""
    chosen = parse(ExploreOptions, arguments, command="explore", description=DESCRIPTION)
    from algoformer.cli.measure import MOST_PROMPTS, label_of

    out = chosen.out or Path(f"{label_of(Path(chosen.model))}.html")
    refuse_existing(out)
    from algoformer.cli.explore_pages import make_page
    from algoformer.common.files import read_json
    from algoformer.common.plain_data import check_count

    check_count("prompts", chosen.prompts, most=MOST_PROMPTS)
    shown = chosen.identification
    found = None if shown is None else read_json(shown, "--identification")
    lead = make_page(chosen.model, out, identification=found, text=chosen.text, prompts=chosen.prompts)
    print(lead)
    print(f"page: {printable(str(out))} ({out.stat().st_size / 1e6:.1f} MB; open it in a browser)")
    return 0
