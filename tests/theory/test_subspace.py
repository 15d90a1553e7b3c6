import pytest
import torch

from algoformer.theory.subspace import Subspaces

SPACE = Subspaces({"x": (3, "input"), "empty": (0, "nothing"), "y": (2, "label")})


def test_subspaces_are_disjoint_and_cover_the_stream() -> None:
    stacked = torch.cat([SPACE.read(name) for name in SPACE.names])
    assert torch.equal(stacked, torch.eye(5, dtype=torch.float64))
    assert SPACE.width == 5


def test_writing_then_reading_gives_back_the_vector_and_nothing_elsewhere() -> None:
    vector = torch.tensor([1.0, 2.0], dtype=torch.float64)
    stream = SPACE.write("y") @ vector
    assert torch.equal(SPACE.read("y") @ stream, vector)
    assert torch.equal(SPACE.read("x") @ stream, torch.zeros(3, dtype=torch.float64))


def test_the_first_coordinates_can_be_read_alone() -> None:
    assert torch.equal(SPACE.read("x", 2), torch.eye(5, dtype=torch.float64)[:2])


def test_the_table_names_every_coordinate_once() -> None:
    assert str(SPACE).splitlines() == ["x  0..2  input", "y  3..4  label"]


def test_positions_stand_in_their_subspaces() -> None:
    parts = {"x": (2, ""), "y": (torch.ones(2, 2), ""), "mark": (torch.tensor([1, 2]), "")}
    space = Subspaces(parts)
    assert [space.size(name) for name in parts] == [2, 2, 1]
    assert space.positions.tolist() == [[0, 0, 1, 1, 1], [0, 0, 1, 1, 2]]
    with pytest.raises(ValueError, match="no subspace is given by positions; give one"):
        _ = SPACE.positions


def test_unknown_names_are_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no subspace is named 'z'; there are x, empty, y"):
        SPACE.read("z")


def test_more_coordinates_than_there_are_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="'y' has 2 coordinates, asked for first=3"):
        SPACE.read("y", 3)


@pytest.mark.parametrize(("width", "words"), [(-1, "negative width, got -1"), (0, "at least one coordinate")])
def test_a_stream_has_a_width(width: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Subspaces({"x": (width, "")})
