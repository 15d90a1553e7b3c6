import pytest
import torch

from algoformer.prompt import Prompt
from algoformer.tasks import ChainOfThought


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_states_keep_their_scale_through_all_six_layers() -> None:
    prompt = ChainOfThought().sample(1500, generator=seeded(0))
    squares = torch.stack([prompt.part(index).square().mean() for index in range(7)])
    # protocol 3C: 0.99 to 1.06; every layer's random matrix adds a spread of about 1.3 % here
    assert (squares - 1).abs().max().item() < 0.08


def test_each_state_is_a_folded_linear_image_of_the_last() -> None:
    task = ChainOfThought(dim=4, points=20, layers=3, slope=0.2)
    prompt = task.sample(2, generator=seeded(1), dtype=torch.float64)
    problems = task.problems(prompt)
    weights = torch.linalg.lstsq(problems.features[:, :, :8], problems.labels[:, :, :8]).solution
    answers = problems.link(problems.features @ weights)
    for question, (problem, sample) in enumerate(problems.questions):
        torch.testing.assert_close(answers[:, problem, sample], prompt.targets[:, question])


def test_questions_stand_at_every_row_but_the_last_of_a_sample() -> None:
    prompt = ChainOfThought(dim=3, points=4, layers=2).sample(1, generator=seeded(2))
    assert prompt.reads == (0, 1, 3, 4, 6, 7, 9, 10)
    following = [row + 1 for row in prompt.reads]
    assert torch.equal(prompt.rows[:, following], prompt.targets)


def test_a_chain_is_not_read_from_a_prompt_with_other_samples() -> None:
    pairs = Prompt.of_pairs(torch.ones(1, 5, 20), torch.ones(1, 5, 1))
    with pytest.raises(ValueError, match="a chain of layers=6 has samples of 7 rows, got 2"):
        ChainOfThought().problems(pairs)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"points": 0}, "points must be at least 1"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"slope": 0.0}, "slope of a leaky ReLU"),
    ],
)
def test_impossible_tasks_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChainOfThought(**broken)  # type: ignore[arg-type]
