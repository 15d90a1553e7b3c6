import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from algoformer.nn import ACTIVATIONS, FeedForward
from algoformer.nn.feedforward import gelu


def test_gelu_is_gpt2s_tanh_formula() -> None:
    values = torch.linspace(-4, 4, 101, dtype=torch.float64)
    inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
    torch.testing.assert_close(
        ACTIVATIONS["gelu"](values), values / 2 * (1 + inner.tanh()), rtol=0, atol=1e-14
    )


def test_relu_is_exact() -> None:
    assert ACTIVATIONS["relu"](torch.tensor([-2.0, 0.0, 3.0])).tolist() == [0, 0, 3]


@pytest.mark.parametrize("bias", [True, False])
def test_the_network_is_two_products_with_the_activation_between(bias: bool) -> None:
    network = FeedForward(width=3, hidden=5, activation="relu", bias=bias).double()
    stream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    middle = stream @ network.up.weight.T + (network.up.bias if bias else 0)
    expected = middle.clamp(min=0) @ network.down.weight.T + (network.down.bias if bias else 0)
    torch.testing.assert_close(network(stream), expected, rtol=0, atol=1e-14)
    assert (network.up.bias is not None) == bias


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gelu_and_its_slope_are_pytorchs(dtype: torch.dtype) -> None:
    values = torch.linspace(-30, 30, 3001, dtype=torch.float64).to(dtype).requires_grad_()
    exact = values.detach().double().requires_grad_()
    expected = F.gelu(exact, approximate="tanh")
    found = gelu(values)
    assert found.dtype == dtype
    expected.sum().backward()
    found.sum().backward()
    # both slopes multiply the rounding of 1 - σ by up to 50, at the x where σ comes to be 1
    close = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 100 * torch.finfo(dtype).eps}
    torch.testing.assert_close(found.double(), expected, **close)
    assert values.grad is not None
    torch.testing.assert_close(values.grad.double(), exact.grad, **close)
    with torch.no_grad():
        assert torch.equal(gelu(values), found)


def test_a_second_derivative_is_refused_and_never_wrong() -> None:
    """Also where the gradient that arrives is a constant, and nothing would be missed on the way."""
    network = FeedForward(width=3, hidden=5, activation="gelu").double()
    stream = torch.randn(1, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    stream = stream.requires_grad_()
    with pytest.raises(RuntimeError, match="differentiated once only"):
        torch.autograd.grad(network(stream).sum(), stream, create_graph=True)
    network.activation = partial(F.gelu, approximate="tanh")
    assert torch.autograd.gradgradcheck(network, (stream,))


def test_gelu_of_huge_numbers_stays_a_number() -> None:
    values = torch.tensor([-1e15, -200.0, 0.0, 200.0, 1e15], requires_grad=True)
    found = gelu(values)
    found.sum().backward()
    assert found.tolist() == [0.0, 0.0, 0.0, 200.0, pytest.approx(1e15)]
    assert values.grad is not None
    assert values.grad.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
