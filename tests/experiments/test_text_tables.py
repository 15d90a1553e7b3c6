"""The tables on text: all of their models, each trained once, judged by their intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algoformer.experiments.text_tables import (
    PAPER,
    TextItem,
    TextShop,
    score_table,
    table_items,
    verdict,
    write_table,
)
from algoformer.training.files import write_json

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


@pytest.mark.parametrize("scale", ["smoke", "short", "paper"])
@pytest.mark.parametrize("table", ["table1", "table2"])
def test_compared_models_have_the_same_budget(table: Any, scale: Any) -> None:
    items = table_items(table, scale)
    assert len({item.name for item in items}) == len(items)
    for corpus in {item.corpus for item in items}:
        for size in {item.size for item in items}:
            alike = [item for item in items if (item.corpus, item.size) == (corpus, size)]
            assert {item.program for item in alike} == {"standard", "looped", "algoformer"}
            budgets = {
                (item.experiment.training.steps, item.experiment.text, item.experiment.width)
                for item in alike
            }
            assert len(budgets) == 1


def tiny(item: TextItem) -> TextItem:
    text = replace(item.experiment.text, vocabulary=300, longest=64, validate_every=2)
    training = replace(item.experiment.training, log_every=2)
    return replace(item, experiment=replace(item.experiment, width=8, text=text, training=training))


def test_a_table_is_made_once(tmp_path: Path) -> None:
    items = [tiny(item) for item in table_items("table2", "smoke", steps=2)[:2]]
    shop = TextShop(folder=tmp_path / "runs", results=tmp_path / "results", command="by hand")
    seen: list[str] = []

    def watch(name: str, done: int, total: int, metrics: Any) -> None:
        seen.append(name)

    for _ in range(2):
        assert all(shop.make(item, watch) for item in items)
    assert seen == [item.name for item in items]
    table = score_table("table2", items, shop)
    assert table.column("model") == ("naive Bayes", "AlgoFormer", "standard")
    assert len(list(verdict("table2", items, shop))) == 1
    assert "naive Bayes" in write_table("table2", items, shop).read_text()
    changed = replace(items[0], experiment=replace(items[0].experiment, width=16))
    assert shop.scores(changed) is None


def _scored(shop: TextShop, item: TextItem, low: int | float, high: int | float) -> None:
    from algoformer.experiments.runs import fingerprint

    score = {"value": (low + high) / 2, "low": float(low), "high": float(high), "signature": ""}
    data = {
        "hash": fingerprint(item.experiment.to_data()),
        "measurements": [{"split": "test", "rows": 9, "scores": {"BLEU": score, "chrF": score}}],
        "parameters": 3,
        "valid_loss": 1.0,
        "seconds": 2.0,
    }
    write_json(shop.score_path(item), data)


@pytest.mark.parametrize(
    ("ours", "word"), [((11, 12), "ahead of"), ((5, 6), "behind"), ((8, 9.5), "not told apart")]
)
def test_the_verdict_is_what_the_intervals_can_tell(tmp_path: Path, ours: Any, word: str) -> None:
    items = [item for item in table_items("table1", "short") if item.size == "paper"]
    shop = TextShop(folder=tmp_path, results=tmp_path)
    for item in items:
        _scored(shop, item, *(ours if item.program == "algoformer" else (9, 10)))
    found = list(verdict("table1", items, shop))
    assert len(found) == 2
    assert all(word in line for line in found)
    table = score_table("table1", items, shop)
    by_model = dict(zip(table.column("model"), table.column("the paper"), strict=True))
    standard, looped, algoformer = PAPER["iwslt14_de_en"]
    assert by_model == {"standard": standard, "looped": looped, "AlgoFormer": algoformer}


def test_a_file_that_holds_no_scores_is_not_taken_for_any(tmp_path: Path) -> None:
    item = table_items("table1", "smoke")[0]
    shop = TextShop(folder=tmp_path, results=tmp_path)
    write_json(shop.score_path(item), ["no"])
    with pytest.raises(ValueError, match="holds no scores"):
        shop.scores(item)
