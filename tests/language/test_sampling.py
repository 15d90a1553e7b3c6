"""Text that is drawn token by token."""

from __future__ import annotations

import pytest
import torch

from algoformer.language import TextCheckpoint, TextClassifier, Tokenizer, TokenModel
from algoformer.language.decode import UncachedDecoder
from algoformer.language.sampling import Sampling, Writer, next_token_probabilities
from algoformer.model.presets import algoformer, looped


@pytest.fixture(scope="module")
def writer() -> Writer:
    """A model with large random weights, so that its distributions are not flat."""
    torch.manual_seed(0)
    model = TokenModel(algoformer(heads=2, steps=3), vocabulary=260, context=24, width=16)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    return Writer(TextCheckpoint(model=model, tokenizer=Tokenizer([]).to_json()))


def probabilities(**options: float) -> list[float]:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()
    return next_token_probabilities(logits, Sampling(**options)).tolist()  # type: ignore[arg-type]


def test_the_temperature_divides_the_logits() -> None:
    # p ∝ p^(1/T): at T = 1/2 the squares 16, 9, 4, 1 over their sum 30
    assert probabilities(temperature=0.5) == pytest.approx([16 / 30, 9 / 30, 4 / 30, 1 / 30], abs=1e-12)
    assert probabilities(temperature=1.0) == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=1e-12)
    for temperature in (0.0, 1e-5, 1e-200, 1e-320):
        assert probabilities(temperature=temperature) == [1, 0, 0, 0]


def test_top_k_keeps_the_k_most_probable_tokens() -> None:
    assert probabilities(temperature=1.0, top_k=2) == pytest.approx([4 / 7, 3 / 7, 0, 0], abs=1e-12)


@pytest.mark.parametrize(("top_p", "kept"), [(0.01, 1), (0.4, 1), (0.41, 2), (0.7, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(top_p: float, kept: int) -> None:
    found = probabilities(temperature=1.0, top_p=top_p)
    assert sum(one > 0 for one in found) == kept
    assert sum(found) == pytest.approx(1, abs=1e-12)


def test_top_p_is_counted_among_the_top_k() -> None:
    # of the three most probable, 4/9 and 3/9 together reach 0.75; of all four, 0.4 and 0.3 do not
    found = probabilities(temperature=1.0, top_k=3, top_p=0.75)
    assert found == pytest.approx([4 / 7, 3 / 7, 0, 0], abs=1e-12)


@pytest.mark.parametrize(("top_k", "top_p"), [(1, 0.5), (5, 0.6), (12, 0.9), (40, 0.3), (50, 1.0)])
def test_tokens_are_drawn_from_the_distribution_of_transformers(top_k: int, top_p: float) -> None:
    processors = pytest.importorskip("transformers").generation.logits_process
    logits = 2 * torch.randn(40, generator=torch.Generator().manual_seed(top_k), dtype=torch.float64)
    scores = logits[None]
    for processor in (
        processors.TemperatureLogitsWarper(0.7),
        processors.TopKLogitsWarper(top_k),
        processors.TopPLogitsWarper(top_p),
    ):
        scores = processor(torch.zeros(1, 0, dtype=torch.int64), scores)
    found = next_token_probabilities(logits, Sampling(temperature=0.7, top_k=top_k, top_p=top_p))
    torch.testing.assert_close(found, scores[0].softmax(dim=0), rtol=0, atol=1e-12)


def test_greedy_text_is_the_most_probable_token_again_and_again(writer: Writer) -> None:
    prompt, tokens = "ab", writer.tokenizer.encode("ab")
    decoder = UncachedDecoder(writer.model)
    scores = decoder.prefill(torch.tensor([tokens]))
    expected = b""
    for _ in range(10):
        token = scores.argmax(dim=1)
        expected += writer.tokenizer.piece(int(token))
        scores = decoder.step(token)
    text = writer.write(prompt, Sampling(max_new_tokens=10, temperature=0))
    assert text == expected.decode("utf-8", errors="replace")


def test_a_seed_decides_the_text(writer: Writer) -> None:
    texts = [writer.write("x", Sampling(max_new_tokens=12, temperature=1.0, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_text_may_outgrow_the_context(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    # a model that never ends: the end token is the least probable one
    sampling = Sampling(max_new_tokens=60, temperature=0)
    bias = torch.zeros(260)
    bias[2] = -1e9
    scores = TokenModel.scores
    monkeypatch.setattr(TokenModel, "scores", lambda model, states: scores(model, states) + bias)
    tokens = list(writer._tokens(writer.tokenizer.encode("a" * 60), sampling))
    assert len(tokens) == 60
    # the first token after the text was shortened follows from the last half of the context alone
    short = list(writer._tokens(writer.tokenizer.encode("a" * 60)[-12:], sampling))
    assert tokens[:12] == short[:12]


@pytest.mark.parametrize("stop", [("d",), ("cd",), ("bcd", "zzz"), ("fg",), ("q",)])
def test_text_ends_before_the_first_stop_string_however_it_is_cut(
    writer: Writer, stop: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = ["a", "b", "cd", "e", "f", "g"]
    monkeypatch.setattr(Writer, "_pieces", lambda self, prompt, sampling: iter(pieces))
    whole = "abcdefg"
    cut = min((whole.find(one) for one in stop if one in whole), default=len(whole))
    assert writer.write("", Sampling(stop=stop)) == whole[:cut]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"max_new_tokens": 0},
        {"stop": ("",)},
        {"seed": 10**30},
        {"seed": -1},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_a_classifier_cannot_write() -> None:
    program = looped(heads=2, steps=2, causal=False)
    model = TextClassifier(program, labels=("a", "b"), vocabulary=260, context=8, width=8)
    with pytest.raises(ValueError, match="use classify"):
        Writer(TextCheckpoint(model=model, tokenizer=Tokenizer([]).to_json()))
