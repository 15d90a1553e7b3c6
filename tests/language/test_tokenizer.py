import json
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from algoformer.language import Tokenizer
from algoformer.language.tokenizer import _LETTERS, BOS, EOS, PAD, SPECIALS, TRANSLATE
from tests.language.conftest import TEXTS

tokenizers = pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
SMALL = Tokenizer.train(["über den großen Hund", "the big dog", "der Hund, the dog"] * 3, vocabulary=280)


@given(st.text())
@example("")
@example(" ")
@example("  two  spaces  ")
@example("⟨pad⟩⟨eos⟩ <pad>")
@example("\n\r\t\u2028\x00\x1f")
@example("e\u0301 é 𝔘𝔫𝔦 🏳️‍🌈 \ufeff \ufffd")
def test_any_text_comes_back(text: str) -> None:
    tokens = SMALL.encode(text)
    assert SMALL.decode(tokens) == text
    assert all(len(SPECIALS) <= token < len(SMALL) for token in tokens)


@given(st.lists(st.integers(0, len(SMALL) - 1)))
def test_any_tokens_are_some_text(tokens: list[int]) -> None:
    assert isinstance(SMALL.decode(tokens), str)


@pytest.mark.parametrize("token", [-1, len(SMALL)])
def test_a_token_that_is_none_is_refused(token: int) -> None:
    with pytest.raises(ValueError, match=rf"tokens lie in 0\.\.{len(SMALL) - 1}, got"):
        SMALL.decode([5, token])


def test_letters_for_bytes_are_those_of_the_package() -> None:
    assert sorted(_LETTERS) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    reference = tokenizers.decoders.ByteLevel()
    text = "".join(map(chr, range(0x800)))
    assert reference.decode([_LETTERS[byte] for byte in text.encode()]) == text


def test_special_tokens_are_the_first_and_leave_no_trace() -> None:
    assert (PAD, BOS, EOS, TRANSLATE) == (0, 1, 2, 3)
    assert SMALL.decode([BOS, *SMALL.encode("Hund"), EOS, PAD, PAD]) == "Hund"


def test_a_word_is_the_same_token_everywhere(tokenizer: Tokenizer) -> None:
    first, inside = tokenizer.encode("the soup"), tokenizer.encode("stirring the soup")
    assert inside[-len(first) :] == first


def test_common_words_become_single_tokens(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("the")) == 1
    assert len(tokenizer.encode("stirring the soup")) < len("stirring the soup") / 2


def test_tokens_are_as_many_as_asked_or_as_there_are_pairs() -> None:
    assert len(SMALL) <= 280
    assert len(Tokenizer.train([], vocabulary=5000)) == 4 + 256


@pytest.mark.parametrize("vocabulary", [0, 259, 65537])
def test_a_vocabulary_holds_all_bytes_and_fits_two(vocabulary: int) -> None:
    with pytest.raises(ValueError, match=rf"vocabulary must lie in 260\.\.65536, got {vocabulary}"):
        Tokenizer.train(["a"], vocabulary=vocabulary)


def test_it_survives_being_written() -> None:
    again = Tokenizer.from_json(SMALL.to_json())
    assert again == SMALL
    assert again.encode("der große Hund") == SMALL.encode("der große Hund")


def test_the_written_form_has_the_ids_that_training_gave(tokenizer: Tokenizer) -> None:
    """Numbers follow from the merges alone: bytes in order, then each new piece."""
    merged = ["".join(pair) for pair in tokenizer.merges]
    for number, piece in enumerate(dict.fromkeys(merged)):
        text = tokenizer.decode([4 + 256 + number])
        assert text == piece.replace("Ġ", " ").removeprefix(" ")


def test_training_is_the_same_in_every_process(tokenizer: Tokenizer) -> None:
    code = """
import sys
from algoformer.language import Tokenizer
sys.stdout.write(Tokenizer.train(sys.stdin.read().split("\\n"), vocabulary=400).to_json())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(TEXTS), capture_output=True, text=True, check=False
    )
    assert done.stdout == tokenizer.to_json(), done.stderr


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match="text 1 has a lone surrogate at place 2"):
        SMALL.encode_all(["fine", "ab\ud800"])


def stored(**changes: object) -> str:
    return json.dumps(json.loads(SMALL.to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be a JSON object, got list"),
        (stored(format=2), "not of format 1"),
        (stored(specials=["<pad>"]), "special tokens must be"),
        (stored(merges={"a": "b"}), "merges must be a list"),
        (stored(merges=["a b"] * 70_000), "no longer than the largest vocabulary"),
        (stored(merges=[["a", "b"]]), "two pieces and a space"),
        (stored(merges=["a b c"]), "two pieces and a space"),
        (stored(merges=["a  b"]), "two pieces and a space"),
        (stored(merges=["ab c"]), "'ab' is not a piece yet"),
        (stored(merges=["⟨pad⟩ a"]), "is not a piece yet"),
        (stored(merges=[5]), "two pieces and a space"),
    ],
)
def test_hostile_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_json(text)


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = SMALL.encode("der große Hund")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"algoformer\[text\]"):
        Tokenizer([]).encode("a")
    # what was translated elsewhere can still be read
    assert Tokenizer.from_json(SMALL.to_json()).decode(tokens) == "der große Hund"


TEXT = st.text(st.sampled_from("ab, .\n\t'sßü1_"), max_size=200)


@given(TEXT, st.integers(2, 9), st.integers(0, 20))
def test_a_long_text_is_tokenized_in_chunks_to_the_same_tokens(text: str, chunk: int, most: int) -> None:
    whole = SMALL.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        # a chunk has room for any word of the text, so that none is cut inside
        patch.setattr("algoformer.language.tokenizer._CHUNK", chunk + 200)
        patch.setattr("algoformer.language.tokenizer._TEXT_AT_ONCE", 50)
        long = " ".join([text.strip() or "x"] * 5)
        assert SMALL.encode_all([long, text, ""]) == [SMALL._encoder.encode(" " + long).ids, whole, []]
        assert SMALL.encode_all([long], max_tokens=most) == [SMALL._encoder.encode(" " + long).ids[:most]]


class Spy:
    """An encoder that notes how much text it is given."""

    def __init__(self, inner: object) -> None:
        self.inner, self.given = inner, []

    def encode_batch_fast(self, texts: list[str]) -> object:
        self.given.append(sum(map(len, texts)))
        return self.inner.encode_batch_fast(texts)  # type: ignore[attr-defined]


def test_the_memory_for_a_long_line_is_bounded() -> None:
    again = Tokenizer(SMALL.merges)
    spy = Spy(again._encoder)
    again.__dict__["_encoder"] = spy
    line = "der große Hund " * 250_000
    tokens = again.encode(line)
    assert again.decode(tokens) == line
    assert max(spy.given) < 2**21
    spy.given.clear()
    assert again.encode_all([line], max_tokens=33) == [tokens[:33]]
    assert sum(spy.given) < 2**16


def test_a_word_of_any_length_is_tokenized_in_bounded_chunks() -> None:
    again = Tokenizer(SMALL.merges)
    again.__dict__["_encoder"] = spy = Spy(again._encoder)
    word = "Hund" * 300_000
    assert again.decode(again.encode(word)) == word
    assert max(spy.given) < 2**21
