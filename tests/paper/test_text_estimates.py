"""How long models of text take, from the scores of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algoformer.training.files import write_json
from paper.text_estimates import (
    TimedText,
    estimate_text,
    timed_texts,
    usual_text_device,
)
from paper.text_items import TextItem, table_items

ITEMS = {item.name: item for table in ("table1", "table2") for item in table_items(table, "short")}
RUN = ITEMS["iwslt14_de_en/algoformer"]
STEPS = RUN.experiment.training.steps


def timed(item: TextItem, seconds: float = 100.0, *, at_once: int = 1, device: str = "cuda") -> TimedText:
    return TimedText(
        name=item.name, experiment=item.experiment, seconds=seconds, device=device, runs_at_once=at_once
    )


def test_the_same_model_over_other_steps_is_the_best_basis() -> None:
    training = replace(RUN.experiment.training, steps=STEPS // 4)
    shorter = replace(RUN, experiment=replace(RUN.experiment, training=training))
    known = [timed(ITEMS["iwslt14_de_en/looped"], 1.0), timed(shorter, at_once=3)]
    found = estimate_text(RUN, known, device="cuda", done=STEPS // 2)
    assert found is not None
    assert found.seconds == pytest.approx(200)
    assert found.basis == "as iwslt14_de_en/algoformer, 3 runs at once"


def test_another_model_is_scaled_by_the_tokens_of_a_step() -> None:
    other = ITEMS["tatoeba_de_en/algoformer-shipped"]
    assert other.experiment.text.budget == 2 * RUN.experiment.text.budget
    known = [timed(ITEMS["imdb/algoformer"], 1.0), timed(other)]
    found = estimate_text(RUN, known, device="cuda", done=0)
    assert found is not None
    assert found.seconds == pytest.approx(100 / 2 * STEPS / other.experiment.training.steps)
    assert found.basis == "estimate from tatoeba_de_en/algoformer-shipped", "which learns to translate too"


def test_of_two_that_are_as_near_the_one_that_was_alone_counts() -> None:
    names = ("dbpedia/algoformer", "imdb/algoformer")
    known = [timed(ITEMS[name], at_once=count) for name, count in zip(names, (2, 1), strict=True)]
    found = estimate_text(ITEMS["ag_news/algoformer"], known, device="cuda", done=0)
    assert found is not None
    assert found.basis == "estimate from imdb/algoformer"


def test_another_kind_of_device_says_nothing() -> None:
    known = [timed(RUN, device="cpu")]
    assert estimate_text(RUN, known, device="cuda", done=0) is None
    assert usual_text_device(known, "cuda") == "cpu"
    assert usual_text_device([], "cuda") == "cuda"


def test_only_scores_that_were_timed_are_read(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "name": RUN.name,
        "experiment": RUN.experiment.to_data(),
        "seconds": 100.0,
        "device": "NVIDIA H200",
        "runs_at_once": 2,
    }
    write_json(tmp_path / "text" / "good.scores.json", facts)
    write_json(tmp_path / "text" / "ag_news-floor.scores.json", {"name": "ag_news", "value": 1.0})
    write_json(tmp_path / "text" / "list.scores.json", ["no"])
    write_json(tmp_path / "text" / "bad.scores.json", facts | {"experiment": {}})
    (tmp_path / "text" / "cut.scores.json").write_text("{")
    assert timed_texts(tmp_path) == [timed(RUN, at_once=2)]
    assert timed_texts(tmp_path / "nowhere") == []
