import torch

from algoformer.model.algoformer import ReadIn


def rows(count: int = 5) -> torch.Tensor:
    return torch.randn(2, count, 3, generator=torch.Generator().manual_seed(0))


def test_one_map_serves_all_rows() -> None:
    read_in = ReadIn(dim=3, width=4)
    linear = read_in.maps[0]
    torch.testing.assert_close(read_in(rows()), rows() @ linear.weight.T + linear.bias)


def test_each_kind_of_row_has_its_map_also_in_a_sample_cut_short() -> None:
    read_in = ReadIn(dim=3, width=4, maps=2)
    tokens = read_in(rows(5))
    for row in range(5):
        linear = read_in.maps[row % 2]
        torch.testing.assert_close(tokens[:, row], rows(5)[:, row] @ linear.weight.T + linear.bias)


def test_blank_tokens_are_zero_and_stand_around_the_rows() -> None:
    read_in = ReadIn(dim=3, width=4, maps=2, blanks=(2, 1))
    tokens = read_in(rows())
    assert tokens.shape == (2, 8, 4)
    assert not tokens[:, :2].any()
    assert not tokens[:, -1].any()
    torch.testing.assert_close(tokens[:, 2:-1, :][:, 1], read_in.maps[1](rows()[:, 1]))


def test_every_map_learns() -> None:
    read_in = ReadIn(dim=3, width=4, maps=2)
    read_in(rows()).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in read_in.parameters())
