import pytest
import torch

from algoformer.prompt import Prompt
from algoformer.theory import copy
from algoformer.theory.statement import Sizes, count_modules
from algoformer.theory.verify_statements import series_prompts

SIZES = Sizes(dim=3, examples=9, prompts=4)


def shifted(rows: torch.Tensor, back: int) -> torch.Tensor:
    moved = torch.zeros_like(rows)
    moved[:, back:] = rows[:, : rows.shape[1] - back]
    return moved


@pytest.mark.theorem
@pytest.mark.parametrize("order", [1, 2, 5])
def test_every_row_gets_the_rows_before_it_bit_for_bit(order: int) -> None:
    prompt = series_prompts(SIZES, order=order)
    model = copy(dim=3, order=order, length=9, causal=True)
    expected = torch.cat([shifted(prompt.rows, back) for back in range(order, 0, -1)], dim=-1)
    assert torch.equal(model(prompt).final, expected)


@pytest.mark.theorem
def test_full_attention_copies_the_same() -> None:
    prompt = series_prompts(SIZES, order=3)
    model = copy(dim=3, order=3, length=9)
    for point in range(prompt.points):
        assert torch.equal(model(prompt.prefix(point)).final, prompt.targets[:, point : point + 1])


@pytest.mark.theorem
def test_there_are_zeros_before_the_start() -> None:
    rows = torch.ones(1, 2, 1, dtype=torch.float64)
    prompt = Prompt(rows=rows, targets=torch.zeros(1, 2, 4, dtype=torch.float64), reads=(0, 1))
    answers = copy(dim=1, order=4, length=2, causal=True)(prompt).final[0]
    assert answers.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]


@pytest.mark.theorem
@pytest.mark.parametrize("order", [1, 4])
def test_it_is_one_layer_with_a_head_for_each_row(order: int) -> None:
    assert count_modules(copy(dim=2, order=order, length=5)) == {"copy": (1, order)}


def test_a_prompt_longer_than_the_codes_is_refused() -> None:
    with pytest.raises(ValueError, match="the prompt has 9 rows, this model was built for context=8"):
        copy(dim=3, order=2, length=8, causal=True)(series_prompts(SIZES, order=2))
