"""Linear layers by oneDNN give what PyTorch's own give, and never where derivatives are wanted."""

import pytest
import torch
from torch import nn

from algoformer.common.products import has_onednn, onednn_linear, onednn_product


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 24), (3, 24), (40, 24), (2, 5, 24), (0, 24)])
def test_products_are_those_of_pytorch(shape: tuple[int, ...], bias: bool, packed: bool) -> None:
    torch.manual_seed(0)
    layer, stream = nn.Linear(24, 17, bias=bias), torch.randn(shape)
    with torch.no_grad():
        expected = (stream.double() @ layer.weight.double().T).float()
        expected = expected + layer.bias if bias else expected
        with onednn_linear(layer, packed=packed):
            torch.testing.assert_close(layer(stream), expected, rtol=1e-5, atol=1e-5)


def test_streams_need_not_lie_in_one_piece() -> None:
    layer, stream = nn.Linear(24, 17), torch.randn(5, 9, 24).transpose(0, 1)
    with torch.no_grad(), onednn_linear(layer):
        torch.testing.assert_close(layer(stream), layer(stream.contiguous()), rtol=0, atol=1e-6)


def test_derivatives_are_those_of_pytorch() -> None:
    """oneDNN's operator has no derivative: forward mode would silently give zeros."""
    layer, stream, tangent = nn.Linear(24, 17), torch.randn(8, 24), torch.randn(8, 24)
    expected = tangent @ layer.weight.detach().T
    with onednn_linear(layer):
        with torch.no_grad():
            _, found = torch.func.jvp(layer, (stream,), (tangent,))
            together = torch.func.vmap(layer)(stream)
        layer(stream).sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(together, layer(stream).detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.weight.grad[0], stream.sum(0), rtol=1e-5, atol=1e-5)


def test_other_precisions_other_layers_and_other_peoples_changes_are_left_alone() -> None:
    class Mine(nn.Linear):
        pass

    def own(stream: torch.Tensor) -> torch.Tensor:
        return stream

    module = nn.Sequential(nn.Linear(4, 4, dtype=torch.float64), Mine(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    module[2].forward = own
    with onednn_linear(module):
        replaced = ["forward" in vars(layer) for layer in module]
        assert module[2].forward is own
    assert replaced == [False, False, True, has_onednn()]
    assert ["forward" in vars(layer) for layer in module] == [False, False, True, False]
    assert onednn_product(torch.zeros(2, 2, dtype=torch.bfloat16)) is None
    assert onednn_product(torch.zeros(2, 2, device="meta")) is None


def test_an_error_inside_restores_the_layers() -> None:
    layer = nn.Linear(4, 4)
    with pytest.raises(KeyError), onednn_linear(layer):
        raise KeyError
    assert "forward" not in vars(layer)


@pytest.mark.skipif(not has_onednn(), reason="this PyTorch has no oneDNN")
def test_packed_weights_are_a_copy() -> None:
    layer, stream = nn.Linear(4, 4, bias=False), torch.randn(8, 4)
    with torch.no_grad():
        before = layer(stream)
        with onednn_linear(layer, packed=True):
            layer.weight.zero_()
            torch.testing.assert_close(layer(stream), before, rtol=1e-5, atol=1e-6)
        with onednn_linear(layer):
            layer.weight.zero_()
            assert not layer(stream).any()
