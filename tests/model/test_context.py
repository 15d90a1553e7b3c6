import pytest
import torch

from algoformer.model.driver import ForwardContext, StateAccess
from algoformer.nn import AttentionContext


def test_causal_and_full_modules_have_masks_of_their_own() -> None:
    causal, full = torch.ones(2, 1, 3, 3, dtype=torch.bool), torch.ones(2, 1, 1, 3, dtype=torch.bool)
    context = ForwardContext(causal_mask=causal, full_mask=full)
    assert context.attention(causal=True) == AttentionContext(mask=causal)
    assert context.attention(causal=False).mask is full


def test_stacked_batches_repeat_masks_and_positions_with_the_step_outermost() -> None:
    positions = torch.tensor([[0, 1], [0, 0]])
    mask = torch.tensor([True, False, True, True, True, True, False, True]).reshape(2, 1, 2, 2)
    three = ForwardContext(positions=positions, causal_mask=mask).stacked(3)
    for step in range(3):
        assert torch.equal(three.positions.unflatten(0, (3, 2))[step], positions)
        assert torch.equal(three.causal_mask.unflatten(0, (3, 2))[step], mask)
    assert three.full_mask is None


def test_a_mask_that_all_sequences_share_is_neither_repeated_nor_selected() -> None:
    mask = torch.ones(1, 1, 2, 2, dtype=torch.bool)
    assert ForwardContext(causal_mask=mask).stacked(3).causal_mask is mask
    assert ForwardContext(causal_mask=mask).select(torch.tensor([1])).causal_mask is mask


def test_selected_sequences_keep_their_own_masks_and_positions() -> None:
    positions, mask = torch.arange(6).reshape(3, 2), torch.rand(3, 1, 2, 2) < 0.5
    some = ForwardContext(positions=positions, full_mask=mask).select(torch.tensor([2, 0]))
    assert some.positions.tolist() == [[4, 5], [0, 1]]
    assert torch.equal(some.full_mask, mask[[2, 0]])


def test_a_cache_holds_one_batch() -> None:
    context = ForwardContext(cache=lambda address: pytest.fail(address))
    assert context.stacked(1) == context
    with pytest.raises(ValueError, match=r"not 2; read out one iteration \(window=1\)"):
        context.stacked(2)


def test_addresses_are_tracked_only_where_something_needs_them() -> None:
    """So that a compiled piece sees the same context at every iteration."""
    plain = ForwardContext(read_rows=torch.tensor([1]))
    assert plain.enter("pre").iteration(3) is plain
    access = ForwardContext(access=StateAccess(keep=frozenset({"loop[3]/0"})), address="loop")
    assert access.iteration(3).enter("0").address == "loop[3]/0"
