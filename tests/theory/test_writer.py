import pytest
import torch

from algoformer.model.presets import equation_one
from algoformer.nn import Layer
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import Head, LayerWriter

from .written import normal, run

SPACE = Subspaces({"x": (2, ""), "y": (2, "")})


def shape_of(**changes: int) -> Layer:
    sizes = {"width": 4, "heads": 1, "head_width": 2, "hidden": 4} | changes
    width = sizes.pop("width")
    return Layer(equation_one(1, **sizes, causal=True, bias=False).sizes(width)).double()


def written() -> LayerWriter:
    writer = LayerWriter(SPACE)
    read, write = SPACE.read("x"), SPACE.write("y")
    writer.heads.append(Head(query=read, key=read, value=read, output=write))
    return writer.units(up=torch.cat([read, -read]), down=torch.cat([write, -write], dim=1))


def test_an_empty_layer_is_the_identity() -> None:
    stream = normal(2, 3, 4)
    assert torch.equal(run(LayerWriter(SPACE), stream), stream)


def test_loading_forgets_what_the_layer_was_initialized_with() -> None:
    stream = normal(1, 3, 4)
    roomy, tight = shape_of(heads=3, hidden=9, head_width=5), shape_of()
    for layer in (roomy, tight):
        written().load(layer)
    assert torch.allclose(roomy(stream), tight(stream), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "size"), [("heads", 1), ("head_width", 1), ("hidden", 3), ("width", 5), ("width", 3)]
)
def test_a_layer_that_is_too_small_is_refused(name: str, size: int) -> None:
    writer = written()
    if name == "heads":
        writer.heads *= 2
    with pytest.raises(ValueError, match=f"built with {name}={size}"):
        writer.load(shape_of(**{name: size}))


def test_several_subspaces_must_hold_the_value_exactly() -> None:
    assert LayerWriter(SPACE).target(("y", "x"), 4).shape == (4, 4)
    with pytest.raises(ValueError, match="3 numbers do not fit y, x, which hold 4"):
        LayerWriter(SPACE).target(("y", "x"), 3)
