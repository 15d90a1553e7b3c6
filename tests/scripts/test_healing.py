"""The comparison of healing with training from scratch, on a text of a few words."""

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from scripts.healing import DEPTHS, Characters, Settings, compare

TINY = Settings(before=30, after=4, steps=2, width=16, heads=2, context=16, batch=4, warmup=2, validation=4)


def test_at_one_step_a_looped_model_loses_nothing_and_a_second_call_repeats_nothing(tmp_path: Path) -> None:
    text, out = Characters("the dog sees the cat and the cat sees the dog. " * 40), tmp_path / "found.json"
    runs = compare(text, TINY, seed=0, out=out)["runs"]
    before = runs["unlooped"]["loss_by_depth"]["1"]
    assert runs["looped, not healed"]["loss_by_depth"]["1"] == pytest.approx(before, abs=1e-6)
    assert set(runs["healed"]["loss_by_depth"]) == {str(depth) for depth in DEPTHS}
    assert (
        runs["healed"]["loss_by_depth"]["2"]
        < runs["from scratch, as many steps as healing"]["loss_by_depth"]["2"]
    )
    again = compare(text, TINY, seed=0, out=out)["runs"]
    assert again["healed"] == runs["healed"]
    with pytest.raises(ValueError, match=r"found.json was made with another seed or other settings"):
        compare(text, TINY, seed=1, out=out)
