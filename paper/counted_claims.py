"""Claims about size and work: decided by counting, without a single run."""

from __future__ import annotations

from algoformer.model import Program
from algoformer.model.cost import Cost, cost
from algoformer.model.presets import algoformer, looped, standard
from algoformer.trace import Unroll
from paper.archive import Results
from paper.claims import STEADY
from paper.comparison import Decision
from paper.runs import FAR

MODELS: dict[str, Program] = {"standard": standard(), "looped": looped(), "AlgoFormer": algoformer()}


def ends_cost_little(results: Results) -> Decision:
    """The share of pre and post in all evaluations of a layer, by counting."""
    near, far = (_share_of_ends(Unroll(steps=steps, window=1)) for steps in (20, FAR))
    training = _share_of_ends(Unroll(steps=20, window=15))
    return abs(near - 0.1) < 0.02 and abs(far - 0.01) < 0.002, (
        f"{near:.1%} of the layers at T = 20 and {far:.1%} at T = 200 when answering; {training:.0%} of a "
        "training step's forward pass, where post runs on 15 states"
    )


def costs_no_more_than_standard(results: Results) -> Decision:
    """A training step in evaluations of a layer, going back through one counting as two."""
    step = Unroll(steps=20, window=15, grad_steps=15)
    counts = {name: _bill(program, step).units for name, program in MODELS.items()}
    words = ", ".join(f"{name} {count}" for name, count in counts.items())
    return counts["AlgoFormer"] < STEADY * counts["standard"], f"a training step in layers: {words}"


def fewer_parameters(results: Results) -> Decision:
    """Parameters without positions, read-in and read-out."""
    counts = {name: _bill(program, None).core_parameters for name, program in MODELS.items()}
    words = ", ".join(f"{name} {count / 1e6:.2f} M" for name, count in counts.items())
    return counts["AlgoFormer"] < counts["standard"], words


def _bill(program: Program, unroll: Unroll | None) -> Cost:
    return cost(program, dim=20, out=1, context=82, unroll=unroll)


def _share_of_ends(unroll: Unroll) -> float:
    parts = {part.name: part.work.layers for part in _bill(algoformer(), unroll).parts}
    return (parts["pre"] + parts["post"]) / sum(parts.values())
