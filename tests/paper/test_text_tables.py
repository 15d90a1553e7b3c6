"""The tables on text: all of their models, each trained once, judged by their intervals."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algoformer.common.files import write_json
from algoformer.language.corpora import load_labelled
from algoformer.training import train
from made_up_scores import scored
from paper.manager import RunManager
from paper.naive_bayes import naive_bayes_accuracy
from paper.runs import SMALL, Scale
from paper.text_archive import TextArchive
from paper.text_items import TextRunSpec, table_items
from paper.text_tables import PAPER, score_table, verdict, write_table

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


SCALES: tuple[Scale, ...] = ("tiny", "short", "paper")


def tiny(item: TextRunSpec) -> TextRunSpec:
    data = replace(item.data, vocabulary=300, max_length=64)
    training = replace(item.experiment.training, log_every=2, validate_every=2)
    return replace(item, experiment=replace(item.experiment, width=8, data=data, training=training))


class Listener:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.results: dict[str, str] = {}
        self.failures: dict[str, str] = {}

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        self.steps.append(name)

    def result(self, name: str, words: str, path: Path) -> None:
        assert path.exists()
        self.results[name] = words

    def failed(self, name: str, reason: str) -> None:
        self.failures[name] = reason


def archive_in(folder: Path) -> TextArchive:
    return TextArchive(folder=folder / "runs", results=folder / "results")


def manager_in(folder: Path, **options: Any) -> RunManager:
    return RunManager(folder=folder / "runs", archive=archive_in(folder), **options)


def test_text_goes_to_another_process_with_its_experiment(tmp_path: Path) -> None:
    experiment = archive_in(tmp_path).prepare(tiny(table_items("table2", "tiny", steps=2)[0]))
    sent: Any = pickle.loads(pickle.dumps(experiment))
    assert sent == experiment
    assert sent.data.train_digest == experiment.data.train_digest  # type: ignore[attr-defined]
    assert sent.data.packed.tokenizer == experiment.data.packed.tokenizer  # type: ignore[attr-defined]


def test_a_table_is_made_once(tmp_path: Path) -> None:
    items = [tiny(item) for item in table_items("table2", "tiny", steps=2)[:2]]
    listener, archive = Listener(), archive_in(tmp_path)
    manager = manager_in(tmp_path, workers=1, command="by hand")
    for _ in range(2):
        manager.make(items, listener)
    assert not manager.failures
    assert sorted(listener.steps) == sorted(listener.results) == sorted(item.name for item in items)
    table = score_table("table2", items, archive)
    assert table.column("model") == ("naive Bayes", "AlgoFormer", "standard")
    assert len(list(verdict("table2", items, archive))) == 2
    page = write_table("table2", items, archive, "tiny").read_text()
    assert "naive Bayes" in page
    changed = replace(items[0], experiment=replace(items[0].experiment, width=16))
    assert archive.find(changed) is None
    found: Any = archive.find(items[0])
    (one,) = found["measurements"]
    assert one["loss_rows"] == 600
    assert listener.results[items[0].name] == f"accuracy {one['scores']['accuracy']['value']:.2f}"


def test_what_is_prepared_needs_no_data_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [tiny(item) for item in table_items("table2", "tiny", steps=2)[:1]]
    archive = archive_in(tmp_path)
    (packed,) = archive.prepare_all(items)
    assert packed.suffix == ".packed"
    score = naive_bayes_accuracy(load_labelled("small_topics"))
    kept = json.loads((tmp_path / "results" / "text" / "small_topics-floor.scores.json").read_text())
    assert (kept["value"], kept["low"], kept["high"]) == (score.value, score.low, score.high)

    def gone(*_: Any, **__: Any) -> Any:
        raise ValueError("there is no data here")

    monkeypatch.setattr("algoformer.data.labelled.load_labelled", gone)
    monkeypatch.setattr("paper.text_archive.load_labelled", gone)
    manager_in(tmp_path).make(items, Listener())
    assert score_table("table2", items, archive).column("model") == ("naive Bayes", "AlgoFormer")
    # where a floor was neither counted nor can be, the table is made without it
    (tmp_path / "results" / "text" / "small_topics-floor.scores.json").unlink()
    assert score_table("table2", items, archive).column("model") == ("AlgoFormer",)


def test_an_unfinished_run_is_not_scored_and_goes_on(tmp_path: Path) -> None:
    item = tiny(table_items("table2", "tiny", steps=4)[0])
    manager = manager_in(tmp_path, max_minutes=1e-9)
    manager.make([item], Listener())
    status = manager.status(item)
    assert (status.state, 0 < status.step < 4) == ("begun", True)
    manager_in(tmp_path).make([item], Listener())
    found: Any = archive_in(tmp_path).find(item)
    assert found["steps"] == 4


@pytest.mark.parametrize("damaged", ["checkpoint.safetensors", "best.safetensors"])
def test_a_damaged_run_is_named_with_its_remedy(damaged: str, tmp_path: Path) -> None:
    item = tiny(table_items("table2", "tiny", steps=4)[0])
    manager, listener = manager_in(tmp_path), Listener()
    folder = manager.run_folder(item)
    train(archive_in(tmp_path).prepare(item), folder)
    (folder / damaged).write_bytes(b"x" * 100)
    manager.make([item], listener)
    assert listener.failures == manager.failures
    assert manager.failures[item.name].endswith(f". Remove {folder} to begin the run anew")


def test_a_damaged_packed_text_is_named_with_its_remedy(tmp_path: Path) -> None:
    item = tiny(table_items("table2", "tiny", steps=4)[0])
    (packed,) = archive_in(tmp_path).prepare_all([item])
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(ValueError, match=re.escape(f"Remove {packed} to have the text packed anew")):
        manager_in(tmp_path).make([item], Listener())


@pytest.mark.parametrize(
    ("ours", "word"), [((11, 12), "ahead of"), ((5, 6), "behind"), ((8, 9.5), "not told apart")]
)
def test_the_verdict_is_what_the_intervals_can_tell(tmp_path: Path, ours: Any, word: str) -> None:
    items = [item for item in table_items("table1", "short") if item.size == "paper"]
    archive = archive_in(tmp_path)
    for item in items:
        # variants are compared with each other, however good they are
        scored(
            archive, item, *((90, 91) if item.variant else ours if item.program == "algoformer" else (9, 10))
        )
    pages = {scale: write_table("table1", items, archive, scale).read_text() for scale in SCALES}
    assert {scale: SMALL in page for scale, page in pages.items()} == {
        "tiny": True,
        "short": False,
        "paper": False,
    }
    *found, last = verdict("table1", items, archive)
    assert len(found) == 4
    assert all(word in line for line in found[:2])
    assert all("paper, causal: not told apart" in line for line in found[2:])
    assert "of 4 comparisons" in last
    table = score_table("table1", items, archive)
    by_model = dict(zip(table.column("model"), table.column("the paper"), strict=True))
    standard, looped, algoformer = PAPER["iwslt14_de_en"]
    printed = {"standard": standard, "looped": looped, "AlgoFormer": algoformer}
    assert by_model == printed | dict.fromkeys(f"{model}, causal" for model in printed)


def test_a_file_that_holds_no_scores_is_not_taken_for_any(tmp_path: Path) -> None:
    item = table_items("table1", "tiny")[0]
    archive = archive_in(tmp_path)
    write_json(archive.score_path(item), ["no"])
    with pytest.raises(ValueError, match="holds no scores"):
        archive.find(item)
