import copy

import pytest
import torch
from torch import Tensor, nn

from algoformer.common.products import onednn_linear
from algoformer.language import TextClassifier, TokenModel
from algoformer.model import AlgoFormer, Layers, Loop, Program, cost, presets, unrolled_work
from algoformer.model.work import Work
from algoformer.trace import Unroll
from algoformer.training.compiled import compiled_body, compiled_pieces
from tests.model.test_parts import model


class Sine(nn.Linear):
    def forward(self, stream: Tensor) -> Tensor:
        return super().forward(stream).sin()


@pytest.mark.parametrize("name", presets.PRESETS)
def test_untouched_models_can_be_rebuilt(name: str) -> None:
    program = presets.PRESETS[name](heads=2)
    sizes = {"vocabulary": 9, "context": 8, "width": 8}
    assert model(program, blanks=(1, 0)).rebuildable() is None
    assert TokenModel(program, tied=False, dropout=0.1, **sizes).rebuildable() is None
    assert TextClassifier(program, labels=("a", "b"), **sizes).rebuildable() is None


def test_a_module_of_another_class_shape_or_more_is_named() -> None:
    swapped, wide, more = (model(presets.looped(heads=2)) for _ in range(3))
    swapped.read_out = Sine(8, 1)
    assert swapped.rebuildable() == "read_out is a Sine, where the program builds a Linear"
    wide.read_out = nn.Linear(8, 3)
    assert wide.rebuildable() == "read_out.bias has shape (3,), where the program builds (1,)"
    more.extra = nn.Linear(1, 1)
    assert more.rebuildable() == "extra is a module that the program does not build"


def test_another_activation_is_named_and_that_of_a_copy_is_not() -> None:
    swapped = copy.deepcopy(model(presets.standard(1, heads=2)))
    assert swapped.rebuildable() is None
    swapped.body.parts[0].layers[0].feedforward.activation = torch.sin
    assert swapped.rebuildable() == (
        "body.parts.0.layers.0.feedforward.activation is another function than the program builds"
    )


def test_another_number_and_a_replaced_method_are_named() -> None:
    other, replaced = (model(presets.looped(heads=2)) for _ in range(2))
    other.body.parts[0].body.parts[0].layers[0].attention.scale = 3.0
    assert (other.rebuildable() or "").startswith(
        "body.parts.0.body.parts.0.layers.0.attention.scale is 3.0, where the program builds 0.5"
    )
    replaced.body.parts[0].step = lambda state, entry, context: state
    assert replaced.rebuildable() == "body.parts.0.step is a method that was replaced"


@pytest.mark.parametrize("kind", ["body", "pieces"])
def test_a_model_that_an_engine_compiles_can_be_saved_meanwhile(kind: str) -> None:
    training = model(presets.looped(heads=2))
    engine = compiled_body if kind == "body" else compiled_pieces
    with engine(training, backend="eager"):
        assert training.rebuildable() is None
    with onednn_linear(training):
        assert training.rebuildable() is None


@pytest.mark.parametrize("depth", [10, 20, 40])
def test_the_cost_of_nested_loops_takes_work_in_proportion_to_their_depth(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, calls, count = Program(Layers(1, heads=2)), [0], unrolled_work.layers_work
    for _ in range(depth):
        program = Program(Loop(program, 3))

    def counted(*values: object, **named: object) -> Work:
        calls[0] += 1
        return count(*values, **named)

    unrolled_work._once.cache_clear()
    iterations = unrolled_work._iterations

    def counted_loop(*values: object, **named: object) -> Work:
        calls[0] += 1
        return iterations(*values, **named)

    monkeypatch.setattr(unrolled_work, "layers_work", counted)
    monkeypatch.setattr(unrolled_work, "_iterations", counted_loop)
    bill = cost.cost(program, dim=2, out=1, context=4, width=8, unroll=Unroll(steps=2))
    assert bill.work.layers == 2 * 3 ** (depth - 1)
    assert calls[0] <= 8 * (depth + 1)


@pytest.mark.usefixtures("as_a_user")
def test_a_model_of_a_tensor_is_refused_in_one_line() -> None:
    built: AlgoFormer = model(presets.looped(heads=2))
    with pytest.raises(ValueError, match=r"answers a Prompt, got Tensor; make one with Prompt\.of_pairs"):
        built.check(torch.zeros(2, 3, 4))  # type: ignore[arg-type]
