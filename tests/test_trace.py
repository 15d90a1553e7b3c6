import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer.trace import Solver, Trace, Unroll, constant_trace, iterated_trace


@given(st.integers(1, 50), st.data())
def test_a_window_is_the_end_of_the_run(steps: int, data: st.DataObject) -> None:
    window = data.draw(st.one_of(st.none(), st.integers(1, steps)))
    unroll = Unroll(steps=steps, window=window)
    assert unroll.length == (window or steps)
    assert unroll.first_step + unroll.length - 1 == steps
    trace = constant_trace(torch.zeros(1, 1, 1), unroll)
    assert trace.steps == tuple(range(unroll.first_step, steps + 1))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 10**30}, "steps must be at most 1000000, got 1000"),
        ({"steps": 5, "window": 6}, r"window must be a whole number in 1\.\.5 \(the steps\), got 6"),
        ({"steps": 5, "window": 0}, "window must be a whole number in"),
        ({"steps": 5, "grad_steps": 6}, r"grad_steps must be a whole number in 0\.\.5 \(the steps\), got 6"),
        ({"steps": 5, "grad_steps": -1}, "grad_steps must be a whole number in"),
    ],
)
def test_an_impossible_unroll_is_refused(asked: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Unroll(**asked)


def test_an_unroll_is_a_value() -> None:
    assert hash(Unroll(steps=3, keep=("pre",))) == hash(Unroll(steps=3, keep=("pre",)))
    assert Unroll(steps=3) != Unroll(steps=3, window=3)
    assert Unroll(steps=3, grad_steps=0).grad_steps == 0


def test_the_final_predictions_are_the_last_ones() -> None:
    predictions = torch.arange(6.0).reshape(3, 2, 1, 1)
    trace = Trace(predictions=predictions, first_step=4)
    assert torch.equal(trace.final, predictions[2])
    assert trace.steps == (4, 5, 6)
    assert trace.iterations is None
    assert not trace.states


@pytest.mark.parametrize(("window", "expected"), [(None, [1, 2, 3, 3, 3]), (3, [3, 3, 3]), (1, [3])])
def test_an_iteration_that_ends_keeps_its_last_answer(window: int | None, expected: list[int]) -> None:
    unroll = Unroll(steps=5, window=window)
    trace = iterated_trace((torch.full((1, 1, 1), float(step)) for step in (1, 2, 3)), unroll)
    assert trace.predictions.flatten().tolist() == expected
    assert trace.steps[-1] == 5
    with pytest.raises(ValueError, match=r"no hidden states, got keep=\('loop\[1\]',\); leave keep empty"):
        iterated_trace([torch.zeros(1, 1, 1)], Unroll(steps=2, keep=("loop[1]",)))


def test_a_constant_trace_says_the_same_at_every_step_and_has_no_states() -> None:
    answer = torch.randn(2, 3, 1, generator=torch.Generator().manual_seed(0))
    trace = constant_trace(answer, Unroll(steps=9, window=4))
    assert trace.predictions.shape == (4, 2, 3, 1)
    assert all(torch.equal(one, answer) for one in trace.predictions)
    with pytest.raises(ValueError, match="no hidden states"):
        constant_trace(answer, Unroll(steps=2, keep=("loop[1]",)))


def test_any_callable_can_be_a_solver() -> None:
    def zero(prompt: object, unroll: Unroll) -> Trace:
        return constant_trace(torch.zeros(1, 1, 1), unroll)

    assert isinstance(zero, Solver)
    assert not isinstance(3, Solver)


def test_a_trace_prints_on_one_line() -> None:
    trace = Trace(
        predictions=torch.zeros(15, 64, 41, 1), first_step=6, states={"loop[3]": torch.zeros(64, 82, 256)}
    )
    assert repr(trace) == (
        "Trace(iterations 6..20, 64 prompts, 41 questions with answers of 1, states loop[3])"
    )
