import contextlib

import pytest
import torch

from algoformer.common.devices import matmul_precision
from training.small import small, stepper


@pytest.mark.parametrize(("name", "inside"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "high")])
def test_products_have_the_precision_asked_for_and_only_inside(name: str, inside: str) -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision(name):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == before


def test_the_precision_is_put_back_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="stop"), matmul_precision("tf32"):
        raise RuntimeError("stop")
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.usefixtures("as_a_user")
def test_prompts_are_drawn_in_full_precision_whatever_the_model_uses() -> None:
    step = stepper(small(precision="bf16"))
    seen = []

    class Task:
        def sample(self, batch: int, **options: object) -> None:
            seen.append(torch.get_float32_matmul_precision())

        def __getattr__(self, name: str) -> object:
            return getattr(step.experiment.task, name)

    step.batches.task = Task()
    with matmul_precision("bf16"), contextlib.suppress(AttributeError):  # what it draws is no prompt
        step.batches.current()
    assert seen == ["highest"]


def test_half_precision_answers_are_close_to_exact_ones() -> None:
    half, exact = stepper(small(precision="bf16")), stepper(small())
    prompt = exact.batches.current().prompt
    rounded, answers = half.solver(prompt, half.unroll), exact.solver(prompt, exact.unroll)
    assert rounded.predictions.dtype == torch.float32
    assert rounded.first_step == answers.first_step
    scale = answers.predictions.abs().max()
    assert 0 < (rounded.predictions - answers.predictions).abs().max() < 0.05 * scale


def test_after_a_step_in_half_precision_the_model_holds_its_own_weights_again() -> None:
    step = stepper(small(precision="bf16"))
    before = list(step.model.parameters())
    step.run(0)
    after = list(step.model.parameters())
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert all(isinstance(weight, torch.nn.Parameter) for weight in after)
