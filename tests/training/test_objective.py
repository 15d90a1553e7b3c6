import pytest
import torch

from algoformer.prompt import Prompt
from algoformer.trace import Trace
from algoformer.training.objective import error_at, window_loss


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
