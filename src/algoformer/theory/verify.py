"""Verify every construction against its algorithm, describe it in words, and measure its laws of error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from algoformer.algorithms import GradientDescent, Newton
from algoformer.common.names import check_choice
from algoformer.problems import pairs
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.newton import newton
from algoformer.theory.representation import gradient_descent
from algoformer.theory.statement import Case, Modules, Sizes, Statement, within
from algoformer.theory.verify_beyond import BEYOND, SECTION_FOUR
from algoformer.theory.verify_statements import SECTION_THREE, lemma_case, pair_prompts, safe_step_size
from algoformer.trace import Solver, Unroll

REGISTRY: dict[str, Statement] = {
    statement.name: statement for statement in (*SECTION_THREE, *SECTION_FOUR, *BEYOND)
}
"""Every statement by name, in the order of the paper."""

SMALL = Sizes(prompts=8, steps=50)
"""Sizes that are large enough to show a law."""

TOLERANCE = 1e-6
"""No construction may be further from its algorithm than this, at any step, in float64."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One row of the table: the claim, the counted layers and heads, the deviation from the algorithm."""

    name: str
    reference: str
    textbook: str
    claimed: str
    counted: str
    within_claim: bool
    width: int
    dtype: str
    steps: int
    prompts: int
    max_deviation: float
    seconds: float

    @property
    def holds(self) -> bool:
        """True if the model is as small as claimed and deviates by at most `TOLERANCE`."""
        return self.within_claim and self.max_deviation <= TOLERANCE

    def to_data(self) -> dict[str, Any]:
        """Return the report as strings and numbers."""
        return asdict(self)


def statement(name: str) -> Statement:
    """Return the statement of that name; refuse an unknown one."""
    check_choice("statement", name, REGISTRY)
    return REGISTRY[name]


def verify(names: str | Iterable[str] | None = None, *, sizes: Sizes | None = None) -> Iterator[Report]:
    """Verify the statements of these names (all without any), yielding each report when it is done.

    >>> report = next(verify("copy", sizes=Sizes(dim=3, examples=8, prompts=4)))
    >>> report.max_deviation, report.counted
    (0.0, 'copy 1×3')
    """
    chosen = REGISTRY if names is None else [names] if isinstance(names, str) else names
    sizes = sizes or Sizes()
    for item in [statement(name) for name in chosen]:
        start = time.perf_counter()
        case = item.case(sizes)
        found = case.measure() if isinstance(case, Case) else case
        yield Report(
            name=item.name,
            reference=item.reference,
            textbook=item.textbook,
            claimed=words(item.claimed),
            counted=words(found.counted),
            within_claim=within(found.counted, item.claimed),
            width=found.width,
            dtype=str(found.dtype).removeprefix("torch."),
            steps=found.steps,
            prompts=sizes.prompts,
            max_deviation=found.deviation,
            seconds=time.perf_counter() - start,
        )


def words(modules: Modules) -> str:
    """Return the layers × heads of each module in words; a dash where there are none.

    >>> words({"pre": (4, 2), "loop": (1, 2)})
    'pre 4×2, loop 1×2'
    """
    return ", ".join(f"{name} {layers}×{heads}" for name, (layers, heads) in modules.items()) or "–"


def show(name: str, *, sizes: Sizes | None = None) -> str:
    """Return the program of a statement's model, its subspaces, and what each layer writes.

    >>> print(show("copy", sizes=Sizes(dim=2, examples=6)).splitlines()[0])
    copy: Lemma (copying), q = 3, compared with shift by 1..3, zeros before the start
    """
    item = statement(name)
    title = f"{item.name}: {item.reference}, compared with {item.textbook}"
    case = item.case(sizes or Sizes())
    if not isinstance(case, Case):
        return title
    model = case.model
    blueprint = blueprint_of(model)
    before, after = blueprint.blanks
    tokens = f"{before} empty token(s), the rows of the prompt, {after} empty token(s)"
    return "\n".join(
        [
            title,
            f"claimed  {words(item.claimed)}",
            "",
            f"Program (stream of width {model.width}; tokens: {tokens})",
            str(model.program),
            "",
            "Subspaces of the stream",
            str(blueprint.space),
            "",
            "What each layer writes",
            blueprint.describe(),
        ]
    )


def error_against_c(
    values: Sequence[float] = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4), *, sizes: Sizes = SMALL
) -> list[tuple[float, float]]:
    """Return (c, largest deviation from gradient descent) for each c.

    It falls as c² until rounding, eps/c, takes over.
    """
    return [(c, _deviation(sizes, c=c)) for c in values]


def error_against_sink(
    values: Sequence[float] = (6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 25.0), *, sizes: Sizes = SMALL
) -> list[tuple[float, float]]:
    """Return (C, largest deviation from gradient descent) for each C.

    It falls as e^(-C) until the error in c takes over.
    """
    return [(sink, _deviation(sizes, sink=sink)) for sink in values]


def _deviation(sizes: Sizes, **changed: float) -> float:
    """Return the deviation of the lemma with changed constants."""
    return lemma_case(replace(sizes, constants=replace(sizes.constants, **changed))).measure().deviation


@torch.no_grad()
def error_by_step(*, sizes: Sizes = SMALL, alpha: float = 1 / 150**2) -> dict[str, list[float]]:
    """Return the mean squared error after each step, divided by dim, of weights and of textbooks."""
    prompt = pair_prompts(sizes)
    step_size = safe_step_size(pairs(prompt), 0.5)
    shape: dict[str, Any] = {"dim": sizes.dim, "examples": sizes.examples, "constants": sizes.constants}
    solvers: dict[str, Solver] = {
        "gradient descent, weights": gradient_descent(step_size=step_size, **shape),
        "gradient descent, textbook": GradientDescent(step_size=step_size),
        "Newton, weights": newton(alpha=alpha, **shape),
        "Newton, textbook": Newton(alpha=alpha),
    }
    errors = {}
    for name, solver in solvers.items():
        gaps = solver(prompt, Unroll(steps=sizes.steps or 40)).predictions - prompt.targets
        errors[name] = (gaps.square().mean(dim=(1, 2, 3)) / sizes.dim).tolist()
    return errors
