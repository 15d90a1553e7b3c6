"""Results about a solver besides its nearest family, for labelled examples and for series."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from algoformer.insight.gates import Gate
from algoformer.insight.influence import Influence


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Symmetries, ceilings and influence of one solver.

    Attributes:
        gates: the outcome of every symmetry test.
        untested: symmetries that cannot be tested on such prompts.
        influence: of each example or state after each pass.
        late: the pass (from 0) after which the influence is shown.
        foreign: how far the solver's answers and those of the reference move with foreign labels or states.
        operators: the shares that whole classes of methods could explain, where they can be measured.
        nonlinear: the share of the answers' variance that is not linear in the query's features, each pass.
        measured: what families predict: weights, or one answer of each prompt.
        importance: position weights of the examples, where the influence of single labels is known.
    """

    gates: tuple[Gate, ...]
    untested: tuple[str, ...] = ()
    influence: Influence
    late: int
    foreign: tuple[float, float]
    operators: dict[str, tuple[float, ...]] = field(default_factory=dict)
    nonlinear: tuple[float, ...] = ()
    measured: Literal["weights", "answers"] = "weights"
    importance: Tensor | None = None
