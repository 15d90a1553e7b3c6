"""The paper's checkable claims, each held against results: holds, does not hold, or not decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from algoformer.report import Verdict
from algoformer.report.page import Outcome
from paper import claims, counted_claims
from paper.archive import Results
from paper.comparison import Decision, Missing


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, and how results decide it."""

    number: int
    words: str
    decide: Callable[[Results], Decision]

    def verdict(self, results: Results) -> Verdict:
        """What these results say."""
        try:
            holds, because = self.decide(results)
        except Missing as missing:
            return Verdict(claim=self.words, outcome="not decided", because=f"needs {missing}")
        outcomes: dict[bool | None, Outcome] = {True: "holds", False: "does not hold", None: "not decided"}
        return Verdict(claim=self.words, outcome=outcomes[holds], because=because)


CLAIMS = (
    Claim(number=1, words="Errors fall with more in-context samples", decide=claims.errors_fall_with_samples),
    Claim(
        number=2,
        words="AlgoFormer is better than standard and looped on all three tasks",
        decide=claims.beats_both_on_all_tasks,
    ),
    Claim(
        number=3,
        words="On chain of thought AlgoFormer and standard are far better than looped",
        decide=claims.chain_needs_pre_and_post,
    ),
    Claim(
        number=4, words="A larger ΔT makes long inference more stable", decide=claims.wider_window_is_steadier
    ),
    Claim(
        number=5, words="Stable and improving beyond T = 20, up to 200", decide=claims.steady_beyond_training
    ),
    Claim(
        number=6,
        words="More layers and heads are better, but for 4 layers and 16 heads",
        decide=claims.more_layers_and_heads_help,
    ),
    Claim(
        number=7,
        words="AlgoFormer beats standard with the same number of layers",
        decide=claims.beats_standard_of_as_many_layers,
    ),
    Claim(
        number=8,
        words="Without noise AlgoFormer leads early, then Newton reaches machine precision",
        decide=claims.early_lead_then_newton,
    ),
    Claim(number=9, words="Noise slows the convergence of Newton", decide=claims.noise_slows_convergence),
    Claim(
        number=10,
        words="Pre and post are a tenth of the computation at T = 20, a hundredth at 200",
        decide=counted_claims.ends_cost_little,
    ),
    Claim(
        number=11,
        words="The cost over standard is negligible",
        decide=counted_claims.costs_no_more_than_standard,
    ),
    Claim(number=12, words="AlgoFormer has fewer parameters", decide=counted_claims.fewer_parameters),
    Claim(
        number=13,
        words="AlgoFormer solves regression with representation by gradient descent",
        decide=claims.solves_by_gradient_descent,
    ),
)
"""All that the paper says and numbers can decide."""
