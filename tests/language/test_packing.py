import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from algoformer.language import LabelledText, ParallelText, Tokenizer
from algoformer.language.packing import PackedText, _digest, pack, unpack
from algoformer.language.tokens import TokenPairs, TokenTexts, encode_pairs, encode_texts
from tests.language.conftest import TEXTS

PAIRS = ParallelText(source=TEXTS[:50], target=TEXTS[50:100])
LABELLED = LabelledText(texts=TEXTS[:30], labels=tuple(i % 4 for i in range(30)))


@pytest.fixture
def packed(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    splits = {"train": encode_pairs(tokenizer, PAIRS, longest=30), "test": encode_pairs(tokenizer, PAIRS)}
    path = tmp_path / "pairs.safetensors"
    pack(path, PackedText(splits=splits, tokenizer=tokenizer, card={"corpus": "ü", "rows": 50}))
    return path


def rewrite(path: Path, *, header: str | None = None, tensors: dict[str, np.ndarray] | None = None) -> None:
    """Change a packed file behind its back, its checksum left as it was."""
    with safe_open(path, framework="np") as file:
        metadata = dict(file.metadata())
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header is not None:
        metadata["algoformer"] = json.dumps(json.loads(metadata["algoformer"]) | {"content": header})
    save_file(found | (tensors or {}), path, metadata=metadata)


def test_text_comes_back_word_for_word(packed: Path, tokenizer: Tokenizer) -> None:
    again = unpack(packed)
    test = again.splits["test"]
    assert isinstance(test, TokenPairs)
    assert tuple(again.tokenizer.decode(test.source[i]) for i in range(len(test))) == PAIRS.source
    assert tuple(again.tokenizer.decode(test.target[i]) for i in range(len(test))) == PAIRS.target
    assert again.tokenizer == tokenizer
    assert again.card == {"corpus": "ü", "rows": 50}
    assert again.splits["train"].notes == encode_pairs(tokenizer, PAIRS, longest=30).notes != ()


def test_labels_come_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "texts.safetensors"
    pack(path, PackedText(splits={"test": encode_texts(tokenizer, LABELLED)}, tokenizer=tokenizer))
    test = unpack(path).splits["test"]
    assert isinstance(test, TokenTexts)
    assert tuple(test.labels.tolist()) == LABELLED.labels
    assert tuple(tokenizer.decode(test.texts[i]) for i in range(len(test))) == LABELLED.texts


def test_a_token_takes_less_than_two_bytes(packed: Path) -> None:
    splits = unpack(packed).splits.values()
    tokens = sum(table.ids.size for split in splits for table in (split.source, split.target))
    with safe_open(packed, framework="np") as file:
        held = sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118
    assert held < 2 * tokens


def with_header(path: Path, **changes: object) -> None:
    """Rewrite a file with another header that its checksum fits."""
    with safe_open(path, framework="np") as file:
        outer = json.loads(file.metadata()["algoformer"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    text = json.dumps(json.loads(outer["content"]) | changes)
    metadata = {"algoformer": json.dumps({"content": text, "sha256": _digest(text, tensors)})}
    save_file(tensors, path, metadata=metadata)


@pytest.mark.parametrize("size", [10**15, -1, 3, "many", 1.5])
def test_a_size_that_is_not_so_is_refused(packed: Path, size: object) -> None:
    with safe_open(packed, framework="np") as file:
        sizes = json.loads(json.loads(file.metadata()["algoformer"])["content"])["sizes"]
    with_header(packed, sizes=sizes | {"test/source/ids": size})
    with pytest.raises(
        ValueError, match=r"test/source/ids' (claims to have|does not have)|it claims to unpack to"
    ):
        unpack(packed)


def test_another_format_is_named_with_what_to_do(packed: Path) -> None:
    with_header(packed, format=1)
    with pytest.raises(ValueError, match="it has format 1, not 2; pack it again"):
        unpack(packed)


def test_the_same_content_is_the_same_file(packed: Path, tmp_path: Path) -> None:
    pack(tmp_path / "again", unpack(packed))
    assert (tmp_path / "again").read_bytes() == packed.read_bytes()


def test_a_changed_token_is_noticed(packed: Path) -> None:
    with safe_open(packed, framework="np") as file:
        column = file.get_tensor("test/source/ids")
    column[7] += 1
    rewrite(packed, tensors={"test/source/ids": column})
    with pytest.raises(ValueError, match="checksum does not fit"):
        unpack(packed)


def test_a_changed_header_is_noticed(packed: Path) -> None:
    rewrite(packed, header=json.dumps({"kind": "packed text"}))
    with pytest.raises(ValueError, match="checksum does not fit"):
        unpack(packed)


def test_a_cut_off_or_foreign_or_missing_file_is_refused(packed: Path, tmp_path: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not packed text, or is cut off"):
        unpack(packed)
    save_file({"a": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(ValueError, match="is not usable packed text"):
        unpack(tmp_path / "foreign")
    with pytest.raises(ValueError, match="does not exist"):
        unpack(tmp_path / "nothing")


def test_a_slash_in_a_name_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must have no slash"):
        pack(tmp_path / "x", PackedText(splits={"a/b": encode_pairs(tokenizer, PAIRS)}, tokenizer=tokenizer))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [1]}, "sizes in its header must be an object"),
        ({"notes": [1]}, "notes in its header must be an object"),
        ({"card": 3}, "card in its header must be an object"),
        ({"notes": {"test": "x"}}, "the notes of split 'test' must be a list of strings"),
        ({"notes": {"other": []}}, "column 'other/source/ids' is missing"),
        ({"tokenizer": {}}, "its header has no tokenizer"),
        ({"sizes": {}}, "its columns are not those that its header lists"),
        ({"format": "A" * 100_000}, "it has format"),
    ],
)
def test_a_header_of_another_shape_is_refused_in_few_words(
    packed: Path, changes: dict[str, object], message: str
) -> None:
    with_header(packed, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        unpack(packed)
    assert len(str(caught.value)) < 400


def test_a_small_file_cannot_claim_gigabytes(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with safe_open(packed, framework="np") as file:
        sizes = json.loads(json.loads(file.metadata()["algoformer"])["content"])["sizes"]
    opened: list[str] = []
    monkeypatch.setattr("algoformer.language.packing._decompressed", lambda name, *_: opened.append(name))
    with_header(packed, sizes=dict.fromkeys(sizes, 2**30))
    with pytest.raises(ValueError, match=r"it claims to unpack to .* more than 100 times its"):
        unpack(packed)
    assert opened == []


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F32"])
def test_columns_of_another_kind_are_refused(tmp_path: Path, kind: str) -> None:
    width = 4 if kind == "F32" else 1
    header = json.dumps({"a": {"dtype": kind, "shape": [2], "data_offsets": [0, 2 * width]}}).encode()
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2 * width))
    with pytest.raises(ValueError, match="'a' is not a row of bytes"):
        unpack(path)
