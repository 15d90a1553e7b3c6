"""Scores that were never measured, for tests of what is concluded from them."""

from __future__ import annotations

from typing import Any

from algoformer.common.files import write_json
from paper.text_archive import TextArchive
from paper.text_items import TextRunSpec


def scored(
    archive: TextArchive, item: TextRunSpec, low: int | float, high: int | float, **facts: Any
) -> None:
    """Put scores of a model there: the middle of `low` and `high` on each of its test sets."""
    score = {"value": (low + high) / 2, "low": float(low), "high": float(high), "signature": "case:lc"}
    splits = ["test", *(f"test-{name}" for name in getattr(item.data, "also_tested", ()))]
    rest = {"cross_entropy": 1.0, "perplexity": 2.7, "answer_seconds": 3.0}
    data = {
        "experiment": item.experiment.to_data(),
        "measurements": [
            {"split": name, "rows": 9, "scores": {"BLEU": score, "chrF": score}} | rest for name in splits
        ],
        "parameters": 3,
        "valid_loss": 1.0,
        "seconds": 2.0,
        "steps": 5,
        "best_step": 4,
        "device": "none",
        "tokens_per_second": 7.0,
    }
    write_json(archive.score_path(item), data | facts)
