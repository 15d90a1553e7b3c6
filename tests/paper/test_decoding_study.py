"""Ways to decode beside each other, on a model that has learned nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.language.training.small_text import small_text
from tests.language.training.test_measure import fresh

from algoformer import programs
from algoformer.language import TextCheckpoint, TokenModel, cache_bytes
from paper.decoding_study import THRESHOLDS, study, study_table

pytest.importorskip("sacrebleu", reason="the extra `text` is not installed")


def test_every_way_is_measured_on_the_whole_split() -> None:
    text = small_text()
    checkpoint: Any = fresh("translation", text)
    found = study(checkpoint, text, batch=4)
    rows = {row["name"]: row for row in found["ways"]}
    assert len(rows) == 3 + len(THRESHOLDS)
    model = checkpoint.model
    for name, policy, beam in [
        ("greedy", "full", 1),
        ("greedy, cache of the last iteration", "last", 1),
        ("beam 4", "full", 4),
    ]:
        sizes: Any = {"width": 16, "batch": beam, "length": model.context, "policy": policy}
        assert rows[name]["cache_bytes"] == cache_bytes(model.program, **sizes)
    assert rows["greedy"]["iterations"] == 2
    assert all(1 <= row["iterations"] <= 2 for row in found["ways"])
    assert found["cached"]["same_tokens"] == 1
    table = study_table(found, title="study")
    assert table.column("× greedy")[0] == "1.00"


def test_without_a_loop_there_is_nothing_to_shorten() -> None:
    text = small_text()
    model = TokenModel(
        programs.standard(2, heads=2), vocabulary=len(text.tokenizer), context=48, width=16
    ).eval()
    found = study(TextCheckpoint(model=model, tokenizer=text.tokenizer.to_json()), text, batch=4)
    assert [row["name"] for row in found["ways"]] == ["greedy", "beam 4"]
