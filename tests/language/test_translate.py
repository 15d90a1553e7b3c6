"""A user's lines through a model: each is answered in its place, whatever the others are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import programs
from algoformer.language import (
    TextCheckpoint,
    TextClassifier,
    Tokenizer,
    TokenModel,
    UncachedDecoder,
    generate,
)
from algoformer.language.batches import source_batch
from algoformer.language.classify import Classifier
from algoformer.language.tokenizer import EOS
from algoformer.language.tokens import TokenTable
from algoformer.language.translate import Decoding, Translation, Translator, cut, is_translator
from algoformer.model.stopping import ProbabilityShift

LINES = ["", "the dog", "   ", "a cat sees the dog. " * 30, "ß🎉\u2028ü", "x" * 500, "\x00\x07", "the dog"]


def translator(tokenizer: Tokenizer, decoding: Decoding, *, lowercase: bool = False) -> Translator:
    torch.manual_seed(0)
    program = programs.algoformer(heads=2, steps=2)
    model = TokenModel(program, vocabulary=len(tokenizer), context=24, width=8, prefix_lm=True)
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json(), card={"lowercase": lowercase})
    return Translator(checkpoint, decoding)


def test_how_steps_are_taken_is_asked_for_down_to_the_decoder(tokenizer: Tokenizer) -> None:
    assert list(translator(tokenizer, Decoding(captured=False)).translate(["the dog"]))
    with pytest.raises(ValueError, match="only steps on CUDA without early exit can be captured"):
        list(translator(tokenizer, Decoding(captured=True)).translate(["the dog"]))


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(beam=1, batch=3),
        Decoding(beam=2, batch=2, ahead=1, policy="last"),
        Decoding(beam=1, early_exit=ProbabilityShift(threshold=0.01)),
    ],
)
def test_every_line_is_answered_in_its_place_as_if_it_were_alone(
    tokenizer: Tokenizer, decoding: Decoding
) -> None:
    several = translator(tokenizer, decoding)
    found = list(several.translate(LINES))
    assert len(found) == len(LINES)
    assert (found[0], found[2]) == ("", "")
    assert found[1] == found[7]
    assert all("\n" not in text and len(text.splitlines()) <= 1 for text in found)
    if decoding.policy == "full":
        assert found == [next(iter(several.translate([line]))) for line in LINES]


def test_a_line_is_its_sentences_unless_it_shall_be_whole(tokenizer: Tokenizer) -> None:
    alone = ["the dog.", "A cat?", "The dog!"]
    by_sentence = translator(tokenizer, Decoding(beam=2))
    found = list(by_sentence.translate(["", " ".join(alone), alone[1]]))
    assert found[1] == " ".join(filter(None, by_sentence.translate(alone)))
    assert found[2] == next(iter(by_sentence.translate(alone[1:2])))
    tokens = tokenizer.encode_all(["", " ".join(alone)])
    whole = translator(tokenizer, Decoding(beam=2, whole_lines=True))
    # tokens are never taken apart into sentences: what is scored is what was asked for
    assert list(whole.translate(["", " ".join(alone)])) == by_sentence.translate_encoded(tokens)
    assert list(whole.translate([" ".join(alone)])) != found[1:2]


def test_sentences_are_told_by_capitals_that_the_model_does_not_read(tokenizer: Tokenizer) -> None:
    lower = translator(tokenizer, Decoding(beam=1), lowercase=True)
    alone = list(lower.translate(["the dog sees Dr. Cat.", "the dog sees."]))
    assert list(lower.translate(["The dog sees Dr. Cat. The dog sees."])) == [" ".join(filter(None, alone))]


def test_no_more_is_read_ahead_than_asked_for(tokenizer: Tokenizer) -> None:
    read = []

    def lines() -> object:
        for number in range(9):
            read.append(number)
            yield "the dog"

    answers = translator(tokenizer, Decoding(beam=1, batch=2, ahead=2)).translate(lines())  # type: ignore[arg-type]
    next(answers)
    assert len(read) == 4


@settings(max_examples=40, deadline=None)
@given(st.text(st.sampled_from("ab .!"), max_size=120), st.integers(1, 12))
def test_long_lines_are_cut_without_loss(text: str, longest: int) -> None:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    bytes_only = Tokenizer([])
    tokens = bytes_only.encode(text)
    parts = cut(tokens, bytes_only, longest)
    assert [token for part in parts for token in part] == tokens
    assert all(0 < len(part) <= longest for part in parts)


def test_long_lines_are_cut_after_sentences_or_else_between_words() -> None:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    bytes_only = Tokenizer([])

    def pieces(text: str, longest: int) -> list[str]:
        return [bytes_only.decode(part) for part in cut(bytes_only.encode(text), bytes_only, longest)]

    # a text begins with a space of its own, so that its first word is a word like others
    assert pieces("One two. Three four five", 13) == ["One two.", "Three four", "five"]
    assert pieces("abcdefgh", 5) == ["abcd", "efgh"]


def test_case_follows_the_training_text(tokenizer: Tokenizer) -> None:
    lower = translator(tokenizer, Decoding(beam=1), lowercase=True)
    assert len(set(lower.translate(["THE DOG", "the dog"]))) == 1


def test_checkpoints_that_cannot_do_it_are_refused(tokenizer: Tokenizer) -> None:
    program = programs.algoformer(heads=2, steps=2, causal=False)
    model = TextClassifier(program, labels=("a", "b"), vocabulary=len(tokenizer), context=8, width=8)
    text = tokenizer.to_json()
    with pytest.raises(ValueError, match="use classify"):
        Translator(TextCheckpoint(model=model, tokenizer=text))
    with pytest.raises(ValueError, match="has no tokenizer"):
        Classifier(TextCheckpoint(model=model))
    with pytest.raises(ValueError, match="tokens, the model"):
        Classifier(TextCheckpoint(model=model, tokenizer=Tokenizer([]).to_json()))
    with pytest.raises(ValueError, match="beam must be at least 1, got 0"):
        Decoding(beam=0)


def test_labels_come_in_order_with_the_probability_of_the_model(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    program = programs.algoformer(heads=2, steps=2, causal=False)
    model = TextClassifier(program, labels=("a", "b", "c"), vocabulary=len(tokenizer), context=16, width=8)
    torch.nn.init.normal_(model.head.weight)
    classifier = Classifier(TextCheckpoint(model=model, tokenizer=tokenizer.to_json()), batch=3)
    found = list(classifier.classify(LINES))
    assert [label is None for label in found] == [not " ".join(line.split()) for line in LINES]
    assert [label is not None and label.shortened for label in found] == [
        len(tokenizer.encode(" ".join(line.split()))) > 16 for line in LINES
    ]
    for line, label in zip(LINES, found, strict=True):
        if label is not None:
            ids = torch.tensor([tokenizer.encode(" ".join(line.split()))[:16]])
            scores = model(ids, torch.ones_like(ids, dtype=torch.bool))[-1, 0].detach()
            assert label.name == model.labels[int(scores.argmax())]
            assert label.probability == pytest.approx(float(scores.softmax(dim=0).max()), rel=1e-4)


def test_a_translation_scores_the_mean_log_probability_of_its_tokens(tokenizer: Tokenizer) -> None:
    several = translator(tokenizer, Decoding(beam=1, whole_lines=True))
    (found,) = several.translations(["the dog"])
    # the source as the translator pads it, then what it generated, scored in one uncached pass
    ids = tokenizer.encode("the dog")
    given = source_batch(TokenTable.of([ids]), np.array([0]), length=8)
    made = generate(several.model, given.ids, given.mask, eos_id=EOS, max_new_tokens=17)
    tokens = made.tokens[:, 0, : int(made.lengths[0, 0])]
    full = torch.cat([given.ids, tokens], dim=1)
    decoder = UncachedDecoder(several.model)
    logs = []
    for place in range(tokens.shape[1]):
        end = given.ids.shape[1] + place
        scores = decoder.prefill(given.ids, given.mask) if place == 0 else decoder.step(full[:, end - 1])
        logs.append(float(scores.detach().float().log_softmax(dim=-1)[0, full[0, end]]))
    assert found.score == pytest.approx(sum(logs) / len(logs), rel=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_score_does_not_depend_on_the_length_penalty_it_was_found_with(
    tokenizer: Tokenizer, penalty: float
) -> None:
    plain, other = (
        next(translator(tokenizer, Decoding(beam=1, length_penalty=one)).translations(["the dog. A cat!"]))
        for one in (1.0, penalty)
    )
    assert other.text == plain.text
    assert other.score == pytest.approx(plain.score, rel=1e-5)


def test_a_translation_below_the_threshold_is_flagged(tokenizer: Tokenizer) -> None:
    (found,) = translator(tokenizer, Decoding(beam=1)).translations(["the dog"])
    for threshold, flagged in ((found.score - 0.01, False), (found.score + 0.01, True), (-math.inf, False)):
        decoding = Decoding(beam=1, flag_below=threshold)
        assert next(translator(tokenizer, decoding).translations(["the dog"])).flagged is flagged
    (empty,) = translator(tokenizer, Decoding(beam=1)).translations(["  "])
    assert isinstance(empty, Translation)
    assert (empty.text, empty.flagged, math.isnan(empty.score)) == ("", False, True)


@pytest.mark.parametrize(
    ("prefix_lm", "card", "translates"),
    [
        (True, {}, True),
        (False, {}, False),
        (False, {"kind": "translation"}, True),
        (True, {"kind": "language"}, False),
        (False, {"experiment": {"data": {"name": "translation"}}}, True),
        (True, {"experiment": {"data": {"name": "plain_text"}}}, False),
        (True, {"experiment": []}, True),
        (True, {"experiment": {"data": 3}}, True),
    ],
)
def test_a_plain_language_model_does_not_translate(
    tokenizer: Tokenizer, prefix_lm: bool, card: dict[str, object], translates: bool
) -> None:
    program = programs.algoformer(heads=2, steps=2)
    model = TokenModel(program, vocabulary=len(tokenizer), context=24, width=8, prefix_lm=prefix_lm)
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json(), card=card)
    assert is_translator(checkpoint) is translates
    if not translates:
        with pytest.raises(ValueError, match="not trained to translate; use generate"):
            Translator(checkpoint)


def test_cutting_looks_at_every_token_a_bounded_number_of_times() -> None:
    class Counting(Tokenizer):
        """A tokenizer that counts how often it is asked for a piece."""

        asked = 0

        def piece(self, token: int) -> bytes:
            self.asked += 1
            return b" a" if token % 2 else b"b"

    class Numbers(list[int]):
        """A list that counts how many of its elements are copied by slicing."""

        copied = 0

        def __getitem__(self, place: Any) -> Any:
            found = super().__getitem__(place)
            self.copied += len(found) if isinstance(place, slice) else 1
            return found

    counting, tokens = Counting([]), Numbers([5 + place % 3 for place in range(100_000)])
    parts = cut(tokens, counting, 50)
    assert [token for part in parts for token in part] == list(tokens)
    assert counting.asked < 2 * len(tokens)
    assert tokens.copied < 3 * len(tokens)


def test_a_label_with_control_characters_stays_on_its_line(tokenizer: Tokenizer) -> None:
    program = programs.algoformer(heads=2, steps=2, causal=False)
    labels = ("a\nb", "\x1b]0;x\x07")
    model = TextClassifier(program, labels=labels, vocabulary=len(tokenizer), context=8, width=8)
    classifier = Classifier(TextCheckpoint(model=model, tokenizer=tokenizer.to_json()))
    names = {label.name for label in classifier.classify(LINES) if label is not None}
    assert names <= {"a\\nb", "\\x1b]0;x\\x07"}


@pytest.mark.parametrize("penalty", [1000, 1e308, -0.1, float("nan")])
def test_a_length_penalty_that_would_overflow_is_refused(tokenizer: Tokenizer, penalty: float) -> None:
    with pytest.raises(ValueError, match=r"length_penalty must lie in 0\.\.10"):
        list(translator(tokenizer, Decoding(beam=2, length_penalty=penalty)).translate(["the dog"]))
