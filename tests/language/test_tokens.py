import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language import LabelledText, ParallelText, Tokenizer
from algoformer.language.tokens import TokenTable, encode_pairs, encode_texts

ROWS = st.lists(st.lists(st.integers(0, 65535), max_size=6), max_size=12)


@given(ROWS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_table_is_a_list_of_lists(rows: list[list[int]], longest: int, random: object) -> None:
    table = TokenTable.of(rows)
    assert [table[i].tolist() for i in range(len(table))] == rows
    assert table.lengths.tolist() == [len(row) for row in rows]
    cut = table.cut(longest)
    assert [cut[i].tolist() for i in range(len(cut))] == [row[:longest] for row in rows]
    chosen = [random.randrange(len(rows)) for _ in range(5)] if rows else []  # type: ignore[attr-defined]
    taken = table.take(chosen)
    assert [taken[i].tolist() for i in range(len(taken))] == [rows[i] for i in chosen]


@pytest.mark.parametrize("token", [-1, 65536])
def test_tokens_fit_two_bytes(token: int) -> None:
    with pytest.raises(ValueError, match=r"tokens must lie in 0\.\.65535"):
        TokenTable.of([[1], [token]])


@pytest.mark.parametrize("offsets", [[0, 3, 1, 2], [1, 2], [0, 1], []])
def test_offsets_are_checked(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets must"):
        TokenTable(ids=np.zeros(2, dtype=np.uint16), offsets=np.array(offsets, dtype=np.int64))


def test_what_training_leaves_out_is_counted_by_reason(tokenizer: Tokenizer) -> None:
    text = ParallelText(
        source=("one", "word " * 50, "a", "two words"),
        target=("eins", "wort", "b " * 12, "zwei worte"),
    )
    pairs = encode_pairs(tokenizer, text, longest=40, ratio=3.0)
    assert [tokenizer.decode(pairs.source[i]) for i in range(len(pairs))] == ["one", "two words"]
    assert pairs.notes == (
        "1 of 4 pairs left out, longer than 40 tokens",
        "1 of 4 pairs left out, one side more than 3.0 times the other",
    )


def test_without_limits_nothing_is_left_out(tokenizer: Tokenizer) -> None:
    text = ParallelText(source=("", "x " * 300), target=("nothing", ""))
    pairs = encode_pairs(tokenizer, text)
    assert (len(pairs), pairs.notes) == (2, ())


def test_long_texts_are_shortened_and_counted(tokenizer: Tokenizer) -> None:
    text = LabelledText(texts=("the soup", "the soup " * 50), labels=(0, 1))
    texts = encode_texts(tokenizer, text, longest=10)
    assert texts.texts.lengths.max() == 10
    assert texts.notes == ("1 of 2 shortened to 10 tokens",)
    assert texts.texts[1].tolist() == tokenizer.encode("the soup " * 50)[:10]
