import pytest
import torch

from algoformer.problems import Problems, identity, pairs
from algoformer.prompt import Prompt


def prompt(out: int = 1) -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    return Prompt.of_pairs(torch.randn(2, 5, 3, generator=numbers), torch.randn(2, 5, out, generator=numbers))


@pytest.mark.parametrize("out", [1, 3])
def test_pairs_are_one_problem_with_the_rows_as_features(out: int) -> None:
    shown = prompt(out)
    problems = pairs(shown)
    assert problems.features.shape == (2, 1, 5, 3)
    assert problems.labels.shape == (2, 1, 5, out)
    torch.testing.assert_close(problems.features[:, 0], shown.part(0))
    torch.testing.assert_close(problems.labels[:, 0], shown.targets)
    assert problems.questions == tuple((0, sample) for sample in range(5))


def test_labels_come_from_the_rows_and_never_from_the_targets() -> None:
    shown = prompt()
    other = Prompt(rows=shown.rows, targets=shown.targets + 7, reads=shown.reads, parts=2)
    assert torch.equal(pairs(other).labels, pairs(shown).labels)


def test_in_a_prefix_the_last_label_is_not_shown() -> None:
    problems = pairs(prompt().prefix(3))
    assert problems.questions == ((0, 3),)
    assert problems.labels.shape[2] == 4
    assert not problems.labels[:, :, 3].any()
    assert problems.labels[:, :, :3].all()


def test_samples_that_are_not_pairs_are_refused() -> None:
    series = Prompt(rows=torch.zeros(1, 4, 2), targets=torch.zeros(1, 1, 2), reads=(3,))
    with pytest.raises(ValueError, match=r"samples of 1 row\(s\)"):
        pairs(series)


def test_the_default_link_changes_nothing() -> None:
    values = torch.randn(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(identity(values), values)
    problems = Problems(features=torch.zeros(1, 1, 1, 1), labels=torch.zeros(1, 1, 1, 1), questions=((0, 0),))
    assert problems.link is identity
