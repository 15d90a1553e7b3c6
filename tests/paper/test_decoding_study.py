"""Ways to decode beside each other, on a model that has learned nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from algoformer import programs
from algoformer.language import cache_bytes
from algoformer.training import Checkpoint, build_model
from paper.decoding_study import THRESHOLDS, study, study_table
from tests.data.small_text import small_experiment, small_text

pytest.importorskip("sacrebleu", reason="the extra `text` is not installed")


def test_every_way_is_measured_on_the_whole_split() -> None:
    text = small_text()
    experiment = small_experiment()
    checkpoint = Checkpoint(model=build_model(experiment).eval(), data=experiment.data)
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
    text, program = small_text(), programs.standard(2, heads=2)
    experiment = replace(small_experiment(window=1), program=program)
    model = build_model(experiment).eval()
    found = study(Checkpoint(model=model, data=experiment.data), text, batch=4)
    assert [row["name"] for row in found["ways"]] == ["greedy", "beam 4"]
