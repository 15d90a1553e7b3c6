"""The paper's checkable claims, each held against results: holds, does not hold, or not decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paper import claims, counted_claims
from paper.archive import Results
from paper.comparison import Decision, Missing

Outcome = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim, whether the numbers support it, and why."""

    claim: str
    outcome: Outcome
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper, and the function that decides it from results."""

    number: int
    words: str
    decide: Callable[[Results], Decision]

    def verdict(self, results: Results) -> Verdict:
        """Return the verdict of these results."""
        try:
            holds, because = self.decide(results)
        except Missing as missing:
            return Verdict(claim=self.words, outcome="not decided", because=f"needs {missing}")
        outcomes: dict[bool | None, Outcome] = {True: "holds", False: "does not hold", None: "not decided"}
        return Verdict(claim=self.words, outcome=outcomes[holds], because=because)


CLAIMS = tuple(
    Claim(number=number, words=words, decide=decide)
    for number, (words, decide) in enumerate(
        (
            ("Errors fall with more in-context samples", claims.errors_fall_with_samples),
            (
                "AlgoFormer is better than standard and looped on all three tasks",
                claims.beats_both_on_all_tasks,
            ),
            (
                "On chain of thought AlgoFormer and standard are far better than looped",
                claims.chain_needs_pre_and_post,
            ),
            ("A larger ΔT makes long inference more stable", claims.wider_window_is_steadier),
            ("Stable and improving beyond T = 20, up to 200", claims.steady_beyond_training),
            (
                "More layers and heads are better, but for 4 layers and 16 heads",
                claims.more_layers_and_heads_help,
            ),
            (
                "AlgoFormer beats standard with the same number of layers",
                claims.beats_standard_of_as_many_layers,
            ),
            (
                "Without noise AlgoFormer leads early, then Newton reaches machine precision",
                claims.early_lead_then_newton,
            ),
            ("Noise slows the convergence of Newton", claims.noise_slows_convergence),
            (
                "Pre and post are a tenth of the computation at T = 20, a hundredth at 200",
                counted_claims.ends_cost_little,
            ),
            ("The cost over standard is negligible", counted_claims.costs_no_more_than_standard),
            ("AlgoFormer has fewer parameters", counted_claims.fewer_parameters),
            (
                "AlgoFormer solves regression with representation by gradient descent",
                claims.solves_by_gradient_descent,
            ),
        ),
        start=1,
    )
)
"""All claims of the paper that numbers can decide."""
