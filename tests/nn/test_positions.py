import pytest
import torch

from algoformer.nn import LearnedPositions


def test_each_place_gets_its_own_vector_the_same_in_every_sequence() -> None:
    positions = LearnedPositions(context=5, width=3)
    torch.nn.init.normal_(positions.table)
    stream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    for token in range(4):
        torch.testing.assert_close(positions(stream)[:, token], stream[:, token] + positions.table[token])


def test_only_the_places_in_use_get_a_gradient() -> None:
    positions = LearnedPositions(context=5, width=3)
    positions(torch.zeros(2, 4, 3)).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad.tolist() == [[2.0] * 3] * 4 + [[0.0] * 3]


def test_a_sequence_longer_than_the_context_is_refused() -> None:
    with pytest.raises(ValueError, match="6 tokens is longer than the context of 5"):
        LearnedPositions(context=5, width=3)(torch.zeros(1, 6, 3))


def test_positions_can_be_given_for_each_sequence() -> None:
    positions = LearnedPositions(context=5, width=3)
    torch.nn.init.normal_(positions.table)
    positions_of = torch.tensor([[0, 0, 1], [2, 4, 3]])
    found = positions(torch.zeros(2, 3, 3), positions_of)
    for row in range(2):
        for token in range(3):
            assert torch.equal(found[row, token], positions.table[positions_of[row, token]])
