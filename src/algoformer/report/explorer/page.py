"""The explorer page: one HTML file in which a model runs in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps, traced_part
from algoformer.report.explorer.pack import ASSETS, pack_model
from algoformer.report.explorer.words import verdict_of
from algoformer.report.page import Page, render

ENGINE = ("arithmetic", "layer", "interpreter", "model", "worker")
"""Scripts that run the model, in the order they are loaded; the Web Worker is made from them."""

RUNNING = ("textbook", "charts", "inside", "client", "player", "run")
"""Scripts of every page in which a model runs, in the order they are loaded."""

SCRIPTS = (*RUNNING, "prompts", "fit", "about", "page")
"""Scripts of a page of regression, whose answers are numbers."""

PUZZLE_SCRIPTS = (*RUNNING, "cells", "puzzle")
"""Scripts of a page whose answers are classes."""

SMALL = 200_000
"""Models with fewer parameters are run beyond their trained depth as soon as the page opens."""

PAIRS_HINT = (
    "Drag an example, or the question at the bottom of the picture. The model reads the examples as a prompt "
    "and answers after every iteration of its loop; the lines show its answers to other questions."
)
ROWS_HINT = "Change one number of the prompt and watch the error after every iteration of the loop."
BOARD_HINT = (
    "The model reads the board and answers all cells after every iteration of its loop: press Play to see "
    "the board fill itself. A digit is faint while its probability, the bar below it, is low; the small "
    "number is the iteration since which it stands. Choose a cell and type to change it."
)
SEQUENCE_HINT = (
    "The row shows these symbols with the model's predictions at the answer positions, after every iteration "
    "of its loop. The bar below a prediction is its probability, and the small number is the iteration since "
    "which it stands. Choose a position to change its symbol."
)
ABOUT = (
    "Everything on this page is computed here: the model's weights are in the file and run in this browser. "
    "The page makes no request and works offline."
)


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """The presentation of prompts of one-hot symbols whose answers are classes.

    Attributes:
        symbols: the name of each symbol; an empty name is an empty cell.
        classes: the name of each class.
        grid: (rows, columns) of a board, whose cells are the rows of the prompt; None for a sequence.
        block: the number of cells between heavier lines of the board; 0 draws none.
        units: groups of cells that must hold different classes, by number.
    """

    symbols: tuple[str, ...]
    classes: tuple[str, ...]
    grid: tuple[int, int] | None = None
    block: int = 0
    units: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """The content of an explorer page besides the model itself.

    Attributes:
        title: the page's heading.
        lead: the conclusion in words; empty lets the page draw one from its own first prompt.
        pairs: whether prompts are pairs (x, y) with one number for y, which the page can draw and edit.
        puzzle: how to show prompts of symbols whose answers are classes, or None for answers in numbers.
        scale: squared errors are divided by this, so that always answering 0 costs about 1.
        noise: standard deviation of the label noise that the page starts with.
        representation: the fixed features of the task as {"weights": matrices, "slope": number}, or None.
        prompts: stored prompts {"rows", "reads", "targets", "parts"}, needed where `pairs` is false; those of
            a puzzle are {"symbols", "reads", "targets"}, with the numbers of symbols and classes.
        answers_in_rows: as in `Prompt`; false lets a model with full attention answer at any row.
        rivals: constants of gradient descent and Newton's method, {"step_size", "alpha"}; a missing one is
            chosen for each prompt.
        textbook: the method that hand-built weights must equal, {"method", and its constants}, or None.
        identification: what `algoformer identify` found, as JSON data, or None.
        facts: names and values for the end of the page.
    """

    title: str
    lead: str = ""
    pairs: bool = True
    puzzle: Puzzle | None = None
    scale: float = 1.0
    noise: float = 0.0
    representation: Mapping[str, Any] | None = None
    prompts: tuple[Mapping[str, Any], ...] = ()
    answers_in_rows: bool = True
    rivals: Mapping[str, float] = field(default_factory=dict)
    textbook: Mapping[str, Any] | None = None
    identification: Mapping[str, Any] | None = None
    facts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.pairs and self.puzzle:
            raise ValueError("pairs must be false for a puzzle: its prompts are symbols")
        if not self.pairs and not self.prompts:
            raise ValueError("prompts must hold at least one prompt where pairs is false, got none")


def explorer_page(model: AlgoFormer, exploration: Exploration, page: Page | None = None) -> str:
    """Return one self-contained HTML file in which `model` runs.

    >>> from algoformer import programs
    >>> model = AlgoFormer(programs.algoformer(heads=2), dim=1, out=1, context=8, width=8)
    >>> page = explorer_page(model, Exploration(title="A < B"))
    >>> "<h1>A &lt; B</h1>" in page, "src=" in page
    (True, False)

    Args:
        model: runs in the page.
        exploration: what is shown besides the model.
        page: a report whose sections follow the explorer, with its own title, lead and facts; None makes a
            page of the explorer alone.

    Raises:
        ValueError: the page cannot run the program, or would be too large.
    """
    pairs, puzzle = exploration.pairs, exploration.puzzle
    page = page or Page(title=exploration.title, lead=exploration.lead, facts=exploration.facts)
    texts = {
        "template": f"explorer/page/{'puzzle' if puzzle else 'explorer'}.html",
        "hint": _hint(exploration),
        "distance": "error (squared distance from least squares)" if pairs else "mean squared error",
        "about": ABOUT,
        "engine": scripts(ENGINE),
        "scripts": scripts(PUZZLE_SCRIPTS if puzzle else SCRIPTS),
        "data": page_data(pack_model(model) | _settings(model, exploration) | {"lead": page.lead}),
        # what is left out of the skeleton is left out at once, so that nothing moves when the scripts start
        "grid": puzzle.grid if puzzle else None,
        "no_pairs": not pairs,
        "no_rows": pairs,
        "no_coordinates": model.dim == 1,
        "no_loop": traced_part(model.program) is None,
        "no_verdict": exploration.identification is None,
    }
    return render(page, texts)


def _hint(exploration: Exploration) -> str:
    if exploration.puzzle:
        return BOARD_HINT if exploration.puzzle.grid else SEQUENCE_HINT
    return PAIRS_HINT if exploration.pairs else ROWS_HINT


def is_small(model: AlgoFormer) -> bool:
    """Return whether the model is quick enough to be run beyond its trained depth without being asked."""
    return sum(weight.numel() for weight in model.parameters()) < SMALL


def _settings(model: AlgoFormer, exploration: Exploration) -> dict[str, Any]:
    trained, found = default_steps(model.program), exploration.identification
    return {
        "pairs": exploration.pairs,
        "scale": exploration.scale,
        "noise": exploration.noise,
        "representation": exploration.representation,
        "puzzle": asdict(exploration.puzzle) if exploration.puzzle else None,
        "prompts": list(exploration.prompts),
        "answers_in_rows": exploration.answers_in_rows,
        "rivals": dict(exploration.rivals),
        "textbook": exploration.textbook,
        "identification": None if found is None else verdict_of(found),
        "trained": trained,
        "depth": trained * ((2 if exploration.textbook else 5) if is_small(model) else 1),
        "looping": traced_part(model.program) is not None,
        "full_attention": not model.causal,
    }


def page_data(data: Mapping[str, Any]) -> str:
    """Return JSON that can stand in a script element, whatever texts it holds."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"the page can hold finite numbers only: {error}") from None
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def scripts(names: tuple[str, ...]) -> str:
    """Return scripts of the page, one after the other."""
    return "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in names)
