"""Lines of text, printed and put together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.lines import by_length, one_line, prepared


@given(st.text())
def test_what_is_printed_for_a_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 7))
def test_groups_alike_in_length_hold_everything_once(lengths: list[int], size: int) -> None:
    groups = list(by_length(lengths, size))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    assert all(len(group) <= size for group in groups)
    ordered = [lengths[place] for group in groups for place in group]
    assert ordered == sorted(ordered)


def test_a_decomposed_letter_is_one_letter_of_a_word() -> None:
    assert prepared("Za\u0308hne, cafe\u0301!", lowercase=True, only_words=True) == "zähne café"
