"""A user's own files: read, split, and refused with the file, the line and the remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from algoformer import programs
from algoformer.data import LabelledData, TextData, TranslationData
from algoformer.data.files import read_labelled, read_parallel
from algoformer.data.token_file import held_out_place, split_blocks, text_blocks, text_files
from algoformer.language.tokenizer import EOS
from algoformer.model import presets
from algoformer.model.loop_models import LOOP_MODELS
from algoformer.model.stopping import ProbabilityShift
from algoformer.nn.layer import Layer
from algoformer.training import Experiment, TrainConfig, load_checkpoint, load_experiment, train
from algoformer.training.presets import named_recipe
from algoformer.training.text_recipes import text_data, text_experiment
from tests.training.small import same_weights

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


def _pairs(folder: Path, count: int = 200) -> tuple[Path, Path]:
    source, target = folder / "train.de", folder / "train.en"
    source.write_text("".join(f"das ist Satz Nummer {n}\n" for n in range(count)), encoding="utf-8-sig")
    target.write_text("".join(f"this is sentence number {n}\n" for n in range(count)))
    return source, target


def test_parallel_files_are_split_by_a_seed_without_overlap(tmp_path: Path) -> None:
    files = [[str(path)] for path in _pairs(tmp_path)]
    one = read_parallel(*files, seed=0)
    same = read_parallel(*files, seed=0)
    other = read_parallel(*files, seed=1)
    assert one == same
    assert one.valid != other.valid
    parts = [set(split.source) for split in one.splits().values()]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 200
    assert 3 <= len(one.valid) <= 25
    assert 3 <= len(one.test) <= 25
    assert one.train.source[0].startswith("das ist")  # no byte order mark is left


def test_given_files_are_used_as_they_are_and_not_trained_on(tmp_path: Path) -> None:
    source, target = _pairs(tmp_path)
    (tmp_path / "v.de").write_text("das ist Satz Nummer 7\n")
    (tmp_path / "v.en").write_text("this is sentence number 7\n")
    held = (str(tmp_path / "v.de"), str(tmp_path / "v.en"))
    data = TranslationData(source=source, target=target, validation=held, test=held, vocabulary=300)
    corpus = data._corpus()
    assert corpus.valid.source == corpus.test.source == ("das ist Satz Nummer 7",)
    assert "das ist Satz Nummer 7" not in corpus.train.source
    assert len(corpus.train) == 199


def test_files_of_unequal_length_are_named_with_their_lines(tmp_path: Path) -> None:
    source, target = _pairs(tmp_path)
    target.write_text("one line\n")
    with pytest.raises(ValueError, match=r"train\.de has 200 lines and .*train\.en has 1"):
        TranslationData(source=source, target=target).text  # noqa: B018


def test_what_is_not_utf8_is_named_with_line_and_byte(tmp_path: Path) -> None:
    source, target = _pairs(tmp_path)
    source.write_bytes(b"gut\nf\xfcr\n")
    with pytest.raises(ValueError, match=r"train\.de is not UTF-8: byte 0xfc at position 5 in line 2"):
        TranslationData(source=source, target=target).text  # noqa: B018
    (tmp_path / "a.txt").write_bytes(b"x\n" * 3000 + b"\xff\n")
    with pytest.raises(ValueError, match=r"a\.txt is not UTF-8: byte 0xff at position 6000 in line 3001"):
        list(text_blocks(tmp_path / "a.txt"))


@contextmanager
def _pipe(content: str = "") -> Iterator[str]:
    """Yield the path of a pipe that gives a little text, as a shell writes <(command)."""
    end, other = os.pipe()
    os.write(other, content.encode())
    os.close(other)
    try:
        yield f"/dev/fd/{end}"
    finally:
        os.close(end)


@pytest.mark.parametrize("split", ["files", "validation", "test"])
def test_text_that_is_read_again_does_not_come_from_a_pipe(tmp_path: Path, split: str) -> None:
    source, target = map(str, _pairs(tmp_path))
    with _pipe() as pipe:
        said = f"{split} must name a file, got {pipe}, a pipe, and its text is read more than once"
        with pytest.raises(ValueError, match=said):
            read_labelled(**{"files": [source], split: [pipe]})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=said):
            TextData(**{"files": source, split: pipe}).splits  # type: ignore[arg-type] # noqa: B018
        if split != "files":
            with pytest.raises(ValueError, match=said):
                read_parallel([source], [target], **{split: [source, pipe]})  # type: ignore[arg-type]


def test_a_tokenizer_may_come_from_a_pipe(tmp_path: Path) -> None:
    source, _ = _pairs(tmp_path)
    first = TextData(files=source, vocabulary=300).known_tokenizer
    with _pipe(first.to_json()) as pipe:
        assert TextData(files=source, tokenize=pipe).known_tokenizer == first


def _table(path: Path, rows: list[dict[str, Any]], columns: tuple[str, str]) -> Path:
    text, label = columns
    if path.suffix == ".jsonl":
        lines = [json.dumps({text: row["text"], label: row["label"]}) for row in rows]
    else:
        quoted = [(row["text"].replace('"', '""'), row["label"]) for row in rows]
        lines = [f"id,{text},{label}"] + [f'{n},"{t}",{k}' for n, (t, k) in enumerate(quoted)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


ROWS = [
    {"text": f'film {n}, "really" {"good" if n % 2 else "bad"}\nindeed', "label": ("neg", "pos")[n % 2]}
    for n in range(200)
]


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.jsonl"])
@pytest.mark.parametrize("columns", [("text", "label"), ("Review", "Sentiment")])
def test_tables_are_read_by_their_header(tmp_path: Path, name: str, columns: tuple[str, str]) -> None:
    corpus = read_labelled([str(_table(tmp_path / name, ROWS, columns))])
    assert corpus.classes == ("neg", "pos")
    assert sum(len(split) for split in corpus.splits().values()) == 200
    for split in corpus.splits().values():
        for text, label in zip(split.texts, split.labels, strict=True):
            assert ("good" in text) == (label == 1)
            assert '"really"' in text


def test_numbered_classes_stand_in_their_own_order(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": n % 11} for n in range(220)]
    corpus = read_labelled([str(_table(tmp_path / "t.csv", rows, ("text", "label")))])
    assert corpus.classes == tuple(map(str, range(11)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("text,stars\ngood,5\n", "no column named label, class, category or the like, .* text, stars;"),
        ("a,b\nx,y\n", "name one with text_column"),
        ("text,label\ngood,\n", "line 2: the row has no label"),
        ("text,label\ngood\n", "line 2: the row has no label"),
        ("text,label\n", "holds no rows"),
        ("text,label\ngood,1\nbad,1\n", "two classes or more"),
        ("text,label\ngood," + "A" * 4000 + "\n", r"two classes or more, got .{1,80}$"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError, match=words):
        read_labelled([str(tmp_path / "t.csv")])
    with pytest.raises(ValueError, match="no column 'stars'"):
        read_labelled([str(_table(tmp_path / "u.csv", ROWS, ("text", "label")))], label_column="stars")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        # the label would be " but cold", and the text before it cut
        (
            "t.csv",
            "text,label\nfine,1\nGood, but cold,0\n",
            "line 3: the row has 3 cells, the header 2; put a",
        ),
        ("t.tsv", "label\ttext\n1\tgood\tsoup\n", "line 2: .* text with a tab between quotation marks"),
        # the rows from the first mark to the second would be one text
        ("t.tsv", 'text\tlabel\n"Good\t1\nbad\t0\nfine, he "said\t1\n', r"line 2: .*\t' expected after"),
        (
            "t.csv",
            'label,text\n1,good\n0,"bad\n1,fine\n',
            "line 3: .*unexpected end of data; a quotation mark",
        ),
        ("t.csv", 'label,text\n1,"good" soup\n', "line 2: .*',' expected after '\"'; .* are doubled"),
        ("t.jsonl", '{"text": "a", "label": ["x", "y"]}\n', r"line 1: label must be a text .*\['x', 'y'\]"),
        (
            "t.jsonl",
            '{"text": {"en": "a"}, "label": 1}\n',
            "line 1: text must be a text or a number, got {'en'",
        ),
        ("t.json", '[{"text": "a", "label": 1}]\n', "line 1 must be a JSON object, got list"),
    ],
)
def test_a_row_that_can_be_read_in_two_ways_is_refused(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=words):
        read_labelled([str(tmp_path / name)])


def test_tables_may_end_rows_with_a_delimiter_and_have_capitals_in_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "t.CSV").write_text("text,label\n" + "".join(f"number {n},{n % 2},\n" for n in range(200)))
    (tmp_path / "t.TSV").write_text("text\tlabel\n" + "".join(f"number {n}\t{n % 2}\n" for n in range(200)))
    rows = (json.dumps({"text": f"number {n}", "label": n % 2}) + "\n" for n in range(200))
    (tmp_path / "t.JSON").write_text("".join(rows))
    one, *others = (read_labelled([str(tmp_path / f"t.{suffix}")]) for suffix in ("CSV", "TSV", "JSON"))
    assert one.classes == ("0", "1")
    assert all(other.splits() == one.splits() for other in others)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TranslationData(), "give either two files"),
        (lambda: TranslationData(source="a", target="b", corpus="small_de_en"), "give either two files"),
        (lambda: TranslationData(source=("a", "b"), target="c"), "every source file needs a target"),
        (lambda: TranslationData(source="a", target="b", test="c"), "test must be a source and a target"),
        (lambda: TranslationData(source="a", target="b", test="c" * 4000), r"file, got .{1,200}$"),
        (lambda: LabelledData(), "give either files"),
        (lambda: LabelledData(files="a", classes=("x", "y", "x")), "classes must differ, got .'x', 'y', 'x'"),
        (lambda: TextData(), "files must name at least one"),
        (lambda: TextData(files="nowhere.txt").splits, "nowhere.txt does not exist"),
        (lambda: TranslationData(corpus="a", batch_tokens=10), "batch_tokens must hold the longest"),
    ],
)
def test_data_that_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def _book(folder: Path, lines: int = 2000) -> Path:
    path = folder / "book.txt"
    path.write_text(
        "".join(f"{n} bottles of Bärenbräu on the wall\n" for n in range(lines)), encoding="utf-8"
    )
    return path


def test_blocks_are_the_file_and_the_splits_share_none(tmp_path: Path) -> None:
    path = _book(tmp_path)
    whole = path.read_text(encoding="utf-8")
    assert "".join(text_blocks(path)) == whole
    (tmp_path / "long.txt").write_text("ä€😀" * 4000, encoding="utf-8")  # one line, cut between characters
    assert "".join(text_blocks(tmp_path / "long.txt")) == "ä€😀" * 4000
    files = {"train": [path]}
    splits = {name: [b for b in split_blocks(files, name, 0) if b] for name in ("train", "valid", "test")}
    assert sum(len("".join(blocks)) for blocks in splits.values()) == len(whole)
    assert not set(splits["valid"]) & set(splits["train"])
    assert {held_out_place(n, 0) for n in range(4)} == {"train", "valid", "test"}
    held = [held_out_place(n, 0) for n in range(2000)]
    assert held.count("valid") == held.count("test") == 100


def test_short_files_end_once_in_the_split_that_has_their_text(tmp_path: Path) -> None:
    for number in range(100):  # one block each
        (tmp_path / f"{number:02}.txt").write_text(f"document {number}\n")
    (tmp_path / "empty.txt").write_text("")
    data = TextData(files=tmp_path, tokenize="char", context=8, cache=str(tmp_path / "cache"))
    parts = {name: file.tokens.tolist() for name, file in data.splits.items()}
    counts = {name: tokens.count(EOS) for name, tokens in parts.items()}
    assert counts == {"train": 90, "valid": 5, "test": 5}
    texts = {name: data.known_tokenizer.decode(tokens).split() for name, tokens in parts.items()}
    assert {name: texts[name].count("document") for name in texts} == counts
    assert not any((EOS, EOS) in pairwise(tokens) for tokens in parts.values())


@pytest.mark.parametrize("tokenize", ["char", "bpe"])
def test_the_bytes_of_some_tokens_are_those_of_their_text(tmp_path: Path, tokenize: str) -> None:
    (tmp_path / "a.txt").write_text("ä€😀 ascii\n" * 3000, encoding="utf-8")  # characters of 2, 3 and 4 bytes
    (tmp_path / "b.txt").write_text("another text\n" * 3000, encoding="utf-8")
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    data = TextData(files=files, tokenize=tokenize, vocabulary=290, context=8, cache=str(tmp_path / "cache"))
    tokenizer = data.known_tokenizer
    for name, split in data.splits.items():
        sizes = []
        for block in split_blocks({"train": files}, name, 0):
            pieces = [] if block is None else [tokenizer.piece(token) for token in tokenizer.encode(block)]
            if block is not None:
                pieces[0] = pieces[0].removeprefix(b" ")
                assert b"".join(pieces).decode() == block
            sizes += [len(piece) for piece in pieces] or [0]
        assert len(sizes) == len(split)
        assert split.bytes_between(0, len(split), tokenizer) == sum(sizes) == split.text_bytes
        for first, last in ((0, 1), (1, 2), (1, 700), (3, 5000), (700, len(split)), (5, 5)):
            assert split.bytes_between(first, last, tokenizer) == sum(sizes[first:last])


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    book, cache = _book(tmp_path), str(tmp_path / "cache")
    (tmp_path / "link.txt").symlink_to(book)
    once = TextData(files=book, tokenize="char", context=8, cache=cache).splits
    for files in ([book, book], [tmp_path, book], [book, tmp_path / "." / "link.txt"]):
        splits = TextData(files=files, tokenize="char", context=8, cache=cache).splits
        for name in splits:
            assert splits[name].tokens.tolist() == once[name].tokens.tolist()
    other = tmp_path / "a.txt"
    other.write_text("another text")
    assert text_files([str(book), str(other), str(book)]) == [book, other]


@pytest.mark.parametrize("tokenize", ["char", "bpe"])
def test_a_language_model_trains_on_a_file_and_goes_on(tmp_path: Path, tokenize: str) -> None:
    data = TextData(
        files=_book(tmp_path), tokenize=tokenize, vocabulary=300, context=16, cache=str(tmp_path / "cache")
    )
    training = TrainConfig(
        steps=6, batch_size=4, window=2, lr=1e-2, log_every=2, validate_every=2, checkpoint_every=2
    )
    experiment = Experiment(programs.algoformer(steps=3, heads=2), data, width=8, training=training)
    whole = train(experiment, tmp_path / "whole")
    train(experiment, tmp_path / "parts", max_minutes=1e-9)
    for _ in range(6):
        last = train(experiment, tmp_path / "parts", resume=True, max_minutes=1e-9)
    found = load_checkpoint(tmp_path / "parts" / "checkpoint.safetensors")
    assert all(
        one.equal(other) for one, other in zip(whole.model.parameters(), last.model.parameters(), strict=True)
    )
    assert found.data == data
    scores = data.evaluate(found.model, limit=500)
    assert len(scores.cross_entropy) == 3
    assert scores.tokens == 499
    tokens, tokenizer = data.splits["test"].tokens[1:500].tolist(), data.known_tokenizer
    bytes_ = sum(len(tokenizer.piece(token)) for token in tokens)  # of one block: its first token is given
    expected = scores.cross_entropy[-1] * len(tokens) / bytes_ / 0.6931471805599453
    assert scores.bits_per_byte[-1] == pytest.approx(expected)
    assert scores.iterations == (1, 2, 3)
    patient = data.evaluate(found.model, limit=500, early_exit=ProbabilityShift(threshold=0))
    assert patient.iterations == (3,)  # it never stops early
    assert patient.cross_entropy == pytest.approx(scores.cross_entropy[-1:], rel=1e-5)
    hasty = data.evaluate(found.model, limit=500, early_exit=ProbabilityShift(threshold=1))
    # a sequence of 16 tokens reads its first one with 3 iterations, the others stop at the second reading
    assert hasty.iterations == pytest.approx((2 + 32 / 499,))
    assert hasty.cross_entropy != pytest.approx(patient.cross_entropy, rel=1e-9)
    _book(tmp_path, lines=2001)
    with pytest.raises(ValueError, match="not the one that the run began with"):
        train(experiment.__class__(**_parts(experiment, data)), tmp_path / "parts", resume=True)


def test_a_file_to_train_on_is_not_one_to_test_on(tmp_path: Path) -> None:
    book = _book(tmp_path)
    for name in ("validation", "test"):
        data = TextData(files=str(tmp_path), tokenize="char", **{name: str(book)})
        with pytest.raises(ValueError, match=rf"book\.txt is among files and {name}; leave it out"):
            _ = data.known_tokenizer


def test_text_that_has_changed_since_the_training_is_not_evaluated_on(tmp_path: Path) -> None:
    book = _book(tmp_path)
    before = book.read_text()
    data = TextData(files=book, tokenize="char", vocabulary=300, context=16, cache=str(tmp_path / "cache"))
    stored = replace(TextData.from_header(data.header()), cache=data.cache)
    model = data.build_model(programs.standard(1, heads=2), 8, TrainConfig())
    expected = data.evaluate(model, limit=500)
    book.write_text("a new first line\n" + before)
    with pytest.raises(ValueError, match=r"not the one that the run was trained on.* test files"):
        replace(stored).evaluate(model, limit=500)
    with pytest.raises(ValueError, match="other text as validation files"):
        replace(stored).evaluate(model, limit=500, split="valid")
    (tmp_path / "other.txt").write_text(before)
    assert replace(stored, test=str(tmp_path / "other.txt")).evaluate(model, limit=500).tokens == 499
    book.write_text(before)
    assert replace(stored).evaluate(model, limit=500) == expected


def test_the_digest_belongs_to_the_files_that_were_trained_on(tmp_path: Path) -> None:
    book = _book(tmp_path)
    data = TextData(files=book, tokenize="char", vocabulary=300, context=16, cache=str(tmp_path / "cache"))
    stored = replace(TextData.from_header(data.header()), cache=data.cache)
    model = data.build_model(programs.standard(1, heads=2), 8, TrainConfig())
    (tmp_path / "other.txt").write_text("".join(f"{n} other lines of text\n" for n in range(2000)))
    other = replace(stored, files=tmp_path / "other.txt")
    assert other.tokenizer == stored.tokenizer
    assert other.evaluate(model, limit=500).tokens == 499
    assert other.header()["digest"] == other.text_digest != stored.digest
    # settings that name no training text do not lift the protection
    assert replace(stored, test=tmp_path / "other.txt").digest == stored.digest
    assert replace(stored, files=str(book)).digest == replace(stored, files=[book]).digest == stored.digest
    with pytest.raises(ValueError, match="not the one that the run was trained on"):
        replace(stored, split_seed=1).evaluate(model, limit=500)
    again = replace(TextData.from_header(other.header()), cache=data.cache)
    (tmp_path / "other.txt").write_text("edited\n" + (tmp_path / "other.txt").read_text())
    with pytest.raises(ValueError, match="not the one that the run was trained on"):
        again.evaluate(model, limit=500)


def test_a_translator_and_a_classifier_are_evaluated_on_other_files(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    pairs, others = _pairs(tmp_path), _pairs(tmp_path / "other", count=300)
    sizes: dict[str, Any] = {"max_length": 16, "batch_tokens": 512, "vocabulary": 300}
    parallel = TranslationData(source=pairs[0], target=pairs[1], **sizes)
    table = _table(tmp_path / "t.csv", ROWS, ("text", "label"))
    rows = [{**row, "text": f"other {row['text']}"} for row in ROWS]
    labelled = LabelledData(files=table, **sizes)
    for data, changes in (
        (parallel, {"source": others[0], "target": others[1]}),
        (labelled, {"files": _table(tmp_path / "u.csv", rows, ("text", "label"))}),
    ):
        stored: Any = type(data).from_header(data.header())  # type: ignore[attr-defined]
        model = stored.build_model(programs.standard(1, heads=2), 8, TrainConfig())
        changed = replace(stored, **changes)  # type: ignore[arg-type]
        assert changed.evaluate(model)[0].rows > 0
        assert changed.train_digest != stored.digest


def _parts(experiment: Experiment, data: TextData) -> dict[str, Any]:
    fresh = TextData(**{"files": data.files, "tokenize": data.tokenize} | _sizes(data))
    return {
        "program": experiment.program,
        "data": fresh,
        "width": experiment.width,
        "training": experiment.training,
    }


def _sizes(data: TextData) -> dict[str, Any]:
    return {"vocabulary": data.vocabulary, "context": data.context, "cache": data.cache}


def test_a_text_shorter_than_one_sequence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("too short\n")
    data = TextData(files=tmp_path / "short.txt", tokenize="char", context=64, cache=str(tmp_path / "c"))
    experiment = Experiment(programs.looped(heads=2), data, width=8)
    with pytest.raises(ValueError, match=r"[0-9]+ of the 65 tokens of one sequence; give more text"):
        train(experiment)


def test_a_text_with_nothing_to_validate_on_is_refused_before_it_is_trained_on(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one block is all for training " * 9)
    data = TextData(files=tmp_path / "one.txt", tokenize="char", context=8, cache=str(tmp_path / "c"))
    assert data.splits["valid"].text_bytes == 0
    training = TrainConfig(steps=2, batch_size=2, log_every=1, validate_every=1)
    experiment = Experiment(programs.looped(heads=2), data, width=8, training=training)
    with pytest.raises(ValueError, match="no text to validate or test on; give more text"):
        train(experiment, tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.safetensors"))
    unchecked = replace(experiment, training=replace(training, validate_every=None))
    assert train(unchecked).step == 2


@pytest.mark.usefixtures("as_a_user")
def test_recipes_take_ones_own_files_in_place_of_their_corpus(tmp_path: Path) -> None:
    source, target = _pairs(tmp_path)
    run = text_experiment("translation", "looped", source=source, target=target)
    assert run.data.source == (str(source),)  # type: ignore[attr-defined]
    assert run.data.corpus == ()  # type: ignore[attr-defined]
    assert text_data("labels", corpus="dbpedia").corpus == "dbpedia"  # type: ignore[attr-defined]
    for kind in ("translation", "labels"):
        for scale in ("smoke", "short", "paper", "tuned"):
            assert text_experiment(kind, "algoformer", scale).training.validate_every  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="files must name at least one"):
        text_experiment("text")
    with pytest.raises(ValueError, match=r"unknown scale 'smoek' \(did you mean 'smoke'"):
        text_experiment("text", scale="smoek", files="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*presets.PRESETS, *LOOP_MODELS])
def test_the_loss_of_every_named_program_reads_at_most_four_iterations(tmp_path: Path, name: str) -> None:
    text = tmp_path / "words.txt"
    text.write_text("a loop reads its own output again\n" * 400)
    run = Experiment(*named_recipe("text", name, "smoke", files=[str(text)]))
    assert run.training.window <= 4
    short = replace(run.training, steps=1, batch_size=2, validate_every=None)
    data = replace(run.data, tokenize="char", context=8, cache=str(tmp_path / "cache"))  # type: ignore[call-arg]
    trained = train(replace(run, data=data, width=16, training=short))
    assert all(parameter.isfinite().all() for parameter in trained.model.parameters())


@pytest.mark.parametrize("kind", ["text", "labels"])
def test_a_model_to_start_from_brings_its_tokenizer_and_the_data_its_dropout(
    tmp_path: Path, kind: str
) -> None:
    def experiment(rows: list[dict[str, Any]], name: str, **settings: Any) -> Experiment:
        path = tmp_path / f"{name}.csv"
        data: Any
        if kind == "labels":
            files = _table(path, rows, ("text", "label"))
            data = LabelledData(files=files, vocabulary=270, max_length=16, batch_tokens=64, **settings)
        else:
            path.write_text("\n".join(row["text"] for row in rows) * 20)
            sizes = {"vocabulary": 270, "context": 8, "cache": str(tmp_path / "cache")}
            data = TextData(files=path, **sizes, **settings)
        program = programs.looped(steps=2, heads=2, causal=kind == "text")
        size = {"batch_size": 2} if kind == "text" else {}
        training = TrainConfig(steps=1, window=2, **size, lr=1e-9, optimizer="adamw", log_every=1)
        return Experiment(program, data, width=8, training=training)

    train(experiment(ROWS, "first"), tmp_path / "first", tensorboard=False)
    first = load_checkpoint(tmp_path / "first" / "checkpoint.safetensors")
    rows = [{**row, "text": f"the quick brown dog {n}"} for n, row in enumerate(ROWS)]
    second = experiment(rows, "second", dropout=0.25, attention_dropout=0.5)
    own = second.data.known_tokenizer  # type: ignore[attr-defined]
    tokenizer = first.data.known_tokenizer  # type: ignore[union-attr]
    assert len(own) == len(tokenizer)  # so that their difference shows nowhere
    assert own != tokenizer
    run = train(second, tmp_path / "second", initial=first, tensorboard=False)
    stored: Any = load_checkpoint(tmp_path / "second" / "checkpoint.safetensors")
    for model, data in ((run.model, run.experiment.data), (stored.model, stored.data)):
        assert data.known_tokenizer == tokenizer
        assert (model.trunk.dropout, model.trunk.attention_dropout) == (0.25, 0.5)
        assert {layer.dropout for layer in model.modules() if isinstance(layer, Layer)} == {0.25}
    assert stored.data.train_digest == run.experiment.data.text_digest  # type: ignore[attr-defined]
    assert train(second, tmp_path / "second", resume=True).finished
    with pytest.raises(ValueError, match="has another tokenizer than the model to start from; give none"):
        train(replace(second, data=replace(second.data, tokenizer=own)), initial=first)  # type: ignore[type-var]


def test_a_classifier_keeps_its_order_of_classes_when_it_goes_on(tmp_path: Path) -> None:
    files, sizes = _table(tmp_path / "t.csv", ROWS, ("text", "label")), {"max_length": 16, "batch_tokens": 64}
    data = LabelledData(files=files, classes=("pos", "neg"), vocabulary=270, **sizes)
    program = programs.looped(steps=2, heads=2, causal=False)
    training = TrainConfig(steps=4, window=2, log_every=1, checkpoint_every=2)
    experiment = Experiment(program, data, width=8, training=training)
    whole = train(experiment, tmp_path / "whole")
    train(experiment, tmp_path / "cut", max_minutes=1e-9)
    last = train(load_experiment(tmp_path / "cut"), tmp_path / "cut", resume=True)
    assert last.model.labels == whole.model.labels == ("pos", "neg")
    assert same_weights(last.model, whole.model)
