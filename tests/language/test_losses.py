"""The streamed loss is softmax cross-entropy on all scores at once."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from algoformer import Unroll
from algoformer.language import window_cross_entropy
from algoformer.language.losses import exit_cross_entropy, step_weights_of, target_positions
from tests.language.small_models import PROGRAMS, VOCABULARY, padded, token_model

STEPS, BATCH, TOKENS, WIDTH = 3, 4, 6, 5


def batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(0)
    states = torch.randn(STEPS, BATCH, TOKENS, WIDTH, generator=numbers, dtype=dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, generator=numbers, dtype=dtype).requires_grad_()
    targets = torch.randint(VOCABULARY, (BATCH, TOKENS), generator=numbers)
    asked = torch.rand(BATCH, TOKENS, generator=numbers) < 0.6
    return states, weight, targets, asked


def reference(states: Tensor, weight: Tensor, targets: Tensor, asked: Tensor, smoothing: float) -> Tensor:
    """PyTorch's own, on all scores: a mean over steps of means over the tokens asked about."""
    by_step = [
        F.cross_entropy(step[asked] @ weight.T, targets[asked], label_smoothing=smoothing) for step in states
    ]
    return torch.stack(by_step)


@pytest.mark.parametrize("multiple", [None, 1, 32])
@pytest.mark.parametrize("rows", [1, 4, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradient_are_pytorchs_on_all_scores(
    smoothing: float, rows: int, multiple: int | None
) -> None:
    states, weight, targets, asked = batch()
    expected = reference(states, weight, targets, asked, smoothing)
    gradients = torch.autograd.grad(3 * expected.mean(), (states, weight))
    targets = targets.masked_fill(~asked, -100)  # what is not asked about may be anything
    wanted = asked if multiple is None else target_positions(asked, multiple=multiple)
    found = window_cross_entropy(states, weight, targets, wanted, smoothing=smoothing, rows=rows)
    torch.testing.assert_close(found.by_step, expected.detach(), rtol=0, atol=1e-13)
    torch.testing.assert_close(found.mean, expected.mean(), rtol=0, atol=1e-13)
    for one, other in zip(torch.autograd.grad(3 * found.mean, (states, weight)), gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("masked", [False, True])
def test_weights_of_steps_count_and_learn(masked: bool) -> None:
    states, weight, targets, asked = batch()
    chosen = asked if masked else torch.ones_like(asked)
    shares = torch.rand(STEPS, BATCH, TOKENS, generator=torch.Generator().manual_seed(1)).double()
    shares.requires_grad_()
    scores = states @ weight.T
    each = torch.stack([F.cross_entropy(one.transpose(1, 2), targets, reduction="none") for one in scores])
    expected = (each * shares)[:, chosen].sum(dim=0).mean()
    mask = asked if masked else None
    found = window_cross_entropy(states, weight, targets, mask, step_weights=shares, rows=4)
    torch.testing.assert_close(found.mean, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(found.by_target, each[:, chosen].detach(), rtol=0, atol=1e-13)
    given = (states, weight, shares)
    for one, other in zip(
        torch.autograd.grad(found.mean, given), torch.autograd.grad(expected, given), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_gradients_of_the_exit_loss_are_those_of_differences() -> None:
    states, weight, targets, asked = batch()
    gates = torch.randn(STEPS, BATCH, TOKENS, generator=torch.Generator().manual_seed(2)).double()
    gates.requires_grad_()

    def loss(states: Tensor, gates: Tensor, weight: Tensor) -> Tensor:
        return exit_cross_entropy(states, gates, weight, targets, asked, exit_entropy=0.3, smoothing=0.1).mean

    assert torch.autograd.gradcheck(loss, (states, gates, weight))


@pytest.mark.parametrize("shares", [(0.0, 0.0, 1.0), (0.5, 0.1, 0.4)])
def test_steps_count_as_much_as_their_shares(shares: tuple[float, ...]) -> None:
    states, weight, targets, asked = batch()
    expected = reference(states, weight, targets, asked, 0.1)
    whole = (torch.tensor(shares) * expected).sum()
    weights = step_weights_of(shares, targets)
    found = window_cross_entropy(states, weight, targets, asked, smoothing=0.1, rows=4, step_weights=weights)
    torch.testing.assert_close(found.by_step, expected.detach(), rtol=0, atol=1e-13)
    torch.testing.assert_close(found.mean, whole, rtol=0, atol=1e-7)
    gradients = torch.autograd.grad(whole, (states, weight))
    for one, other in zip(torch.autograd.grad(found.mean, (states, weight)), gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


@pytest.mark.parametrize("order", [(2, 0, 1, 3), (2, 3, 0, 1)])
def test_states_may_lie_in_memory_in_any_order(order: tuple[int, ...]) -> None:
    states, weight, targets, _ = batch()
    states, targets = states[:, :1], targets[:1]  # of one sequence: its tokens are its rows as they lie
    inverse = [order.index(place) for place in range(4)]
    lying = states.detach().permute(order).contiguous().permute(inverse).requires_grad_()
    assert not lying.is_contiguous()
    expected = reference(states, weight, targets, torch.ones_like(targets, dtype=torch.bool), 0.1).mean()
    found = window_cross_entropy(lying, weight, targets, smoothing=0.1, rows=4).mean
    (wanted,) = torch.autograd.grad(expected, states)
    torch.testing.assert_close(torch.autograd.grad(found, lying)[0], wanted, rtol=0, atol=1e-13)


def test_the_gradient_of_a_tied_model_is_that_of_its_scores() -> None:
    """Through the whole model, where the embedding is also the map to scores."""
    model = token_model(PROGRAMS["algoformer"], double=True)
    ids, real = padded((6, 4), "right")
    targets, unroll = ids.roll(-1, dims=1), Unroll(steps=4, window=3)
    scores = model(ids, unroll)[:, real]
    expected = F.cross_entropy(scores.flatten(0, 1), targets[real].repeat(3), label_smoothing=0.1)
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    found = window_cross_entropy(
        model.states(ids, unroll), model.output_weight, targets, real, smoothing=0.1, rows=5
    )
    found.mean.backward()
    torch.testing.assert_close(found.mean, expected, rtol=0, atol=1e-12)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=0, atol=1e-12)


def test_only_a_few_rows_of_scores_exist_at_a_time() -> None:
    """The largest tensor made on the way is rows × vocabulary, not step × batch × token × vocabulary."""
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            for value in result if isinstance(result, tuple) else (result,):
                if isinstance(value, Tensor):
                    largest = max(largest, value.numel())
            return result

    numbers = torch.Generator().manual_seed(0)
    states = torch.randn(4, 8, 16, 2, generator=numbers).requires_grad_()
    weight = torch.randn(1000, 2, generator=numbers).requires_grad_()
    targets = torch.randint(1000, (8, 16), generator=numbers)
    with Watch():
        window_cross_entropy(states, weight, targets, rows=10).mean.backward()
    assert largest == 10 * 1000


def test_under_autocast_products_are_rounded_and_sums_are_not() -> None:
    states, weight, targets, asked = batch(torch.float32)
    expected = reference(states, weight, targets, asked, 0.1)
    gradients = torch.autograd.grad(expected.mean(), (states, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = window_cross_entropy(states, weight, targets, asked, smoothing=0.1)
    assert found.mean.dtype == torch.float32
    torch.testing.assert_close(found.mean, expected.mean(), rtol=0.01, atol=0.01)
    for one, other in zip(torch.autograd.grad(found.mean, (states, weight)), gradients, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.01)


def test_impossible_losses_are_refused() -> None:
    states, weight, targets, asked = batch()
    with pytest.raises(ValueError, match=r"smoothing must be at least 0 and below 1, got 1"):
        window_cross_entropy(states, weight, targets, smoothing=1)
    with pytest.raises(ValueError, match="the loss has no token: target_mask is false everywhere"):
        window_cross_entropy(states, weight, targets, asked & False)
    with pytest.raises(ValueError, match="multiple must be at least 1, got 0"):
        target_positions(asked, multiple=0)
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        window_cross_entropy(states, weight, targets, rows=0)
