"""A user's lines through a model: each is answered in its place, whatever the others are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import programs
from algoformer.language import TextCheckpoint, TextClassifier, Tokenizer, TokenModel
from algoformer.language.classify import Classifying
from algoformer.language.early_exit import EarlyExit
from algoformer.language.translate import Decoding, Translator, cut

LINES = ["", "the dog", "   ", "a cat sees the dog. " * 30, "ß🎉\u2028ü", "x" * 500, "\x00\x07", "the dog"]


def translator(tokenizer: Tokenizer, decoding: Decoding, *, lowercase: bool = False) -> Translator:
    torch.manual_seed(0)
    program = programs.algoformer(heads=2, steps=2)
    model = TokenModel(program, vocabulary=len(tokenizer), context=24, width=8, prefix_lm=True)
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json(), card={"lowercase": lowercase})
    return Translator(checkpoint, decoding)


def test_how_steps_are_taken_is_asked_for_down_to_the_decoder(tokenizer: Tokenizer) -> None:
    assert translator(tokenizer, Decoding(captured=False)).translate_block(["the dog"])
    with pytest.raises(ValueError, match="only steps on CUDA without early exit can be captured"):
        translator(tokenizer, Decoding(captured=True)).translate_block(["the dog"])


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(beam=1, batch=3),
        Decoding(beam=2, batch=2, ahead=1, policy="last"),
        Decoding(beam=1, early_exit=EarlyExit(threshold=0.01)),
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
    assert whole.translate_block(["", " ".join(alone)]) == by_sentence.translate_encoded(tokens)
    assert whole.translate_block([" ".join(alone)]) != found[1:2]


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
        Classifying(TextCheckpoint(model=model))
    with pytest.raises(ValueError, match="tokens, the model"):
        Classifying(TextCheckpoint(model=model, tokenizer=Tokenizer([]).to_json()))
    with pytest.raises(ValueError, match="beam must be at least 1"):
        Decoding(beam=0)


def test_labels_come_in_order_with_the_probability_of_the_model(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    program = programs.algoformer(heads=2, steps=2, causal=False)
    model = TextClassifier(program, labels=("a", "b", "c"), vocabulary=len(tokenizer), context=16, width=8)
    torch.nn.init.normal_(model.head.weight)
    classifying = Classifying(TextCheckpoint(model=model, tokenizer=tokenizer.to_json()), batch=3)
    found = list(classifying.classify(LINES))
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
