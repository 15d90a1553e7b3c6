"""Translate lines of text with a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from algoformer.common.devices import run_side_by_side
from algoformer.common.plain_data import check_count
from algoformer.language.batches import source_batch
from algoformer.language.cache import Policy
from algoformer.language.checkpoint import TextModelFile, TextTool
from algoformer.language.decode import fast_products
from algoformer.language.lines import batched, one_line, prepared
from algoformer.language.search import Generation, generate
from algoformer.language.sentences import sentences
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import EOS, Tokenizer
from algoformer.language.tokens import TokenTable
from algoformer.model.stopping import StoppingRule

SIGNS = (".", "!", "?", ":", ";")
"""Punctuation after which a text that is too long is cut first."""

STEP = 8
"""Source sentences are padded to a multiple of this length."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Options of the search for translations.

    Attributes:
        beam: the beam width; 1 is greedy search.
        length_penalty: as for `beam_search`.
        policy: the policy of the KV cache.
        steps: iterations of the loop; None means as many as in training.
        early_exit: as for `CachedDecoder`.
        captured: as for `CachedDecoder`.
        whole_lines: translate a line of several sentences at once, for models trained on paragraphs.
        batch: the number of sentences in a batch.
        ahead: the number of batches of lines that are read ahead, to group sentences of similar length.
        flag_below: translations with a lower mean log-probability per token are flagged; -inf flags none.
            With the shipped German-English model and a beam of 4, sixteen everyday sentences scored between
            -0.05 and -0.32; fourteen texts unlike its training data (legal and technical German, other
            languages, code, random letters), all translated to nonsense, between -0.66 and -1.71.
    """

    beam: int = 4
    length_penalty: int | float = 1.0
    policy: Policy = "full"
    steps: int | None = None
    early_exit: StoppingRule | None = None
    captured: bool | None = None
    whole_lines: bool = False
    batch: int = 32
    ahead: int = 16
    flag_below: float = -0.5

    def __post_init__(self) -> None:
        for name in ("beam", "batch", "ahead"):
            check_count(name, getattr(self, name))
        if math.isnan(self.flag_below):
            raise ValueError("flag_below must be a number, got NaN; -inf flags nothing")


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The translation of one line.

    Attributes:
        text: the translation on one line; empty for a line without words.
        score: the mean log-probability per generated token, at most 0; NaN for a line without words.
        flagged: whether `score` lies below `Decoding.flag_below`, so that the text is probably nonsense.
    """

    text: str
    score: float
    flagged: bool


class Translator(TextTool[TokenModel]):
    """A trained translation model and its tokenizer, ready for lines of text.

    A line is translated sentence by sentence. A sentence (or with `whole_lines` a line) that leaves no room
    for its translation is split again, after punctuation if possible, otherwise between words.

    Args:
        checkpoint: a translation model; it stays on its device.
        decoding: the search options.

    Attributes:
        answers: the number of tokens generated so far, end tokens included.
        iterations: the mean number of loop iterations per generated token.

    Raises:
        ValueError: the checkpoint holds another kind of model, or has no tokenizer.
    """

    def __init__(self, checkpoint: TextModelFile, decoding: Decoding | None = None) -> None:
        super().__init__(checkpoint, TokenModel, "translator")
        if not is_translator(checkpoint):
            raise ValueError(
                "the checkpoint holds a language model that was not trained to translate; use generate, or "
                "put card={'kind': 'translation'} into the TextCheckpoint if it was"
            )
        self.decoding = decoding or Decoding()

    @property
    def longest(self) -> int:
        """The maximum number of source tokens that leaves as much room for the translation."""
        return max(1, (self.model.context - 1) // 2)

    def translate(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the text of the translation of each line, in order."""
        return (translation.text for translation in self.translations(lines))

    def translations(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Yield the translation of each line with its score, in order."""
        for block in batched(lines, self.decoding.batch * self.decoding.ahead):
            parts = [self._parts(line) for line in block]
            found = iter(self._decode(self.tokenizer.encode_all(list(chain.from_iterable(parts)))))
            for some in parts:
                yield self._joined(chain.from_iterable(islice(found, len(some))))

    def translate_encoded(self, encoded: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of the translations of tokenized texts, which are not split into sentences."""
        return [self._joined(pieces).text for pieces in self._decode(encoded)]

    def _joined(self, pieces: Iterable[_Decoded]) -> Translation:
        """Put the pieces of one line together."""
        decoded = list(pieces)
        tokens = sum(piece.tokens for piece in decoded)
        score = sum(piece.log_probability for piece in decoded) / tokens if tokens else math.nan
        text = " ".join(piece.text for piece in decoded if piece.text)
        return Translation(text=text, score=score, flagged=score < self.decoding.flag_below)

    def _parts(self, line: str) -> list[str]:
        """Split a line into the parts that are translated one by one, spelled like the training text."""
        # sentence boundaries are recognized by capitals, so split before lowercasing
        text = prepared(line, lowercase=False)
        parts = [text] if self.decoding.whole_lines else sentences(text)
        return [prepared(part, lowercase=self.lowercase) for part in parts]

    def _decode(self, encoded: Sequence[Sequence[int]]) -> list[list[_Decoded]]:
        """Translate tokenized texts of any length, in the pieces they are cut into."""
        pieces = [cut(tokens, self.tokenizer, self.longest) for tokens in encoded]
        sources = TokenTable.of(chain.from_iterable(pieces))
        groups = list(self._groups(sources.lengths.tolist()))
        batches = [partial(self._generate, sources, np.array(places), length) for length, places in groups]
        with fast_products(self.model):
            generations = run_side_by_side(batches, self.model.output_weight.device)
        decoded: dict[int, _Decoded] = {}
        for (_, places), generation in zip(groups, generations, strict=True):
            decoded.update(zip(places, self._decoded(generation), strict=True))
        in_order = iter(sorted(decoded))
        return [[decoded[place] for place in islice(in_order, len(some))] for some in pieces]

    def _groups(self, lengths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Yield batches of rows with the one length that each batch is padded to.

        That length follows from a sentence alone, as does the maximum length of its translation, so that a
        translation does not depend on the other lines.
        """
        padded = [min(-(-(length + 1) // STEP) * STEP, self.longest + 1) for length in lengths]
        for length in sorted(set(padded)):
            places = [place for place, one in enumerate(padded) if one == length]
            for some in batched(places, self.decoding.batch):
                yield length, some

    def _generate(self, sources: TokenTable, rows: np.ndarray, length: int) -> Generation:
        how = self.decoding
        given = source_batch(sources, rows, length=length).to(self.model.output_weight.device)
        # the translation of a few words may be longer than they are, that of many is hardly twice as long
        longest = min(2 * length + STEP, self.model.context - length + 1)
        return generate(
            self.model,
            given.ids,
            given.mask,
            eos_id=EOS,
            max_new_tokens=longest,
            beam=how.beam,
            length_penalty=how.length_penalty,
            steps=how.steps,
            policy=how.policy,
            early_exit=how.early_exit,
            captured=how.captured,
        )

    def _decoded(self, found: Generation) -> list[_Decoded]:
        counts = found.lengths[:, 0].tolist()
        self.count(sum(counts), found.iterations)
        penalty, scores = self.decoding.length_penalty, found.scores[:, 0].tolist()
        return [
            _Decoded(one_line(self.tokenizer.decode(text)), count, score * count**penalty)
            for text, count, score in zip(found.texts(), counts, scores, strict=True)
        ]


class _Decoded(NamedTuple):
    """The translation of one piece: its text, its tokens, and the sum of their log-probabilities."""

    text: str
    tokens: int
    log_probability: float


def is_translator(checkpoint: TextModelFile) -> bool:
    """Return whether a checkpoint's model was trained to translate.

    Its card says so. A card that does not say what the model was trained on belongs to a translator if the
    model attends to its prefix in both directions (`prefix_lm`), which plain language models do not.
    """
    experiment = checkpoint.card.get("experiment")
    data = experiment.get("data") if isinstance(experiment, Mapping) else None
    kind = data.get("name") if isinstance(data, Mapping) else checkpoint.card.get("kind")
    if kind is None:
        return isinstance(checkpoint.model, TokenModel) and checkpoint.model.prefix_lm
    return kind == "translation"


def cut(tokens: Sequence[int], tokenizer: Tokenizer, longest: int) -> list[list[int]]:
    """Split tokens into parts of at most `longest`, after one of `SIGNS` if possible, else before a word.

    The parts together are the tokens, in order.
    """
    parts, start = [], 0
    while len(tokens) - start > longest:
        pieces = [tokenizer.piece(token) for token in tokens[start : start + longest + 1]]
        place = start + _place_to_cut(pieces)
        parts.append(list(tokens[start:place]))
        start = place
    return [*parts, list(tokens[start:])] if start < len(tokens) else parts


def _place_to_cut(pieces: list[bytes]) -> int:
    longest = len(pieces) - 1
    words = [place for place in range(1, longest + 1) if pieces[place].startswith(b" ")]
    ends = tuple(end.encode() for end in SIGNS)
    sentences = [place for place in words if pieces[place - 1].endswith(ends)]
    # a long line is not cut after a first sentence of two words
    good = [place for place in sentences if 4 * place >= longest]
    return next((found[-1] for found in (good, words) if found), longest)
