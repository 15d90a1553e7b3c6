"""The pictures of the shipped models: error by iteration to T = 1,000 and by number of examples.

Usage: python -m paper.shipped

The first iterations come from results/NAME/evaluation.json, those beyond training from the model's card.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from algoformer.common.files import read_json
from algoformer.evaluation import Curve, Evaluation
from algoformer.report import error_by_sample, error_by_step, save
from algoformer.training import load

RESULTS = Path(__file__).resolve().parents[1] / "results"
NAMES = ("linear", "representation")
TEXTBOOK = {
    "gd": "gradient descent",
    "newton": "Newton's method",
    "least-squares": "least squares",
    "linear-in-x": "best linear in x",
}


def with_card(curve: Curve, depths: dict[str, float]) -> Curve:
    """Return a curve along iterations that goes on with the errors of a card, which have no band."""
    further = {int(depth): error for depth, error in depths.items() if int(depth) > curve.x[-1]}
    errors = tuple(error for _, error in sorted(further.items()))
    return replace(
        curve,
        x=(*curve.x, *map(float, sorted(further))),
        error=(*curve.error, *errors),
        low=(*curve.low, *errors),
        high=(*curve.high, *errors),
    )


def draw(name: str) -> None:
    """Draw both pictures of a shipped model."""
    folder, checkpoint = RESULTS / name, load(name)
    measured = [Evaluation.from_data(one) for one in read_json(folder / "evaluation.json")]
    labels = {name: "AlgoFormer, trained to 20", **TEXTBOOK}
    shown = [_named(one, labels.get(one.label, one.label)) for one in measured]
    shown[0] = replace(shown[0], by_step=with_card(shown[0].by_step, checkpoint.card["error_by_depth"]))
    save(error_by_step(shown, trained=20, log_x=True), folder / "error_by_step")
    save(error_by_sample(shown), folder / "error_by_sample")


def _named(one: Evaluation, label: str) -> Evaluation:
    curves = {name: replace(getattr(one, name), label=label) for name in ("by_sample", "by_step")}
    return replace(one, label=label, **curves)


if __name__ == "__main__":
    for shipped in NAMES:
        draw(shipped)
