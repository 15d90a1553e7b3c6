"""Translate a user's own lines with a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from algoformer.language.batches import source_batch
from algoformer.language.cache import Policy
from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.generate import generate
from algoformer.language.lines import batched, one_line, prepared
from algoformer.language.sentences import sentences
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import EOS, Tokenizer
from algoformer.language.tokens import TokenTable
from algoformer.model.stopping import StoppingRule

SIGNS = (".", "!", "?", ":", ";")
"""After these a text that is too long is cut first."""

STEP = 8
"""Sentences are padded to a multiple of this."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How translations are searched for.

    Attributes:
        beam: how many sequences are kept; 1 is greedy.
        length_penalty: as for `beam_search`.
        policy: of the cache.
        early_exit: as for `CachedDecoder`.
        captured: as for `CachedDecoder`.
        whole_lines: translate a line of several sentences in one go, for models that were trained on such.
        batch: sentences at a time.
        ahead: batches of lines that are read before any is translated, to put like lengths together.
    """

    beam: int = 4
    length_penalty: int | float = 1.0
    policy: Policy = "full"
    early_exit: StoppingRule | None = None
    captured: bool | None = None
    whole_lines: bool = False
    batch: int = 32
    ahead: int = 8

    def __post_init__(self) -> None:
        for name in ("beam", "batch", "ahead"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class Translator:
    """A trained model and its tokenizer, ready for lines of text.

    A line is translated sentence by sentence. A sentence (or with `whole_lines` a line) that leaves no room
    for its translation is cut once more, where it can be at a sign, otherwise between words.

    Args:
        checkpoint: a translator; its model stays where it is.
        decoding: how to search.

    Attributes:
        generated: tokens in all translations so far, ends included.

    Raises:
        ValueError: the checkpoint is of another kind of model, or has no tokenizer.
    """

    def __init__(self, checkpoint: TextCheckpoint, decoding: Decoding | None = None) -> None:
        if not isinstance(checkpoint.model, TokenModel):
            raise ValueError("the checkpoint holds a classifier, not a translator; use classify")
        if not checkpoint.tokenizer:
            raise ValueError("the checkpoint has no tokenizer, so that it cannot read text")
        self.model, self.decoding = checkpoint.model.eval(), decoding or Decoding()
        self.tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
        self.lowercase = checkpoint.card.get("lowercase") is True
        if len(self.tokenizer) != self.model.vocabulary:
            raise ValueError(
                f"the tokenizer has {len(self.tokenizer)} tokens, the model {self.model.vocabulary}"
            )
        self.generated, self._iterations = 0, 0.0

    @property
    def iterations(self) -> float:
        """Of the loop, a mean over all tokens generated so far; not a number before the first."""
        return self._iterations / self.generated if self.generated else math.nan

    @property
    def longest(self) -> int:
        """The most tokens of a sentence that leave as much room for its translation."""
        return max(1, (self.model.context - 1) // 2)

    def translate(self, lines: Iterable[str]) -> Iterator[str]:
        """One line for each line, in their order; an empty one for one without words."""
        for block in batched(lines, self.decoding.batch * self.decoding.ahead):
            yield from self.translate_block(block)

    def translate_block(self, lines: Sequence[str]) -> list[str]:
        """The translations of some lines."""
        parts = [self._parts(line) for line in lines]
        texts = self.translate_encoded(self.tokenizer.encode_all([part for some in parts for part in some]))
        found = iter(texts)
        return [" ".join(filter(None, islice(found, len(some)))) for some in parts]

    def translate_encoded(self, encoded: Sequence[Sequence[int]]) -> list[str]:
        """The translations of tokenized texts of any length, none of them taken apart into sentences."""
        owners, parts = [], []
        for number, tokens in enumerate(encoded):
            for part in cut(tokens, self.tokenizer, self.longest):
                owners.append(number)
                parts.append(part)
        found: list[list[str]] = [[] for _ in encoded]
        for owner, text in zip(owners, self._translated(TokenTable.of(parts)), strict=True):
            found[owner].append(text)
        return [" ".join(pieces) for pieces in found]

    def _parts(self, line: str) -> list[str]:
        """What is translated of a line at a time, as the training text was written."""
        # sentences are told by their capitals, so before these are gone
        text = prepared(line, lowercase=False)
        parts = [text] if self.decoding.whole_lines else sentences(text)
        return [prepared(part, lowercase=self.lowercase) for part in parts]

    def _translated(self, sources: TokenTable) -> list[str]:
        """The translations of tokenized sentences, none of them longer than `longest`."""
        texts = [""] * len(sources)
        for length, places in self._alike(sources.lengths.tolist()):
            rows = np.array(places, dtype=np.int64)
            for place, text in zip(places, self._batch(sources, rows, length), strict=True):
                texts[place] = text
        return texts

    def _alike(self, lengths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Batches of places, with the one length that each is padded to.

        That length follows from a sentence alone, as does how long its translation may be: it is the same
        whatever other lines there are.
        """
        padded = [min(-(-(length + 1) // STEP) * STEP, self.longest + 1) for length in lengths]
        for length in sorted(set(padded)):
            places = [place for place, one in enumerate(padded) if one == length]
            for some in batched(places, self.decoding.batch):
                yield length, some

    def _batch(self, sources: TokenTable, rows: np.ndarray, length: int) -> list[str]:
        how = self.decoding
        given = source_batch(sources, rows, length=length).to(self.model.output_weight.device)
        # a translation of a few words may be longer than they are, one of many hardly twice as long
        most = min(2 * length + STEP, self.model.context - length + 1)
        found = generate(
            self.model,
            given.ids,
            given.mask,
            end=EOS,
            most=most,
            beam=how.beam,
            length_penalty=how.length_penalty,
            policy=how.policy,
            early_exit=how.early_exit,
            captured=how.captured,
        )
        tokens = int(found.lengths[:, 0].sum())
        self.generated, self._iterations = (
            self.generated + tokens,
            self._iterations + tokens * found.iterations,
        )
        return [one_line(self.tokenizer.decode(text)) for text in found.texts()]


def cut(tokens: Sequence[int], tokenizer: Tokenizer, longest: int) -> list[list[int]]:
    """Tokens in parts of at most `longest`, cut after the last of `SIGNS` or else before the last word.

    Nothing is left out: the parts together are the tokens.
    """
    rest, parts = list(tokens), []
    while len(rest) > longest:
        place = _place_to_cut([tokenizer.piece(token) for token in rest[: longest + 1]])
        parts.append(rest[:place])
        rest = rest[place:]
    return [*parts, rest] if rest else parts


def _place_to_cut(pieces: list[bytes]) -> int:
    longest = len(pieces) - 1
    words = [place for place in range(1, longest + 1) if pieces[place].startswith(b" ")]
    ends = tuple(end.encode() for end in SIGNS)
    sentences = [place for place in words if pieces[place - 1].endswith(ends)]
    # a first sentence of two words is no good place to cut a long line
    good = [place for place in sentences if 4 * place >= longest]
    return next((found[-1] for found in (good, words) if found), longest)
