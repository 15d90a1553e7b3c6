"""PyTorch's own transforms of functions and modules work on models of prompts and of tokens."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from algoformer.language import TokenModel
from algoformer.model import presets
from algoformer.model.algoformer import _kept_row_index
from algoformer.prompt import Prompt
from algoformer.trace import Unroll
from tests.model.test_parts import model, prompt

# PyTorch's own: some of its kernels have no batching rule, and its forward mode uses its old compiler
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]
CLOSE = {"rtol": 0, "atol": 1e-10}
IDS = torch.tensor([[1, 4, 2, 7], [3, 3, 0, 5]])


def answers() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The answers of an AlgoFormer as a function of a prompt's rows."""
    built, shown = model(presets.algoformer(heads=2, steps=3)), prompt()

    def function(rows: Tensor) -> Tensor:
        targets = shown.targets[: len(rows)]
        return built(Prompt(rows=rows, targets=targets, reads=shown.reads, parts=2), Unroll(steps=3)).final

    return function, shown.rows


def scores() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The scores of a TokenModel as a function of its embedding."""
    torch.manual_seed(0)
    built = TokenModel(presets.algoformer(heads=2, steps=3), vocabulary=9, context=8, width=8).double()

    def function(embedding: Tensor) -> Tensor:
        return functional_call(built, {"trunk.embedding.weight": embedding}, (IDS,))

    return function, built.trunk.embedding.weight.detach()


MODELS = pytest.mark.parametrize("made", [answers, scores])


def slope(function: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> Tensor:
    """The derivative in a direction by a difference quotient of fourth order."""
    size = 1e-3
    near, far = (
        function(point + step * direction) - function(point - step * direction) for step in (size, 2 * size)
    )
    return (8 * near - far) / (12 * size)


def direction_at(point: Tensor) -> Tensor:
    numbers = torch.Generator().manual_seed(3)
    return 0.1 * torch.randn(point.shape, generator=numbers, dtype=point.dtype)


@MODELS
def test_grad_and_jacrev_are_the_difference_quotient(made: Callable) -> None:
    function, point = made()
    direction = direction_at(point)
    expected = slope(function, point, direction)
    found = grad(lambda values: function(values).square().sum())(point)
    chain = (2 * function(point) * expected).sum()
    torch.testing.assert_close((found * direction).sum(), chain, rtol=1e-6, atol=1e-8)
    jacobian = jacrev(function)(point)
    moved = (jacobian * direction).flatten(expected.ndim).sum(-1)
    torch.testing.assert_close(moved, expected, rtol=1e-6, atol=1e-8)


@MODELS
def test_jvp_and_second_derivatives_work_with_the_math_kernel(made: Callable) -> None:
    """The fused attention kernels of PyTorch have neither; one line chooses the kernel that has."""
    function, point = made()
    direction = direction_at(point)
    with sdpa_kernel(SDPBackend.MATH):
        _, found = jvp(function, (point,), (direction,))
        torch.testing.assert_close(found, slope(function, point, direction), rtol=1e-6, atol=1e-8)

        def loss(values: Tensor) -> Tensor:
            return function(values).square().sum()

        tracked = point.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(tracked), tracked, create_graph=True)
        (second,) = torch.autograd.grad((first * direction).sum(), tracked)
        expected = slope(grad(loss), point, direction)
    torch.testing.assert_close(second, expected, rtol=1e-5, atol=1e-7)


def test_a_hessian_is_the_second_difference_quotient() -> None:
    function, point = scores()

    def loss(scale: Tensor) -> Tensor:
        return function(scale * point).square().sum()

    one, size = torch.ones((), dtype=torch.float64), 1e-3
    with sdpa_kernel(SDPBackend.MATH):
        found = hessian(loss)(one)
    expected = slope(grad(loss), one, size * one) / size
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_vmap_over_prompts_is_the_batch() -> None:
    function, rows = answers()
    each = vmap(lambda one: function(one[None])[0])(rows)
    torch.testing.assert_close(each, function(rows), **CLOSE)


def test_gradients_of_each_prompt_sum_to_that_of_the_batch() -> None:
    built, shown = model(presets.looped(heads=2, steps=3)), prompt()
    weights = {name: weight.detach() for name, weight in built.named_parameters()}

    def loss(weights: dict[str, Tensor], rows: Tensor) -> Tensor:
        given = Prompt(rows=rows[None], targets=shown.targets[:1], reads=shown.reads, parts=2)
        return functional_call(built, weights, (given,)).final.square().sum()

    each = vmap(grad(loss), in_dims=(None, 0))(weights, shown.rows)
    built(shown).final.square().sum().backward()
    for name, weight in built.named_parameters():
        torch.testing.assert_close(each[name].sum(0), weight.grad, **CLOSE)


@pytest.mark.parametrize("kind", ["prompts", "tokens"])
def test_a_deep_copy_is_equal_and_independent(kind: str) -> None:
    built = model(presets.algoformer(heads=2, steps=2))
    if kind == "tokens":
        built = TokenModel(presets.algoformer(heads=2, steps=2), vocabulary=9, context=8, width=8)
    given = prompt() if kind == "prompts" else IDS
    twin = copy.deepcopy(built)
    before = twin(given)
    with torch.no_grad():
        for weight in built.parameters():
            weight.zero_()
    found, expected = (each if kind == "tokens" else each.final for each in (twin(given), before))
    assert torch.equal(found, expected)


def test_an_exported_token_model_gives_the_same_scores() -> None:
    torch.manual_seed(0)
    built = TokenModel(presets.algoformer(heads=2, steps=2), vocabulary=9, context=8, width=8).eval()
    exported = torch.export.export(built, (IDS,)).module()
    other = torch.tensor([[8, 0, 1, 2], [2, 6, 6, 4]])
    torch.testing.assert_close(exported(other), built(other), rtol=0, atol=1e-6)


@pytest.mark.parametrize("first", ["hessian", "export"])
def test_a_model_first_used_inside_a_transform_works_after_it(first: str) -> None:
    """What a forward pass keeps for the next one must not be a tensor of the transform."""
    function, rows = answers()
    expected = function(rows)
    _kept_row_index.cache_clear()
    with sdpa_kernel(SDPBackend.MATH):
        if first == "hessian":
            hessian(lambda scale: function(scale * rows).square().sum())(torch.ones((), dtype=torch.float64))
        else:
            torch.export.export(Called(function), (rows,))
        slope = grad(lambda one: function(one).square().sum())(rows)
    torch.testing.assert_close(function(rows), expected, **CLOSE)
    tracked = rows.clone().requires_grad_()
    function(tracked).square().sum().backward()
    torch.testing.assert_close(slope, tracked.grad, **CLOSE)


class Called(torch.nn.Module):
    """A function as a module, for `torch.export`."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, rows: Tensor) -> Tensor:
        return self.function(rows)
