import csv
import gzip
import io
import sys
import types
from pathlib import Path

import pytest

from algoformer.language import load_labelled, load_parallel
from paper.corpora import LABELLED, PARALLEL, data_place, register_corpora
from paper.corpora.files import UnknownFileWarning
from paper.corpora.load import known_checksums

register_corpora()

# made-up files under known names are not the known files, and the library says so each time
pytestmark = pytest.mark.filterwarnings("ignore::paper.corpora.files.UnknownFileWarning")


def put(folder: Path, path: str, text: str) -> None:
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    raw = text.encode()
    target.write_bytes(gzip.compress(raw) if path.endswith(".gz") else raw)


def table(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def multi30k(folder: Path, *, train: int = 50) -> None:
    for language in ("de", "en"):
        lines = [f"{language} sentence {i}\n" for i in range(train)]
        put(folder, f"multi30k_de_en/train.{language}.gz", "".join(lines))
        put(folder, f"multi30k_de_en/valid.{language}.gz", f"{language} valid\n")
        put(folder, f"multi30k_de_en/test2016.{language}.gz", f"{language} sentence 3\n{language} new\n")
        put(folder, f"multi30k_de_en/test2017.{language}.gz", f"{language.upper()} SENTENCE 4!\n")


def test_parallel_files_become_splits_without_overlap(tmp_path: Path) -> None:
    multi30k(tmp_path)
    corpus = load_parallel("multi30k_de_en", data=tmp_path)
    assert corpus.test.source == ("de sentence 3", "de new")
    assert corpus.further["test2017"].target == ("EN SENTENCE 4!",)
    assert len(corpus.train) == 48
    assert "train: 2 of 50 left out, also in a held-out split" in corpus.notes
    assert set(corpus.files) == {
        f"multi30k_de_en/{split}.{language}.gz"
        for split in ("train", "valid", "test2016", "test2017")
        for language in ("de", "en")
    }


def test_unknown_content_under_a_known_name_warns(tmp_path: Path) -> None:
    multi30k(tmp_path)
    with pytest.warns(UnknownFileWarning):
        load_parallel("multi30k_de_en", data=tmp_path)
    with pytest.raises(ValueError, match="is not the file that this library knows"):
        load_parallel("multi30k_de_en", data=tmp_path, strict=True)


def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    multi30k(tmp_path)
    (tmp_path / "multi30k_de_en/test2016.en.gz").unlink()
    way = r"github\.com/multi30k.*test_2016_flickr renamed test2016.*bentrevett/multi30k.*--data-folder hub"
    with pytest.raises(ValueError, match=rf"test2016\.en\.gz is missing.*{way}"):
        load_parallel("multi30k_de_en", data=tmp_path)


def test_sides_of_unequal_length_are_refused(tmp_path: Path) -> None:
    multi30k(tmp_path)
    put(tmp_path, "multi30k_de_en/train.en.gz", "only one\n")
    with pytest.raises(ValueError, match=r"has 50 lines and .* has 1"):
        load_parallel("multi30k_de_en", data=tmp_path)


def test_empty_lines_leave_training_but_never_a_test_set(tmp_path: Path) -> None:
    multi30k(tmp_path)
    put(tmp_path, "multi30k_de_en/train.de.gz", "eins\n\ndrei\n")
    put(tmp_path, "multi30k_de_en/train.en.gz", "one\ntwo\nthree\n")
    put(tmp_path, "multi30k_de_en/test2016.de.gz", "etwas\n\n")
    corpus = load_parallel("multi30k_de_en", data=tmp_path)
    assert corpus.train.source == ("eins", "drei")
    assert corpus.test.source == ("etwas", "")
    assert "train: 1 of 3 left out, empty" in corpus.notes


def test_a_set_without_validation_gets_one_by_hash(tmp_path: Path) -> None:
    lines = [f"{word} number {i}" for i in range(400) for word in ("sentence",)]
    for language in ("de", "en"):
        put(tmp_path, f"tatoeba_de_en/train.{language}", "\n".join(f"{language} {line}" for line in lines))
        put(tmp_path, f"tatoeba_de_en/test.{language}", f"{language} test\n")
    corpus = load_parallel("tatoeba_de_en", data=tmp_path)
    assert len(corpus.train) + len(corpus.valid) == 400
    assert 0 < len(corpus.valid) < 40
    assert f"valid: {len(corpus.valid)} texts of train, chosen by their hash" in corpus.notes


def test_csv_with_a_header_counts_from_zero(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        put(tmp_path, f"imdb/{split}.csv.gz", table([("label", "text"), ("1", f"{split}<br />line\ntwo")]))
    corpus = load_labelled("imdb", data=tmp_path)
    assert (corpus.test.texts, corpus.test.labels) == (("test line two",), (1,))
    assert corpus.classes == ("neg", "pos")


def test_csv_as_published_counts_from_one_and_joins_its_columns(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        put(tmp_path, f"yahoo_answers/{split}.csv", table([("10", f"{split}?", r"why\nthough", "because")]))
    corpus = load_labelled("yahoo_answers", data=tmp_path)
    assert corpus.test.texts == ("test? why though because",)
    assert corpus.classes[corpus.test.labels[0]] == "Politics & Government"


@pytest.mark.parametrize(
    ("row", "message"), [(("x", "text"), "a row is a label and text"), (("9", "text"), "label 9.*2 classes")]
)
def test_wrong_labels_are_refused(tmp_path: Path, row: tuple[str, ...], message: str) -> None:
    for split in ("train", "valid", "test"):
        put(tmp_path, f"imdb/{split}.csv", table([("label", "text"), row]))
    with pytest.raises(ValueError, match=message):
        load_labelled("imdb", data=tmp_path)


@pytest.mark.parametrize("text", ["label,text\r\n", "", '0,""\r\n'])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_file_without_texts_is_refused_when_it_is_read(tmp_path: Path, split: str, text: str) -> None:
    for name in ("train", "valid", "test"):
        put(tmp_path, f"ag_news/{name}.csv", table([("label", "text"), ("1", name)]))
    put(tmp_path, f"ag_news/{split}.csv", text)
    with pytest.raises(
        ValueError, match=rf"ag_news/{split}\.csv holds no texts; put the whole file there.*csv"
    ):
        load_labelled("ag_news", data=tmp_path)


def test_sides_without_sentences_are_refused_when_they_are_read(tmp_path: Path) -> None:
    multi30k(tmp_path)
    for language in ("de", "en"):
        put(tmp_path, f"multi30k_de_en/test2016.{language}.gz", "")
    with pytest.raises(ValueError, match=r"test2016\.de\.gz holds no texts"):
        load_parallel("multi30k_de_en", data=tmp_path)


def test_a_set_that_repeats_its_test_set_leaves_nothing_to_train_on(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        put(tmp_path, f"ag_news/{name}.csv", table([("label", "text"), ("1", "the same")]))
    with pytest.raises(
        ValueError, match=r"nothing is left to train on in ag_news: .*1 of 1 left out, also in"
    ):
        load_labelled("ag_news", data=tmp_path)


def test_an_unknown_name_meets_its_nearest() -> None:
    with pytest.raises(ValueError, match=r"'multi30k' \(did you mean 'multi30k_de_en'\?\)"):
        load_parallel("multi30k", data=".")


def test_the_folder_comes_from_the_argument_then_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALGOFORMER_DATA", raising=False)
    with pytest.raises(ValueError, match="--data-folder FOLDER or ALGOFORMER_DATA"):
        data_place()
    monkeypatch.setenv("ALGOFORMER_DATA", str(tmp_path))
    assert data_place() == tmp_path
    assert data_place("hub") == "hub"
    with pytest.raises(ValueError, match=r"--data-folder names .*nowhere, which is not a folder"):
        data_place(tmp_path / "nowhere")


def test_the_small_sets_need_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALGOFORMER_DATA", "/nowhere")
    assert len(load_labelled("small_topics").classes) == 4


class Rows(list):
    """As little of a split of `datasets` as the loader needs."""

    features = types.MappingProxyType({"label": types.SimpleNamespace(names=["neg", "pos"])})


def pretend_hub(monkeypatch: pytest.MonkeyPatch, splits: object) -> list[tuple[object, ...]]:
    asked: list[tuple[object, ...]] = []

    def load_dataset(repository: str, config: str | None, revision: str | None) -> object:
        asked.append((repository, config, revision))
        if isinstance(splits, Exception):
            raise splits
        return splits

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_labelled_sets_come_from_the_hub_in_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows([{"text": f"review<br />{i}", "label": i % 2} for i in range(100)])
    test = Rows([{"text": "Review 7!", "label": 1}])
    asked = pretend_hub(monkeypatch, {"train": rows, "test": test, "unsupervised": Rows()})
    corpus = load_labelled("imdb", data="hub")
    assert asked == [("stanfordnlp/imdb", None, None)]
    assert corpus.classes == ("neg", "pos")
    assert len(corpus.train) + len(corpus.valid) == 99
    assert "review 1" in corpus.train.texts + corpus.valid.texts


def test_parallel_sets_come_from_the_hub_in_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"translation": {"de": "das ist &apos;s", "en": "that &apos;s it"}}]
    splits = {
        "train": rows,
        "validation": [{"translation": {"de": "v", "en": "w"}}],
        "test": [{"translation": {"de": "t", "en": "u"}}],
    }
    pretend_hub(monkeypatch, splits)
    corpus = load_parallel("iwslt14_de_en", data="hub")
    assert (corpus.train.source, corpus.train.target) == (("das ist 's",), ("that 's it",))
    assert corpus.valid.source == ("v",)


def test_being_offline_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_hub(monkeypatch, ConnectionError("no route"))
    with pytest.raises(ValueError, match="imdb could not be loaded from stanfordnlp/imdb: no route"):
        load_labelled("imdb", data="hub")


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match=r"algoformer\[hub\]"):
        load_labelled("imdb", data="hub")


def test_a_set_that_is_not_on_the_hub_says_where_it_is() -> None:
    with pytest.raises(ValueError, match=r"not on the hub.*manythings\.org"):
        load_parallel("tatoeba_de_en", data="hub")


def test_every_checksum_belongs_to_a_known_set() -> None:
    assert {path.split("/")[0] for path in known_checksums()} <= set(PARALLEL) | set(LABELLED)
    assert all(len(digest) == 64 for digest in known_checksums().values())
