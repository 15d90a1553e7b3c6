"""Verify every construction against its algorithm, and describe it in words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.statement import Case, Modules, Sizes, Statement, within
from algoformer.theory.verify_beyond import BEYOND, SECTION_FOUR
from algoformer.theory.verify_statements import SECTION_THREE

REGISTRY: dict[str, Statement] = {
    statement.name: statement for statement in (*SECTION_THREE, *SECTION_FOUR, *BEYOND)
}
"""Every statement by name, in the order of the paper."""

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
    """Return the statement of that name.

    Raises:
        ValueError: there is no such statement.
    """
    if name not in REGISTRY:
        raise ValueError(f"no statement is named {name!r}; there are {', '.join(REGISTRY)}")
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
