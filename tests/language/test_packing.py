from pathlib import Path

import pytest
import torch

from algoformer.common.files import read_tensors, write_tensors
from algoformer.language import LabelledText, ParallelText, Tokenizer
from algoformer.language.packing import PackedText, pack, unpack
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


def rewrite(path: Path, header: dict[str, object], tensors: dict[str, torch.Tensor]) -> None:
    """Write a packed file again with other entries and a checksum that fits."""
    found = read_tensors(path, lambda stored, columns: (stored, columns), what="file")
    write_tensors(path, found[0] | header, found[1] | tensors)


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


def test_a_token_takes_two_bytes(packed: Path) -> None:
    splits = unpack(packed).splits.values()
    tokens = sum(table.ids.size for split in splits for table in split.tables().values())
    held = read_tensors(packed, lambda _, columns: columns, what="file")
    assert sum(column.nbytes for name, column in held.items() if name.endswith("ids")) == 2 * tokens


def test_the_same_content_is_the_same_file(packed: Path, tmp_path: Path) -> None:
    pack(tmp_path / "again", unpack(packed))
    assert (tmp_path / "again").read_bytes() == packed.read_bytes()


def test_a_changed_byte_is_noticed(packed: Path) -> None:
    raw = bytearray(packed.read_bytes())
    raw[-7] ^= 1
    packed.write_bytes(raw)
    with pytest.raises(ValueError, match="checksum does not match"):
        unpack(packed)


def test_a_cut_off_or_foreign_or_missing_file_is_refused(packed: Path, tmp_path: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a file of packed text, or is cut off"):
        unpack(packed)
    write_tensors(tmp_path / "other", {"kind": "model"}, {})
    with pytest.raises(ValueError, match="give a file that `pack` wrote"):
        unpack(tmp_path / "other")
    with pytest.raises(ValueError, match="does not exist"):
        unpack(tmp_path / "nothing")


def test_a_slash_in_a_name_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must have no slash"):
        pack(tmp_path / "x", PackedText(splits={"a/b": encode_pairs(tokenizer, PAIRS)}, tokenizer=tokenizer))


@pytest.mark.parametrize(
    ("header", "tensors", "message"),
    [
        ({"notes": [1]}, {}, "must have a tokenizer, notes and a card"),
        ({"card": 3}, {}, "must have a tokenizer, notes and a card"),
        ({"tokenizer": {}}, {}, "must have a tokenizer, notes and a card"),
        ({"notes": {"test": "x" * 10_000}}, {}, "the notes of split 'test' must be a list of strings"),
        ({"notes": {"other": []}}, {}, "column 'other/source/ids' is missing"),
        ({}, {"test/source/ids": torch.zeros(3)}, "column 'test/source/ids' is missing, or not a row of"),
        ({}, {"test/source/offsets": torch.tensor([0, 1])}, "offsets must begin at 0 and end at"),
        ({}, {"test/source/ids": torch.tensor([9999], dtype=torch.uint16)}, "has token 9999"),
    ],
)
def test_damaged_content_is_refused_in_few_words(
    packed: Path, header: dict[str, object], tensors: dict[str, torch.Tensor], message: str
) -> None:
    rewrite(packed, header, tensors)
    with pytest.raises(ValueError, match=message) as caught:
        unpack(packed)
    assert len(str(caught.value)) < 400
