"""A byte-level BPE tokenizer, which can encode every text.

Why bytes: every text, in any script, is a string of bytes, and every byte is a token. Nothing is lost, so
`decode(encode(text)) == text` for any text, and there is no unknown token to score. The tokenizer itself
does not normalize: corpora are brought to NFC when they are read (`text.plain`); do so with your own text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from algoformer.common.plain_data import read_object
from algoformer.extras import require

SPECIALS = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩", "⟨translate⟩")
"""The first tokens. No text contains them: the brackets are not in the alphabet that bytes are written in."""

PAD, BOS, EOS, TRANSLATE = range(len(SPECIALS))
"""Padding, begin, end, and the mark between a sentence and its translation."""

FORMAT = 1
LARGEST_VOCABULARY = 2**16
"""Tokens are stored in two bytes."""

_LONGEST_JSON = 64 * 2**20
_CHUNK = 2**14
_TEXT_AT_ONCE = 2**20
"""Characters that are tokenized at once: the encoder needs about 200 bytes for each."""

_BETWEEN_WORDS = re.compile(r"(?<=\w) (?=\w)")
_SMALLEST = len(SPECIALS) + 256


def _letters() -> list[str]:
    """Return the letter that stands for each byte, as in GPT-2: itself, or one from U+0100 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    unseen = iter(range(256, 512))
    return [chr(byte if byte in seen else next(unseen)) for byte in range(256)]


_LETTERS = _letters()


class Tokenizer:
    """A byte-level BPE tokenizer, fully described by its merges.

    Learning and encoding need the package `tokenizers`; loading, counting and decoding do not.

    >>> tokenizer = Tokenizer.train(["the dog sees the cat", "the cat sees the dog"] * 4, vocabulary=300)
    >>> [tokenizer.decode([token]) for token in tokenizer.encode("the dog")]
    ['the', 'dog']
    >>> tokenizer.decode(tokenizer.encode("Ünïcode ⟨pad⟩ 🎉"))
    'Ünïcode ⟨pad⟩ 🎉'

    Args:
        merges: pairs of pieces in the order in which they are merged.
    """

    def __init__(self, merges: Iterable[tuple[str, str]]) -> None:
        self.merges = tuple(merges)
        self._pieces = _vocabulary(self.merges)
        letters = {letter: byte for byte, letter in enumerate(_LETTERS)}
        plain = list(self._pieces)[len(SPECIALS) :]
        self._bytes = [b""] * len(SPECIALS) + [bytes(letters[letter] for letter in piece) for piece in plain]

    @property
    def pieces(self) -> dict[str, int]:
        """Every token by its piece of text, in the letters that GPT-2 writes bytes with."""
        return dict(self._pieces)

    @cached_property
    def _longest_piece(self) -> int:
        return max(len(piece) for piece in self._bytes)

    @cached_property
    def _encoder(self) -> Any:
        tokenizers = require("tokenizers", extra="text")
        encoder = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=self._pieces, merges=list(self.merges)))
        encoder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return encoder

    @classmethod
    def train(cls, texts: Iterable[str], *, vocabulary: int) -> Tokenizer:
        """Learn merges from texts, which should be the training split alone.

        Args:
            texts: texts of all languages, for one joint vocabulary.
            vocabulary: the number of tokens; fewer if the texts have no pair left that occurs twice.

        Raises:
            ValueError: the vocabulary is too small for all bytes, or too large for two-byte storage.
        """
        if not _SMALLEST <= vocabulary <= LARGEST_VOCABULARY:
            raise ValueError(f"vocabulary must lie in {_SMALLEST}..{LARGEST_VOCABULARY}, got {vocabulary}")
        tokenizers = require("tokenizers", extra="text")
        learner = tokenizers.Tokenizer(tokenizers.models.BPE())
        learner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=2,
            special_tokens=list(SPECIALS),
            initial_alphabet=_LETTERS,
            show_progress=False,
        )
        learner.train_from_iterator((_with_space(text) for text in texts), trainer)
        model = json.loads(learner.to_str())["model"]
        return cls([(first, second) for first, second in model["merges"]])

    def __len__(self) -> int:
        """Return the number of tokens, including special ones."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; text never becomes a special token.

        Raises:
            ValueError: the text contains a lone surrogate, which is not a character.
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], *, max_tokens: int | None = None) -> list[list[int]]:
        """Return the tokens of each text, of a long one in bounded memory.

        Args:
            texts: the texts.
            max_tokens: return only the first tokens of each text, without reading the rest of a long one.
        """
        longest = None if max_tokens is None else max_tokens * self._longest_piece
        encoded: list[list[int]] = [[] for _ in texts]
        owners: list[int] = []
        waiting: list[str] = []
        size = 0

        def flush() -> None:
            for owner, one in zip(owners, self._encoder.encode_batch_fast(waiting), strict=True):
                encoded[owner] += one.ids

        for number, text in enumerate(texts):
            for chunk in _chunks(_checked(text, number), longest):
                owners.append(number)
                waiting.append(chunk)
                size += len(chunk)
                if size >= _TEXT_AT_ONCE:
                    flush()
                    owners, waiting, size = [], [], 0
        flush()
        return encoded if max_tokens is None else [tokens[:max_tokens] for tokens in encoded]

    def decode(self, tokens: Iterable[int] | np.ndarray) -> str:
        """Return the text of the tokens without special ones; bytes that are not UTF-8 become U+FFFD.

        Raises:
            ValueError: there is no such token.
        """
        numbers = [int(token) for token in tokens]
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self):
            raise ValueError(f"tokens lie in 0..{len(self) - 1}, got {min(numbers)}..{max(numbers)}")
        raw = b"".join(self._bytes[number] for number in numbers)
        return raw.decode("utf-8", errors="replace").removeprefix(" ")

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token stands for; none for a special token."""
        return self._bytes[token]

    def to_json(self) -> str:
        """Return the tokenizer as JSON text, for a checkpoint."""
        pairs = [" ".join(pair) for pair in self.merges]
        data = {"format": FORMAT, "kind": "byte-level BPE", "specials": list(SPECIALS), "merges": pairs}
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """Rebuild a tokenizer from what `to_json` returned.

        Raises:
            ValueError: it is anything else; the text may come from anywhere, and nothing in it is executed.
        """
        return cls(_read_merges(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.merges == other.merges

    def __hash__(self) -> int:
        return hash(self.merges)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"


def _with_space(text: str) -> str:
    # the first word of a text is then the same token as inside a text; an empty one stays empty
    return f" {text}" if text else ""


def _checked(text: str, number: int) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text {number} has a lone surrogate at place {error.start}, which is not a character; "
            "decode the file with errors='replace'"
        ) from None
    return text


def _chunks(text: str, longest: int | None = None) -> Iterator[str]:
    """Split a text between words into chunks whose tokens together are those of the text.

    Words are tokenized one by one, with the space before them, so a cut before a single space changes
    nothing. Text that has no such place within `_CHUNK` characters is cut anyway. With `longest`, the chunks
    after the one that reaches this number of characters are left out.
    """
    whole, start = _with_space(text), 0
    while start < len(whole) and (longest is None or start <= longest):
        end = min(len(whole), start + 2 * _CHUNK)
        if end < len(whole):
            found = _BETWEEN_WORDS.search(whole, start + _CHUNK, end)
            end = found.start() if found else end
        yield whole[start:end]
        start = end


def _vocabulary(merges: Iterable[tuple[str, str]]) -> dict[str, int]:
    pieces = {piece: number for number, piece in enumerate([*SPECIALS, *sorted(_LETTERS)])}
    for first, second in merges:
        for part in (first, second):
            if part not in pieces or pieces[part] < len(SPECIALS):
                merge = f"{first[:20]!r} and {second[:20]!r}"
                raise ValueError(f"merge of {merge}: {part[:20]!r} is not a piece yet")
        pieces.setdefault(first + second, len(pieces))
    return pieces


def _read_merges(text: str) -> list[tuple[str, str]]:
    if len(text) > _LONGEST_JSON:
        raise ValueError(f"a tokenizer has at most {_LONGEST_JSON} characters of JSON, got {len(text)}")
    data = read_object(text, "the tokenizer")
    if data.get("format") != FORMAT:
        raise ValueError(f"the tokenizer is not of format {FORMAT}")
    if data.get("specials") != list(SPECIALS):
        raise ValueError(f"the tokenizer's special tokens must be {SPECIALS}")
    merges = data.get("merges")
    if not isinstance(merges, list) or len(merges) > LARGEST_VOCABULARY - _SMALLEST:
        raise ValueError("the tokenizer's merges must be a list, no longer than the largest vocabulary")
    pairs = []
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else []
        if len(pair) != 2 or not all(pair):
            raise ValueError(f"a merge is two pieces and a space between them, got {str(merge)[:40]!r}")
        pairs.append((pair[0], pair[1]))
    return pairs
