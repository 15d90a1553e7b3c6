import pytest
import torch

from algoformer.model.visibility import Visibility
from algoformer.nn import Sight


def test_causal_and_full_modules_have_masks_of_their_own() -> None:
    before, around = torch.ones(2, 1, 3, 3, dtype=torch.bool), torch.ones(2, 1, 1, 3, dtype=torch.bool)
    seen = Visibility(before=before, around=around)
    assert seen.at("pre/0", causal=True) == Sight(mask=before)
    assert seen.at("pre/0", causal=False).mask is around


def test_batches_in_one_repeat_what_each_sees_with_the_step_outermost() -> None:
    places = torch.tensor([[0, 1], [0, 0]])
    before = torch.tensor([True, False, True, True, True, True, False, True]).reshape(2, 1, 2, 2)
    three = Visibility(places=places, before=before).stacked(3)
    for step in range(3):
        assert torch.equal(three.places.unflatten(0, (3, 2))[step], places)
        assert torch.equal(three.before.unflatten(0, (3, 2))[step], before)
    assert three.around is None


def test_what_is_the_same_for_all_sequences_is_not_repeated() -> None:
    before = torch.ones(1, 1, 2, 2, dtype=torch.bool)
    assert Visibility(before=before).stacked(3).before is before


def test_a_memory_holds_one_batch() -> None:
    seen = Visibility(memory=lambda address: pytest.fail(address))
    assert seen.stacked(1) is seen
    with pytest.raises(ValueError, match=r"not 2; read one iteration out \(window=1\)"):
        seen.stacked(2)
