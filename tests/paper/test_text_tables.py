"""The tables on text: all of their models, each trained once, judged by their intervals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algoformer.language.corpora import load_labelled
from algoformer.language.naive_bayes import floor
from algoformer.training.files import write_json
from algoformer.training.presets import SMALL, Scale
from made_up_scores import scored
from paper.text_items import TextItem, table_items
from paper.text_shop import TextShop
from paper.text_tables import PAPER, score_table, verdict, write_table
from paper.text_targets import SHARED, target_table

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


SCALES: tuple[Scale, ...] = ("smoke", "short", "paper")


def tiny(item: TextItem) -> TextItem:
    text = replace(item.experiment.text, vocabulary=300, longest=64, validate_every=2)
    training = replace(item.experiment.training, log_every=2)
    return replace(item, experiment=replace(item.experiment, width=8, text=text, training=training))


def nothing(name: str, done: int, total: int, metrics: Any) -> None:
    """Nobody watches."""


def test_a_table_is_made_once_and_several_runs_at_a_time(tmp_path: Path) -> None:
    items = [tiny(item) for item in table_items("table2", "smoke", steps=2)[:2]]
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results", workers=2, command="by hand")
    seen: list[str] = []

    def watch(name: str, done: int, total: int, metrics: Any) -> None:
        seen.append(name)

    for _ in range(2):
        shop.make(items, watch)
    assert not shop.failures
    assert sorted(seen) == sorted(item.name for item in items)
    table = score_table("table2", items, shop)
    assert table.column("model") == ("naive Bayes", "AlgoFormer", "standard")
    assert len(list(verdict("table2", items, shop))) == 2
    page = write_table("table2", items, shop, "smoke").read_text()
    assert "naive Bayes" in page
    assert "2 runs at once" in page
    changed = replace(items[0], experiment=replace(items[0].experiment, width=16))
    assert shop.scores(changed) is None
    found: Any = shop.scores(items[0])
    assert found["runs_at_once"] == 2
    assert found["measurements"][0]["loss_rows"] == 600


def test_what_is_prepared_needs_no_data_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [tiny(item) for item in table_items("table2", "smoke", steps=2)[:1]]
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results")
    (packed,) = shop.prepare(items)
    assert packed.suffix == ".packed"
    score = floor(load_labelled("small_topics"))
    kept = json.loads((tmp_path / "results" / "text" / "small_topics-floor.scores.json").read_text())
    assert (kept["value"], kept["low"], kept["high"]) == (score.value, score.low, score.high)

    def gone(*_: Any, **__: Any) -> Any:
        raise ValueError("there is no data here")

    monkeypatch.setattr("paper.text_shop.prepare_text", gone)
    monkeypatch.setattr("paper.text_shop.load_labelled", gone)
    shop.make(items, nothing)
    assert score_table("table2", items, shop).column("model") == ("naive Bayes", "AlgoFormer")
    # where a floor was neither counted nor can be, the table is made without it
    (tmp_path / "results" / "text" / "small_topics-floor.scores.json").unlink()
    assert score_table("table2", items, shop).column("model") == ("AlgoFormer",)


def test_an_unfinished_run_is_not_scored_and_goes_on(tmp_path: Path) -> None:
    item = tiny(table_items("table2", "smoke", steps=4)[0])
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results")
    beside_another = replace(shop, workers=2)
    assert not beside_another.make_one(item, lambda *_: None, max_minutes=1e-9)
    assert shop.scores(item) is None
    assert 0 < shop.steps_done(item) < 4
    assert replace(shop, workers=1).make_one(item, lambda *_: None)
    found: Any = shop.scores(item)
    assert found["steps"] == 4
    assert found["runs_at_once"] == 2, "some of its seconds were not its own"


def test_a_damaged_run_is_named_with_its_remedy(tmp_path: Path) -> None:
    item = tiny(table_items("table2", "smoke", steps=4)[0])
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results")
    assert not shop.make_one(item, lambda *_: None, max_minutes=1e-9)
    folder = shop.run_folder(item)
    (folder / "checkpoint.safetensors").write_bytes(b"x" * 100)
    shop.make([item], nothing)
    assert shop.failures[item.name].endswith(f". Remove {folder} to begin the run anew")


def test_a_damaged_packed_text_is_named_with_its_remedy(tmp_path: Path) -> None:
    item = tiny(table_items("table2", "smoke", steps=4)[0])
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results")
    (packed,) = shop.prepare([item])
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(ValueError, match=re.escape(f"Remove {packed} to have the text packed anew")):
        shop.make([item], nothing)


@pytest.mark.parametrize(
    ("ours", "word"), [((11, 12), "ahead of"), ((5, 6), "behind"), ((8, 9.5), "not told apart")]
)
def test_the_verdict_is_what_the_intervals_can_tell(tmp_path: Path, ours: Any, word: str) -> None:
    items = [item for item in table_items("table1", "short") if item.size == "paper"]
    shop = TextShop(folder=tmp_path, results=tmp_path)
    for item in items:
        # variants are compared with each other, however good they are
        scored(shop, item, *((90, 91) if item.variant else ours if item.program == "algoformer" else (9, 10)))
    pages = {scale: write_table("table1", items, shop, scale).read_text() for scale in SCALES}
    assert {scale: SMALL in page for scale, page in pages.items()} == {
        "smoke": True,
        "short": False,
        "paper": False,
    }
    *found, last = verdict("table1", items, shop)
    assert len(found) == 4
    assert all(word in line for line in found[:2])
    assert all("paper, causal: not told apart" in line for line in found[2:])
    assert "of 4 comparisons" in last
    table = score_table("table1", items, shop)
    by_model = dict(zip(table.column("model"), table.column("the paper"), strict=True))
    standard, looped, algoformer = PAPER["iwslt14_de_en"]
    printed = {"standard": standard, "looped": looped, "AlgoFormer": algoformer}
    assert by_model == printed | dict.fromkeys(f"{model}, causal" for model in printed)


def test_a_target_that_is_missed_is_called_so(tmp_path: Path) -> None:
    items = table_items("table1", "short")
    shop = TextShop(folder=tmp_path, results=tmp_path)
    rows = {row[0]: row for row in target_table("table1", items, shop).rows}
    assert {row[4] for row in rows.values()} == {"not run"}
    for item in items:
        if item.program == "algoformer":
            middle = {"paper": 21.0, "tuned": 23.0, "shipped": 60.0}[item.size]
            # a better one of more parameters than allowed does not count
            big = {"parameters": 41_000_000} if item.variant else {}
            value = 99.0 if item.variant else middle
            scored(shop, item, value - 1, value + 1, **big)
    words = {row[0]: (row[3], row[4], row[5]) for row in target_table("table1", items, shop).rows}
    first, second, third, fourth = words.values()
    assert first == ("21.00", "aim reached", "iwslt14_de_en/algoformer")
    assert second == ("23.00", "needed reached", "mixed_de_en/algoformer-tuned")
    assert third == ("23.00", "missed", "mixed_de_en/algoformer-tuned")
    assert fourth[1] == "not run"


@pytest.mark.parametrize(
    ("runs_at_once", "device", "verdict"),
    [(1, "a GPU", "missed"), (6, "a GPU", SHARED), (6, "a CPU", "missed")],
)
def test_a_time_counts_only_if_it_was_taken_alone(
    runs_at_once: int, device: str, verdict: str, tmp_path: Path
) -> None:
    items = table_items("table1", "short")
    shop = TextShop(folder=tmp_path, results=tmp_path)
    study = {"device": device, "cached": {"times": 4.0}}
    scored(shop, items[0], 20, 22, device="a GPU", runs_at_once=runs_at_once, decoding=study)
    last = target_table("table1", items, shop).rows[-1]
    assert last[3:5] == ("4.00", verdict)


def test_a_file_that_holds_no_scores_is_not_taken_for_any(tmp_path: Path) -> None:
    item = table_items("table1", "smoke")[0]
    shop = TextShop(folder=tmp_path, results=tmp_path)
    write_json(shop.score_path(item), ["no"])
    with pytest.raises(ValueError, match="holds no scores"):
        shop.scores(item)
