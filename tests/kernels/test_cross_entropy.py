"""The kernel for cross-entropy is PyTorch's. Without a GPU, Triton's interpreter runs it."""

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels were made for a GPU in this process", allow_module_level=True)

from algoformer.kernels.cross_entropy import cross_entropy_


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [7, 64, 1000])
def test_loss_and_gradient_are_pytorchs(words: int, smoothing: float) -> None:
    numbers = torch.Generator().manual_seed(words)
    scores = 5 * torch.randn(6, words, generator=numbers)
    targets = torch.randint(words, (6,), generator=numbers)
    weights = torch.tensor([0.5, 1.0, 0.0, 2.0, 0.1, 0.3])
    exact = scores.double().requires_grad_()
    expected = F.cross_entropy(exact, targets, label_smoothing=smoothing, reduction="none")
    (gradient,) = torch.autograd.grad((expected * weights).sum(), exact)
    losses = cross_entropy_(scores, targets, weights, smoothing)
    torch.testing.assert_close(losses.double(), expected.detach(), rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(scores.double(), gradient, rtol=2e-6, atol=2e-6)


def test_scores_in_half_precision_are_rounded_once() -> None:
    """The loss is that of the rounded scores, and the gradient is rounded when it is done."""
    numbers = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 50, generator=numbers).bfloat16()
    targets = torch.randint(50, (4,), generator=numbers)
    exact = scores.double().requires_grad_()
    expected = F.cross_entropy(exact, targets, reduction="none")
    (gradient,) = torch.autograd.grad(expected.sum(), exact)
    losses = cross_entropy_(scores, targets, torch.ones(4), 0.0)
    torch.testing.assert_close(losses.double(), expected.detach(), rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(scores, gradient.bfloat16(), rtol=2**-7, atol=0)
