import math

import pytest
import torch

from algoformer.nn import ACTIVATIONS, FeedForward
from algoformer.nn.layers import Layers


def test_gelu_is_gpt2s_tanh_formula() -> None:
    values = torch.linspace(-4, 4, 101, dtype=torch.float64)
    inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
    found = ACTIVATIONS["gelu"].function(values)
    torch.testing.assert_close(found, values / 2 * (1 + inner.tanh()), rtol=0, atol=1e-14)


def test_relu_is_exact() -> None:
    assert ACTIVATIONS["relu"].function(torch.tensor([-2.0, 0.0, 3.0])).tolist() == [0, 0, 3]


@pytest.mark.parametrize("bias", [True, False])
def test_the_network_is_two_products_with_the_activation_between(bias: bool) -> None:
    network = FeedForward(Layers(1, heads=1, hidden=5, activation="relu", bias=bias).sizes(3)).double()
    stream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    middle = stream @ network.up.weight.T + (network.up.bias if bias else 0)
    expected = middle.clamp(min=0) @ network.down.weight.T + (network.down.bias if bias else 0)
    torch.testing.assert_close(network(stream), expected, rtol=0, atol=1e-14)
    assert (network.up.bias is not None) == bias


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_the_network_has_second_derivatives(activation: str) -> None:
    torch.manual_seed(0)
    network = FeedForward(Layers(1, heads=1, hidden=5, activation=activation).sizes(3)).double()
    stream = torch.randn(1, 2, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(network, (stream,))
