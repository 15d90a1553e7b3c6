import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.splits import (
    LARGEST_HELD_OUT_GROUP,
    fingerprint,
    hold_out,
    together,
    without_overlap,
)
from algoformer.language.text import Corpus, LabelledText, ParallelText

WORDS = st.text(alphabet="abcÄß.! ", min_size=1, max_size=4)
PAIRS = st.lists(st.tuples(WORDS, WORDS), max_size=40)


def parallel(pairs: list[tuple[str, str]]) -> ParallelText:
    return ParallelText(source=tuple(one for one, _ in pairs), target=tuple(other for _, other in pairs))


def rows(split: ParallelText) -> set[tuple[str, str]]:
    return set(zip(split.source, split.target, strict=True))


@given(PAIRS, st.floats(0.05, 0.95))
def test_no_sentence_of_either_side_is_on_both_sides_of_a_split(
    pairs: list[tuple[str, str]], share: float
) -> None:
    kept, away = hold_out(parallel(pairs), share=share)
    assert sorted(rows(kept) | rows(away)) == sorted(set(pairs))
    assert len(kept) + len(away) == len(pairs)
    for column in range(2):
        one, other = (set(map(fingerprint, split.columns()[column])) for split in (kept, away))
        assert not one & other


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_text_decides_and_not_its_place(pairs: list[tuple[str, str]], random: object) -> None:
    shuffled = pairs.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rows(hold_out(parallel(pairs), share=0.5)[1]) == rows(hold_out(parallel(shuffled), share=0.5)[1])


def test_about_the_asked_share_is_held_out() -> None:
    texts = LabelledText(texts=tuple(f"text number {i}" for i in range(4000)), labels=(0,) * 4000)
    _, away = hold_out(texts, share=0.1)
    # a binomial of 4000 draws: five standard deviations are 5 * sqrt(4000 * 0.1 * 0.9) = 95
    assert abs(len(away) - 400) < 95


def test_a_large_group_of_repeats_stays_in_training() -> None:
    many = LARGEST_HELD_OUT_GROUP + 1
    same = parallel([("ja", f"translation {i}") for i in range(many)])
    for salt in map(str, range(8)):
        assert len(hold_out(same, share=0.9, salt=salt)[1]) == 0


@pytest.mark.parametrize("share", [0, 1, -0.5, float("nan")])
def test_a_share_is_a_share(share: float | int) -> None:
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        hold_out(LabelledText(texts=("a",), labels=(0,)), share=float(share))


def test_what_is_held_out_is_taken_out_of_training_even_if_written_otherwise() -> None:
    train = parallel([("Der Hund.", "The dog."), ("Die Katze.", "The cat."), ("Das Pferd.", "The horse.")])
    test = parallel([("der hund", "A hound!"), ("Eine Katze", "the  cat")])
    kept = without_overlap(train, [test])
    assert (kept.source, len(train) - len(kept)) == (("Das Pferd.",), 2)


def test_source_and_target_are_compared_with_their_own_side_only() -> None:
    train, test = parallel([("Rose", "rose bush")]), parallel([("Busch", "Rose")])
    assert without_overlap(train, [test]) == train


def test_texts_without_a_letter_are_not_all_the_same() -> None:
    assert fingerprint("...") != fingerprint("?!")
    assert fingerprint("Straße 5!") == fingerprint("STRASSE-5")


def corpus(name: str, *splits: list[tuple[str, str]]) -> Corpus[ParallelText]:
    train, valid, test = map(parallel, splits)
    return Corpus(name=name, train=train, valid=valid, test=test, terms=name)


def test_corpora_together_hold_out_what_any_of_them_does() -> None:
    one = corpus("one", [("a", "b"), ("c", "d")], [("e", "f")], [("g", "h")])
    two = corpus("two", [("A!", "b"), ("a", "b"), ("G", "x"), ("i", "F.")], [("c", "k")], [("l", "m")])
    both = together(one, two)
    assert rows(both.train) == {("a", "b"), ("A!", "b")}
    assert len(both.train) == 2
    assert (both.valid, both.test) == (one.valid, one.test)
    assert both.notes == (
        "train: 1 pairs of one, 1 left out, held out elsewhere",
        "train: 2 pairs of two, 2 left out, held out elsewhere",
    )
    assert both.terms == "one; two"


def test_a_changed_corpus_says_so() -> None:
    one = corpus("one", [("A", "B")], [("C", "D")], [("E", "F")])
    lower = one.mapped(str.lower, note="lower case")
    assert (lower.train.source, lower.test.target, lower.notes) == (("a",), ("f",), ("lower case",))
