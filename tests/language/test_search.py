"""Beam search against all sequences there are."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algoformer import programs
from algoformer.language import (
    CachedDecoder,
    TokenModel,
    UncachedDecoder,
    beam_search,
    generate,
    greedy_search,
)
from algoformer.language.beams import first_largest
from tests.language.small_models import PROGRAMS, lively, padded, token_model

END = 0


def tiny(vocabulary: int) -> TokenModel:
    torch.manual_seed(7)
    program = programs.algoformer(heads=2, steps=2)
    model = TokenModel(program, vocabulary=vocabulary, context=12, width=8, tied=False).eval()
    lively(model, scale=0.5)
    # a flat distribution, so that the best sequence is not the greedy one
    flat = torch.randn(vocabulary, 8, generator=torch.Generator().manual_seed(7)) / 2
    model.output.weight.data = flat
    return model


def everything(
    model: TokenModel, prefix: list[int], most: int, penalty: float
) -> list[tuple[float, list[int]]]:
    """Every sequence that ends, or that has `most` tokens and does not, with its score, best first."""
    others = range(1, model.vocabulary)
    ending = [[*start, END] for length in range(most) for start in itertools.product(others, repeat=length)]
    found = []
    for tokens in [*ending, *map(list, itertools.product(others, repeat=most))]:
        whole = torch.tensor([prefix + tokens])
        chances = model(whole)[-1, 0].double().log_softmax(-1)
        places = range(len(prefix) - 1, len(prefix) + len(tokens) - 1)
        total = sum(chances[place, token].item() for place, token in zip(places, tokens, strict=True))
        found.append((total / len(tokens) ** penalty, tokens))
    return sorted(found, reverse=True)


@pytest.mark.parametrize(("vocabulary", "most", "penalty"), [(3, 4, 0.0), (4, 3, 0.6), (3, 3, 1.0)])
def test_a_beam_as_wide_as_everything_finds_everything_in_order(
    vocabulary: int, most: int, penalty: float
) -> None:
    model = tiny(vocabulary)
    ids, real = torch.tensor([[1, 2, 1], [2, 1, 1]]), torch.tensor([[True, True, True], [True, True, False]])
    expected = [everything(model, prefix, most, penalty) for prefix in ([1, 2, 1], [2, 1])]
    beam = len(expected[0])
    with torch.no_grad():
        found = beam_search(
            CachedDecoder(model, batch=2, length=6),
            ids,
            real,
            eos_id=END,
            max_new_tokens=most,
            beam=beam,
            length_penalty=penalty,
            nbest=beam,
        )
    for row, ranking in enumerate(expected):
        scores = torch.tensor([score for score, _ in ranking], dtype=torch.float32)
        torch.testing.assert_close(found.scores[row], scores, rtol=0, atol=1e-5)
        pairs = zip(found.tokens[row].tolist(), found.lengths[row].tolist(), strict=True)
        assert [tokens[:length] for tokens, length in pairs] == [tokens for _, tokens in ranking]
        assert found.ended[row].tolist() == [tokens[-1] == END for _, tokens in ranking]


def test_a_wider_beam_finds_a_better_sequence_than_greedy_search() -> None:
    model = tiny(4)
    best = everything(model, [2], 4, 0.0)[0][0]
    ids = torch.tensor([[2]])
    scores = [
        generate(model, ids, eos_id=END, max_new_tokens=4, beam=beam, length_penalty=0).scores
        for beam in (1, 256)
    ]
    assert scores[1].item() == pytest.approx(best, abs=1e-5)
    assert scores[0].item() < best - 1e-3


@pytest.mark.parametrize(
    ("name", "side"), list(zip(PROGRAMS, ("left", "right") * len(PROGRAMS), strict=False))
)
def test_greedy_search_takes_the_most_probable_token_each_time(name: str, side: str) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded((5, 2, 7, 1), side)
    found = greedy_search(CachedDecoder(model, batch=4, length=18), ids, real, eos_id=END, max_new_tokens=12)
    for row in range(4):
        tokens, total = ids[row][real[row]].tolist(), 0.0
        given = len(tokens)
        while len(tokens) < given + 12 and (len(tokens) == given or tokens[-1] != END):
            with torch.no_grad():
                chances = model(torch.tensor([tokens]))[-1, 0, -1].log_softmax(-1)
            tokens.append(int(chances.argmax()))
            total += float(chances.max())
        count = int(found.lengths[row, 0])
        assert found.tokens[row, 0, :count].tolist() == tokens[given:]
        assert bool(found.ended[row, 0]) == (tokens[-1] == END)
        assert found.scores[row, 0].item() == pytest.approx(total / count, abs=1e-5)


@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_beam_search_finds_the_same_with_and_without_a_cache(name: str, prefix_lm: bool) -> None:
    model = token_model(PROGRAMS[name], prefix_lm=prefix_lm)
    ids, real = padded((5, 2, 4), "left")
    options = {"eos_id": END, "max_new_tokens": 8, "beam": 3, "nbest": 3, "length_penalty": 0.6}
    cached = beam_search(CachedDecoder(model, batch=3, length=12), ids, real, **options)
    uncached = beam_search(UncachedDecoder(model), ids, real, **options)
    assert torch.equal(cached.tokens, uncached.tokens)
    torch.testing.assert_close(cached.scores, uncached.scores, rtol=0, atol=1e-5)


def test_a_sentence_is_translated_as_if_it_were_alone() -> None:
    model = token_model(PROGRAMS["algoformer"])
    ids, real = padded((5, 2, 4), "right")
    options = {"eos_id": END, "max_new_tokens": 6, "beam": 3, "nbest": 3}
    together = generate(model, ids, real, **options)
    for row in range(3):
        single = generate(model, ids[row][real[row]][None], **options)
        assert torch.equal(single.tokens[0], together.tokens[row])
        torch.testing.assert_close(single.scores[0], together.scores[row], rtol=0, atol=1e-5)


class Recorded(CachedDecoder):
    """Counts the sequences of every step, and can keep ended ones in the batch."""

    keeps = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sizes: list[int] = []

    @property
    def fixed_batch(self) -> bool:
        return self.keeps

    def step(self, tokens: Tensor) -> Tensor:
        self.sizes.append(len(tokens))
        return super().step(tokens)


class Keeping(Recorded):
    keeps = True


@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize(("name", "end"), [("standard", 3), ("algoformer", 7), ("nested", 4)])
def test_ended_sequences_leave_the_batch_and_change_nothing(name: str, end: int, beam: int) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded((5, 2, 4, 3, 1, 5, 2, 4), "right", seed=3)
    options: dict[str, Any] = {"eos_id": end, "max_new_tokens": 12}
    search = greedy_search if beam == 1 else partial(beam_search, beam=beam)
    leaving, keeping = (kind(model, batch=8, length=16) for kind in (Recorded, Keeping))
    found, expected = (search(decoder, ids, real, **options) for decoder in (leaving, keeping))
    assert torch.equal(found.tokens, expected.tokens)
    assert torch.equal(found.lengths, expected.lengths)
    assert torch.equal(found.ended, expected.ended)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-5)
    assert set(keeping.sizes) == {8 * beam}
    assert len(leaving.sizes) == len(keeping.sizes)
    assert leaving.sizes == sorted(leaving.sizes, reverse=True)
    assert leaving.sizes[-1] < 8 * beam


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_search_for_the_best_alone_finds_the_first_of_all(penalty: float) -> None:
    """It may stop sooner, when no sequence can overtake the best."""
    model = token_model(PROGRAMS["algoformer"])
    ids, real = padded((5, 2, 4, 3, 1, 5, 2, 4), "right", seed=3)
    options: dict[str, Any] = {"eos_id": 7, "max_new_tokens": 16, "beam": 4, "length_penalty": penalty}
    decoders = [Recorded(model, batch=8, length=20) for _ in range(2)]
    best = beam_search(decoders[0], ids, real, **options)
    all_of_them = beam_search(decoders[1], ids, real, **options, nbest=4)
    assert torch.equal(best.tokens[:, 0], all_of_them.tokens[:, 0])
    torch.testing.assert_close(best.scores[:, 0], all_of_them.scores[:, 0], rtol=0, atol=1e-5)
    assert sum(decoders[0].sizes) <= sum(decoders[1].sizes)
    if penalty == 0.0:  # probabilities fall with every token: the first to end may be beyond reach
        assert sum(decoders[0].sizes) < sum(decoders[1].sizes)


def test_texts_have_no_end_token() -> None:
    model = tiny(4)
    found = generate(
        model, torch.tensor([[1], [2]]), eos_id=END, max_new_tokens=5, beam=4, nbest=4, length_penalty=0
    )
    for rank in range(4):
        for row, text in enumerate(found.texts(rank)):
            ended = bool(found.ended[row, rank])
            assert END not in text
            assert len(text) == found.lengths[row, rank].item() - ended
    assert bool(found.ended.any())


def test_a_finished_sentence_is_frozen_in_greedy_search() -> None:
    """A model that ends at once for one prefix and never for another, by its output weights."""
    torch.manual_seed(0)
    program = programs.looped(heads=1, steps=1, positions=False)
    model = TokenModel(program, vocabulary=4, context=12, width=4, tied=False).eval()
    with torch.no_grad():
        for parameter in model.trunk.body.parts[0].body.parts[0].layers.parameters():
            parameter.zero_()
        model.trunk.embedding.weight.copy_(torch.eye(4))  # states are normed copies of the token read last
        model.output.weight.copy_(torch.tensor([[0, 5, 0, 0], [0, 0, 0, 9], [0, 0, 9, 0], [9, 0, 0, 0.0]]))
    found = generate(model, torch.tensor([[1], [2], [3]]), eos_id=0, max_new_tokens=4)
    assert found.tokens[:, 0].tolist() == [[0, 0, 0, 0], [2, 2, 2, 2], [1, 0, 0, 0]]
    assert found.lengths[:, 0].tolist() == [1, 4, 2]
    assert found.ended[:, 0].tolist() == [True, False, True]
    assert found.texts() == [[], [2, 2, 2, 2], [1]]


@given(
    st.lists(st.sampled_from((-2.0, -1.5, 0.0, -0.0, 3.25, float("-inf"), 1e-30, -1e30)), min_size=1),
    st.data(),
)
def test_the_first_of_equal_scores_is_the_largest(values: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(values)))
    expected = sorted(range(len(values)), key=lambda place: (-values[place], place))[:count]
    found, places = first_largest(torch.tensor([values]), count)
    assert places[0].tolist() == expected
    assert found[0].tolist() == [torch.tensor(values[place]).item() for place in expected]


def test_of_sequences_with_equal_scores_the_first_wins() -> None:
    model = tiny(4)
    for parameter in model.parameters():
        parameter.data.zero_()
    found = generate(model, torch.tensor([[1]]), eos_id=3, max_new_tokens=2, beam=2, nbest=2)
    assert found.tokens.tolist() == [[[0, 0], [0, 1]]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eos_id": 4}, "eos_id must be a token, 0..3, got 4"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"beam": 2, "nbest": 3}, r"nbest must lie in 1..2 \(the beam\), got 3"),
        ({"length_penalty": -1}, "length_penalty must lie in 0..10, got -1"),
        ({"length_penalty": float("nan")}, "length_penalty must lie in 0..10, got nan"),
        ({"length_penalty": float("inf"), "beam": 1}, "length_penalty must lie in 0..10, got inf"),
        ({"max_new_tokens": 12}, "context=12"),
    ],
)
def test_what_cannot_be_searched_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        generate(tiny(4), torch.tensor([[1, 2]]), **{"eos_id": 0, "max_new_tokens": 3, **options})
