import math

import pytest
import torch

from algoformer import programs, tasks
from algoformer.data.objective import FLOOR, error_at, log_loss, window_loss
from algoformer.prompt import Prompt
from algoformer.trace import Trace
from algoformer.training import train
from tests.training.small import small


def _case(steps: int = 3, batch: int = 2, points: int = 4, out: int = 2) -> tuple[Trace, Prompt]:
    generator = torch.Generator().manual_seed(0)
    predictions = torch.randn(steps, batch, points, out, generator=generator)
    targets = torch.randn(batch, points, out, generator=generator)
    prompt = Prompt(rows=torch.zeros(batch, points, 2), targets=targets, reads=tuple(range(points)))
    return Trace(predictions=predictions), prompt


def test_the_window_loss_is_the_mean_over_everything() -> None:
    trace, prompt = _case()
    total = 0.0
    for step in range(3):
        for batch in range(2):
            for point in range(4):
                for out in range(2):
                    difference = (
                        trace.predictions[step, batch, point, out] - prompt.targets[batch, point, out]
                    )
                    total += float(difference) ** 2
    assert window_loss(trace, prompt).item() == pytest.approx(total / (3 * 2 * 4 * 2), rel=1e-6)


def test_weights_make_a_weighted_mean_over_questions() -> None:
    trace, prompt = _case()
    by_question = [(trace.predictions[:, :, i] - prompt.targets[:, i]).square().mean() for i in range(4)]
    weights = torch.tensor([1.0, 0.5, 0.0, 2.0])
    expected = (by_question[0] + 0.5 * by_question[1] + 2 * by_question[3]) / 3.5
    assert window_loss(trace, prompt, weights).item() == pytest.approx(expected.item(), rel=1e-6)


def test_equal_weights_change_nothing() -> None:
    trace, prompt = _case()
    plain = window_loss(trace, prompt).item()
    assert window_loss(trace, prompt, torch.full((4,), 3.0)).item() == pytest.approx(plain, rel=1e-6)


def test_a_window_of_one_step_is_not_divided_by_more() -> None:
    trace, prompt = _case(steps=1)
    expected = (trace.predictions[0] - prompt.targets).square().mean()
    assert window_loss(trace, prompt).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("point", [0, 1, 3])
def test_the_error_at_a_question_is_that_of_the_last_step(point: int) -> None:
    trace, prompt = _case()
    expected = (trace.predictions[-1, :, point] - prompt.targets[:, point]).square().sum(-1).mean()
    assert error_at(trace, prompt, torch.tensor([point])).item() == pytest.approx(expected.item(), rel=1e-6)


def test_half_precision_answers_are_measured_in_single_precision() -> None:
    trace, prompt = _case()
    rounded = Trace(predictions=trace.predictions.bfloat16())
    assert window_loss(rounded, prompt).dtype == torch.float32
    expected = (rounded.predictions.double() - prompt.targets.double()).square().mean()
    assert window_loss(rounded, prompt).item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_log_loss_is_the_mean_logarithm_of_the_errors() -> None:
    trace, prompt = _case()
    total = 0.0
    for step in range(3):
        for point in range(4):
            answers, targets = trace.predictions[step, :, point], prompt.targets[:, point]
            total += math.log(float((answers - targets).square().mean()))
    assert log_loss(trace, prompt).item() == pytest.approx(total / (3 * 4), rel=1e-6)
    weights = torch.tensor([0.0, 0.0, 0.0, 2.0])
    alone = Trace(predictions=trace.predictions[:, :, 3:])
    last = Prompt(rows=prompt.rows[:, 3:], targets=prompt.targets[:, 3:], reads=(0,))
    assert log_loss(trace, prompt, weights).item() == pytest.approx(log_loss(alone, last).item(), rel=1e-6)


def test_its_gradient_is_that_of_each_error_divided_by_it() -> None:
    trace, prompt = _case()
    answers = trace.predictions.requires_grad_()
    (found,) = torch.autograd.grad(log_loss(trace, prompt), answers)
    differences = (answers - prompt.targets).detach()
    errors = differences.square().mean(dim=(1, 3), keepdim=True)
    # an error is a mean over two prompts and two numbers, the loss one over three steps and four questions
    torch.testing.assert_close(found, 2 * differences / (2 * 2) / errors / (3 * 4))


def test_in_other_units_the_log_loss_learns_the_same() -> None:
    trace, prompt = _case()
    large = Prompt(rows=prompt.rows, targets=1000 * prompt.targets, reads=prompt.reads)
    answers = trace.predictions.requires_grad_()
    plain, scaled = log_loss(trace, prompt), log_loss(Trace(predictions=1000 * answers), large)
    assert (scaled - plain).item() == pytest.approx(2 * math.log(1000), rel=1e-5)
    torch.testing.assert_close(torch.autograd.grad(scaled, answers), torch.autograd.grad(plain, answers))


def test_a_small_error_counts_as_much_as_a_large_one() -> None:
    answers = torch.tensor([5.0, 0.01]).reshape(1, 1, 2, 1).requires_grad_()
    prompt = Prompt(rows=torch.zeros(1, 2, 1), targets=torch.zeros(1, 2, 1), reads=(0, 1))
    (found,) = torch.autograd.grad(log_loss(Trace(predictions=answers), prompt), answers)
    relative = (found * answers).flatten()
    torch.testing.assert_close(relative, torch.ones(2))


def test_a_perfect_answer_has_a_log_loss_and_no_gradient() -> None:
    _, prompt = _case(steps=1)
    answers = prompt.targets[None].clone().requires_grad_()
    loss = log_loss(Trace(predictions=answers), prompt)
    assert loss.item() == pytest.approx(math.log(FLOOR), rel=1e-6)
    (found,) = torch.autograd.grad(loss, answers)
    assert not found.any()


def test_parts_of_a_batch_have_the_log_loss_and_together_the_gradient_of_the_whole() -> None:
    trace, prompt = _case(batch=6)
    answers = trace.predictions.requires_grad_()
    whole = log_loss(trace, prompt)
    (expected,) = torch.autograd.grad(whole, answers)
    parts = [slice(0, 3), slice(3, 6)]
    errors = [(answers[:, part] - prompt.targets[part]).square().mean(dim=(1, 3)).detach() for part in parts]
    mean = torch.stack(errors).mean(dim=0)
    losses = [
        log_loss(Trace(predictions=answers[:, part]), prompt.select(part), over_all=lambda _: mean)
        for part in parts
    ]
    assert [loss.item() for loss in losses] == pytest.approx([whole.item()] * 2, rel=1e-6)
    (found,) = torch.autograd.grad(torch.stack(losses).mean(), answers)
    torch.testing.assert_close(found, expected)


def test_the_log_loss_is_not_for_classes() -> None:
    with pytest.raises(ValueError, match="the answers of this task are classes; choose loss='mean'"):
        train(small(programs.looped(steps=3, heads=2), tasks.Parity(), loss="log"))
    matrix = small(programs.looped(steps=3, heads=2, causal=False), tasks.LinearSystem(), loss="log", steps=1)
    assert train(matrix).finished
