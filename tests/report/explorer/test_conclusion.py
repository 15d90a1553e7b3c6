import pytest

from algoformer.evaluation import Curve, Evaluation
from algoformer.report.explorer import conclusion, puzzle_conclusion, theorem_conclusion


def measured(label: str, *errors: float, prompts: int = 64, unsolved: tuple[float, ...] = ()) -> Evaluation:
    def curve(axis: str, values: tuple[float, ...]) -> Curve:
        steps = tuple(float(step) for step in range(1, len(values) + 1))
        return Curve(label=label, axis=axis, x=steps, error=values, low=values, high=values)

    return Evaluation(
        label=label,
        by_sample=curve("samples", errors[-1:]),
        by_step=curve("iterations", errors),
        steps=len(errors),
        prompts=prompts,
        scale=1.0,
        against="clean",
        unsolved=curve("iterations", unsolved) if unsolved else None,
    )


def test_the_conclusion_sets_the_loop_beside_as_many_textbook_steps() -> None:
    model, descent = measured("model", 0.9, 0.1, 0.002), measured("gradient descent", 0.8, 0.3, 0.07)
    text = conclusion(model, [descent], trained=3, looping=True, examples=10)
    assert text == (
        "On 64 new prompts with 10 examples the loop brings the mean squared error from 0.900 after one "
        "iteration to 0.00200 after 3. Errors after as many steps: gradient descent 0.0700."
    )


def test_the_conclusion_says_whether_the_answer_holds_beyond_the_trained_depth() -> None:
    settings = {"trained": 2, "looping": True, "examples": 4}
    holds = conclusion(measured("model", 0.9, 0.1, 0.11), [], **settings)
    assert holds.endswith("After 3 iterations the loop's error is 0.110: the answer holds.")
    drifts = conclusion(measured("model", 0.9, 0.1, 0.2), [], **settings)
    assert drifts.endswith("After 3 iterations the loop's error is 0.200: the loop drifts.")
    broken = conclusion(measured("model", 0.9, 0.1, float("nan")), [], **settings)
    assert broken.endswith("After 3 iterations the loop's error is NaN: the loop drifts.")


@pytest.mark.parametrize("error", [1.2, float("nan")])
def test_a_model_that_has_not_learned_is_said_not_to_have(error: float) -> None:
    text = conclusion(measured("model", 1.2, error), [], trained=2, looping=True, examples=4)
    assert "this model has not learned the task" in text
    assert "holds" not in text


def test_a_loop_that_is_measured_before_its_trained_depth_is_not_judged_by_it() -> None:
    settings = {"trained": 6, "looping": True, "examples": 4}
    text = conclusion(measured("model", 1.2, 0.1), [], **settings)
    assert text.endswith("from 1.20 after one iteration to 0.100 after 2.")
    text = conclusion(measured("model", 1.2, 1.1), [], **settings)
    assert text == (
        "On 64 new prompts with 4 examples this model was stopped after 2 of 6 steps: "
        "its mean squared error is 1.10, and always answering 0 costs about 1."
    )
    boards = measured("model", 0.5, 0.1, unsolved=(1.0, 0.25))
    assert "and 75 % after 2." in puzzle_conclusion(boards, [], trained=6, looping=True)


def test_a_model_without_a_loop_is_not_said_to_iterate() -> None:
    model, newton = measured("model", 0.3, prompts=1), measured("Newton's method", 0.5)
    text = conclusion(model, [newton], trained=1, looping=False, examples=1)
    assert text == (
        "On one new prompt with 1 example this model's mean squared error is 0.300; "
        "after 1 step Newton's method 0.500."
    )


def test_a_theorem_says_how_far_it_is_from_its_textbook() -> None:
    text = theorem_conclusion("Newton's method", 1e-9, steps=20, prompts=8)
    assert "each iteration of its loop is one step of Newton's method" in text
    assert text.endswith(
        "On 8 prompts and 20 iterations the largest difference from the textbook is 1.00e-9."
    )


def test_the_conclusion_about_a_puzzle_counts_solved_prompts() -> None:
    model = measured("model", 0.5, 0.1, 0.1, unsolved=(1.0, 0.25, 0.25))
    textbook = measured("propagation", 0.9, 0.6, 0.0, unsolved=(1.0, 0.75, 0.0))
    text = puzzle_conclusion(model, [textbook], trained=2, looping=True)
    assert "the loop solves 0 % after one iteration and 75 % after 2" in text
    assert "after as many iterations propagation solves 25 %" in text
    assert "After 3 iterations it solves 75 %: the answer holds." in text
    drifts = measured("model", 0.5, 0.1, 0.1, unsolved=(1.0, 0.25, 0.5))
    assert "the loop drifts" in puzzle_conclusion(drifts, [], trained=2, looping=True)
    unlearned = measured("model", 0.9, 0.9, 0.9, unsolved=(1.0, 1.0, 1.0))
    assert "holds" not in puzzle_conclusion(unlearned, [], trained=2, looping=True)
    alone = puzzle_conclusion(model, [], trained=2, looping=False)
    assert alone.startswith("On 64 new prompts the model solves 75 %. A prompt")


def test_prompts_without_examples_are_not_said_to_have_some() -> None:
    text = conclusion(measured("model", 0.9, 0.1), [], trained=2, looping=True, examples=None)
    assert text.startswith("On 64 new prompts the loop brings")
