from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.batches import (
    BatchPlan,
    source_batch,
    text_batch,
    translation_batch,
)
from algoformer.language.tokenizer import EOS, PAD, TRANSLATE
from algoformer.language.tokens import TokenPairs, TokenTable

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=200).map(lambda found: np.array(found))
PAIRS = TokenPairs(
    source=TokenTable.of([[10, 11, 12], [13], []]), target=TokenTable.of([[20, 21], [22, 23, 24], [25]])
)


def everything(plan: BatchPlan, epoch: int) -> list[list[int]]:
    numbers = range(epoch * len(plan), (epoch + 1) * len(plan))
    return [plan.rows(number)[1].tolist() for number in numbers]


@given(LENGTHS, st.integers(48, 300), st.sampled_from([1, 8, 16]), st.integers(0, 3), st.integers(0, 4))
def test_every_epoch_has_every_row_once_within_the_batch_tokens(
    lengths: np.ndarray, batch_tokens: int, multiple: int, seed: int, epoch: int
) -> None:
    plan = BatchPlan(lengths=lengths, batch_tokens=batch_tokens, pad_to_multiple_of=multiple, seed=seed)
    assert sorted(chain.from_iterable(everything(plan, epoch))) == list(range(len(lengths)))
    for number in range(epoch * len(plan), (epoch + 1) * len(plan)):
        length, rows = plan.rows(number)
        assert length % multiple == 0
        assert length * len(rows) <= batch_tokens
        assert lengths[rows].max() <= length


@given(LENGTHS, st.integers(48, 300))
def test_only_one_batch_of_an_epoch_has_another_shape(lengths: np.ndarray, batch_tokens: int) -> None:
    plan = BatchPlan(lengths=lengths, batch_tokens=batch_tokens)
    odd = [1 for length, rows in plan if (len(rows), length) not in plan.shapes]
    assert len(odd) <= 1
    filled = BatchPlan(lengths=lengths, batch_tokens=batch_tokens, fill=True)
    assert all((len(rows), length) in filled.shapes for length, rows in filled)
    assert set().union(*(rows.tolist() for _, rows in filled)) == set(range(len(lengths)))


@given(LENGTHS, st.integers(48, 300), st.integers(0, 50))
def test_any_batch_is_found_without_those_before_it(
    lengths: np.ndarray, batch_tokens: int, number: int
) -> None:
    walked, fresh = (BatchPlan(lengths=lengths, batch_tokens=batch_tokens, seed=5) for _ in range(2))
    for before in range(number):
        walked.rows(before)
    assert walked.rows(number)[1].tolist() == fresh.rows(number)[1].tolist()


def test_epochs_and_seeds_shuffle_differently() -> None:
    lengths = np.full(64, 8)
    plan = BatchPlan(lengths=lengths, batch_tokens=64)
    assert everything(plan, 0) != everything(plan, 1)
    assert everything(plan, 0) != everything(BatchPlan(lengths=lengths, batch_tokens=64, seed=1), 0)
    assert everything(plan, 1) == everything(BatchPlan(lengths=lengths, batch_tokens=64), 1)


def test_rows_and_batches_are_shuffled_evenly() -> None:
    """Over many epochs every row meets every place about as often as any other."""
    plan = BatchPlan(lengths=np.full(10, 4), batch_tokens=40, pad_to_multiple_of=4)
    places = np.zeros((10, 10))
    for epoch in range(2000):
        for place, row in enumerate(everything(plan, epoch)[0]):
            places[row, place] += 1
    # a binomial of 2000 draws with p = 0.1: five standard deviations are 5 * sqrt(2000 * 0.1 * 0.9) = 67
    assert np.abs(places - 200).max() < 67


def test_without_a_seed_rows_keep_their_order() -> None:
    plan = BatchPlan(lengths=np.array([20, 3, 9, 4]), batch_tokens=48, seed=None)
    # two of length 8 do not fill a batch of six, so they move on to length 16, where three do
    assert [rows.tolist() for _, rows in plan] == [[1, 3, 2], [0]]
    assert everything(plan, 0) == everything(plan, 7)


def test_padding_is_what_is_not_a_token() -> None:
    plan = BatchPlan(lengths=np.array([8, 4]), batch_tokens=16)
    assert plan.padding() == pytest.approx(1 - 12 / 16)


def test_a_batch_tokens_holds_the_longest_row() -> None:
    with pytest.raises(
        ValueError, match="batch_tokens must hold the longest sequence, 24 tokens with padding, got 20"
    ):
        BatchPlan(lengths=np.array([17]), batch_tokens=20)
    with pytest.raises(ValueError, match="no rows"):
        BatchPlan(lengths=np.array([], dtype=np.int64), batch_tokens=20)
    with pytest.raises(ValueError, match="counted from 0"):
        BatchPlan(lengths=np.array([3]), batch_tokens=20).rows(-1)


def test_a_pair_is_source_mark_and_translation_and_only_the_translation_counts() -> None:
    batch = translation_batch(PAIRS, np.array([0, 1, 2]), length=8)
    assert batch.ids.tolist() == [
        [10, 11, 12, TRANSLATE, 20, 21, PAD, PAD],
        [13, TRANSLATE, 22, 23, 24, PAD, PAD, PAD],
        [TRANSLATE, 25, PAD, PAD, PAD, PAD, PAD, PAD],
    ]
    assert batch.prefix.tolist() == [4, 2, 1]
    assert batch.mask.sum(dim=1).tolist() == [6, 5, 2]
    counted = [row[mask].tolist() for row, mask in zip(batch.targets, batch.loss_mask, strict=True)]
    assert counted == [[20, 21, EOS], [22, 23, 24, EOS], [25, EOS]]
    # what is predicted at a place is what the model reads at the next one
    following = batch.mask[:, 1:]
    assert torch.equal(batch.targets[:, :-1][following], batch.ids[:, 1:][following])


def test_a_plan_counts_the_very_tokens_of_a_batch() -> None:
    plan = BatchPlan(lengths=PAIRS.lengths, batch_tokens=64, pad_to_multiple_of=2, seed=None)
    for length, rows in plan:
        batch = translation_batch(PAIRS, rows, length=length)
        assert batch.mask.sum(dim=1).tolist() == plan.lengths[rows].tolist()


def test_sources_end_with_the_mark() -> None:
    batch = source_batch(PAIRS.source, np.array([1, 2]))
    assert batch.ids.tolist() == [[13, TRANSLATE], [TRANSLATE, PAD]]
    assert batch.mask.tolist() == [[True, True], [True, False]]


def test_every_text_has_something_to_pool_over() -> None:
    batch = text_batch(TokenTable.of([[5, 6], [], [7]]), np.array([2, 1, 0]), length=4)
    assert batch.ids.tolist() == [[7, PAD, PAD, PAD], [EOS, PAD, PAD, PAD], [5, 6, PAD, PAD]]
    assert batch.mask.sum(dim=1).tolist() == [1, 1, 2]
    assert batch.to("cpu").ids.tolist() == batch.ids.tolist()


def test_too_short_a_length_is_refused() -> None:
    with pytest.raises(ValueError, match="6 tokens, more than the length 5"):
        translation_batch(PAIRS, np.array([0]), length=5)
