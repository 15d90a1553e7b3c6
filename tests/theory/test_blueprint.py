import copy

import pytest
import torch

from algoformer.model import AlgoFormer
from algoformer.model.presets import algoformer
from algoformer.theory import blueprint_of, gradient_descent
from algoformer.theory.blueprint import row_map
from algoformer.theory.subspace import Subspaces

SPACE = Subspaces({"x": (2, ""), "y": (2, ""), "mark": (1, "")})


def test_a_row_is_written_with_its_mark_and_the_rest_of_it_is_left_out() -> None:
    entry = row_map(SPACE, torch.cat([SPACE.write("y", 1), -SPACE.write("x")], dim=1), dim=4, mark="mark")
    row = torch.tensor([5.0, 6.0, 7.0, 8.0], dtype=torch.float64)
    assert (entry.weight @ row + entry.bias).tolist() == [-6, -7, 5, 0, 1]
    assert not row_map(SPACE, SPACE.write("x")).bias.any()


def test_the_model_is_an_ordinary_algoformer_of_plain_layers() -> None:
    model = gradient_descent(dim=2, examples=4, step_size=0.1)
    assert type(model) is AlgoFormer
    assert model.program.from_json(model.program.to_json()) == model.program


def test_every_layer_says_what_it_writes() -> None:
    model = gradient_descent(dim=2, examples=4, step_size=0.1)
    blueprint = blueprint_of(model)
    assert list(blueprint.modules) == ["pre", "loop", "post"]
    assert all(writer.notes for writers in blueprint.modules.values() for writer in writers)
    assert blueprint.describe().splitlines()[0] == "pre/0  2 heads, 4 hidden units"


def test_the_blueprint_survives_a_copy() -> None:
    model = copy.deepcopy(gradient_descent(dim=2, examples=4, step_size=0.1))
    assert blueprint_of(model).space.names[0] == "x"


def test_a_trained_model_has_no_blueprint() -> None:
    model = AlgoFormer(algoformer(heads=2), dim=2, out=1, context=4, width=8)
    with pytest.raises(ValueError, match="this model was not built by a theorem"):
        blueprint_of(model)
