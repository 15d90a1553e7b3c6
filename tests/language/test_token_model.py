"""A token model is its program between an embedding and scores."""

import pytest
import torch
from hypothesis import given, settings

from algoformer import AlgoFormer, Layers, Loop, Parallel, Program, Unroll, programs
from algoformer.language import TokenModel
from algoformer.language.trunk import ends_with_norm, positions_of
from algoformer.prompt import Prompt
from tests.language.small_models import PROGRAMS, VOCABULARY, alone, padded, token_model
from tests.random_programs import programs as random_programs

SINGLE = {"rtol": 0, "atol": 1e-5}


@pytest.mark.parametrize("tied", [True, False])
def test_scores_are_embedding_program_projection(tied: bool) -> None:
    model = token_model(PROGRAMS["algoformer"], tied=tied)
    ids, unroll = padded((5, 5), "right")[0], Unroll(steps=6, window=2)
    stream = model.trunk.embedding.weight[ids]
    states, _ = model.trunk.body.unroll(stream, unroll)
    weight = model.trunk.embedding.weight if tied else model.output.weight
    assert torch.equal(model(ids, unroll), torch.nn.functional.linear(states, weight))
    assert (model.output is None) == tied


@settings(max_examples=15)
@given(random_programs(causal=True))
def test_final_states_are_normed_once(program: Program) -> None:
    """Whatever the program: its end is a norm, or the model adds one. Norms begin with weight 1, bias 0."""
    torch.manual_seed(0)
    model = TokenModel(program, vocabulary=VOCABULARY, context=8, width=8).double()
    states = model.states(torch.tensor([[1, 2, 3]]))
    torch.testing.assert_close(states.mean(-1), torch.zeros_like(states[..., 0]), rtol=0, atol=1e-9)
    assert (model.trunk.norm is None) == ends_with_norm(program)


@pytest.mark.parametrize(
    ("program", "normed"),
    [
        (Program(Layers(1)), True),
        (Program(Layers(1, final_norm=False)), False),
        (Program(Loop(Layers(1), 2)), True),
        (Program(Loop([Layers(1), Loop(Layers(1, final_norm=False), 2)], 2)), False),
        (Program(Parallel(Layers(1), Layers(1))), False),
    ],
)
def test_a_program_ends_with_a_norm_if_its_last_module_does(program: Program, normed: bool) -> None:
    assert ends_with_norm(program) is normed


@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_padding_changes_no_score_of_a_window(name: str, prefix_lm: bool) -> None:
    model = token_model(PROGRAMS[name], prefix_lm=prefix_lm)
    unroll = Unroll(steps=4, window=3)
    for side in ("left", "right"):
        ids, real = padded((6, 3, 5), side)
        prefix = torch.tensor([2, 3, 4])
        found = model(ids, unroll, attention_mask=real, prefix=prefix)
        for row in range(3):
            expected = model(alone(ids, real, row), unroll, prefix=prefix[row : row + 1])[:, 0]
            torch.testing.assert_close(found[:, row, real[row]], expected, **SINGLE)


def test_padding_on_the_right_needs_no_mask() -> None:
    for prefix_lm in (False, True):
        model = token_model(PROGRAMS["algoformer"], prefix_lm=prefix_lm)
        ids, real = padded((6, 3), "right")
        prefix = torch.tensor([3, 2])
        marked, plain = model(ids, attention_mask=real, prefix=prefix), model(ids, prefix=prefix)
        torch.testing.assert_close(marked[:, real], plain[:, real], **SINGLE)


def test_a_sequence_of_nothing_but_padding_harms_nobody() -> None:
    model = token_model(PROGRAMS["algoformer"])
    ids, real = padded((4, 3), "left")
    with_empty = torch.cat([ids, ids[:1]]), torch.cat([real, real[:1] & False])
    found = model(with_empty[0], attention_mask=with_empty[1])
    assert found.isfinite().all()
    torch.testing.assert_close(found[:, :2][:, real], model(ids, attention_mask=real)[:, real], **SINGLE)


def test_positions_count_real_tokens() -> None:
    real = torch.tensor([[False, True, True, True], [True, False, False, True]])
    assert positions_of(real).tolist() == [[0, 0, 1, 2], [0, 0, 0, 1]]


def test_dropout_draws_afresh_at_every_iteration_and_only_while_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = token_model(programs.looped(heads=2, steps=3), dropout=0.5)
    drawn: list[torch.Tensor] = []
    original = torch.nn.functional.dropout

    def recorded(values: torch.Tensor, rate: float, *further: bool, **options: bool) -> torch.Tensor:
        drawn.append(original(torch.ones_like(values), rate, *further, **options))
        return original(values, rate, *further, **options)

    ids = torch.tensor([[1, 2, 3]])
    plain = model(ids)
    monkeypatch.setattr(torch.nn.functional, "dropout", recorded)
    torch.manual_seed(0)
    model.train()(ids)
    masks = drawn[-6:]  # two in each of the three iterations; the embedding's come before
    assert {value for one in masks for value in one.unique().tolist()} == {0.0, 2.0}
    assert not any(torch.equal(masks[i], masks[j]) for i in range(6) for j in range(i))
    drawn.clear()
    assert torch.equal(model.eval()(ids), plain)
    assert all(bool((one == 1).all()) for one in drawn)


def test_attention_dropout_changes_what_is_read() -> None:
    model = token_model(programs.looped(heads=2, steps=3), attention_dropout=0.5).train()
    ids = torch.tensor([[1, 2, 3, 4]])
    torch.manual_seed(0)
    one = model(ids)
    assert not torch.equal(one, model(ids))
    torch.manual_seed(0)
    assert torch.equal(one, model(ids))


def test_models_of_prompts_never_drop_anything() -> None:
    model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=8, width=8).train()
    prompt = Prompt.of_pairs(torch.ones(1, 4, 3), torch.ones(1, 4, 1))
    assert torch.equal(model(prompt).final, model(prompt).final)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vocabulary": 0}, "vocabulary must be at least 1, got 0"),
        ({"dropout": 1}, "residual dropout must be at least 0 and below 1, got 1"),
        ({"attention_dropout": -0.1}, "attention dropout must be at least 0"),
        ({"program": programs.looped(causal=False)}, "full attention would see the tokens to be predicted"),
    ],
)
def test_models_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    sizes = {"program": programs.looped(), "vocabulary": 5, "context": 8, "width": 8}
    with pytest.raises(ValueError, match=words):
        TokenModel(**{**sizes, **options})  # type: ignore[arg-type]


def test_questions_that_cannot_be_answered_are_refused() -> None:
    ids = torch.zeros(1, 25, dtype=torch.int64)
    with pytest.raises(ValueError, match="25 tokens is longer than context=24"):
        token_model(PROGRAMS["looped"])(ids)
    with pytest.raises(ValueError, match=r"say how many tokens are given \(prefix=\)"):
        token_model(PROGRAMS["looped"], prefix_lm=True)(ids[:, :3])
    with pytest.raises(ValueError, match="keep="):
        token_model(PROGRAMS["looped"])(ids[:, :3], Unroll(steps=2, keep=("loop[1]",)))
