"""Plain text as training data: a language model predicts the next token."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.common.plain_data import as_data
from algoformer.config import TrainConfig
from algoformer.data.exits import token_loss
from algoformer.data.files import TERMS, read_text
from algoformer.data.protocol import Loss, Share
from algoformer.data.text_base import BaseTextData, HeldBatch, Paths, TextBatch, evaluating
from algoformer.data.token_file import GIVEN, TokenFile, files_of_splits, split_blocks, token_files
from algoformer.extras import require
from algoformer.language.decode import CachedDecoder
from algoformer.language.lines import batched
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.model.program import Program, default_steps
from algoformer.model.stopping import StoppingRule
from algoformer.trace import Unroll

VALIDATION_TOKENS = 65_536
"""At most this many tokens are read in one validation while training."""

TOKENIZER_TEXT = 50_000
"""Blocks of text that a BPE is learned from, at most: about 200 MB."""

EXIT_BATCH = 32
"""Sequences that are scored at a time under a stopping rule."""

NO_TEXT = "there is no text to validate or test on; give more text, or files of its own"


@dataclass(frozen=True, kw_only=True)
class LanguageScores:
    """The scores of a language model on held-out text, after each number of iterations.

    Attributes:
        cross_entropy: nats per token, one entry for each iteration from the first to the last.
        perplexity: its exponential.
        bits_per_byte: the same in bits, per byte of UTF-8 text that the predicted tokens stand for:
            comparable between tokenizers.
        tokens: how many tokens were predicted.
        iterations: the numbers of iterations; under a stopping rule there is one entry, their mean per token.
    """

    cross_entropy: tuple[float, ...]
    bits_per_byte: tuple[float, ...]
    tokens: int
    iterations: tuple[int | float, ...]

    @property
    def perplexity(self) -> tuple[float, ...]:
        """The exponential of the cross-entropy."""
        return tuple(math.exp(min(one, 700.0)) for one in self.cross_entropy)

    def to_data(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {**as_data(self), "perplexity": list(self.perplexity)}


@dataclass(frozen=True, kw_only=True)
class TextData(BaseTextData):
    """Plain text files and folders, packed into sequences of one length.

    Batches are random windows of the training tokens, which are memory-mapped: the corpus may be larger than
    memory. Batch n depends on the seed and n alone.
    """

    files: Paths = ()
    """Text files, and folders of .txt and .md files."""
    validation: Paths = ()
    """Files to validate on; none holds out blocks of the training files."""
    test: Paths = ()
    """Files to report on; none holds out blocks of the training files."""
    tokenize: str = "bpe"
    """"bpe" learns byte pairs from the training text, "char" has a token for each character of it, and
    anything else is the path of a tokenizer.json."""
    context: int = 256
    """Tokens of a sequence."""
    tied: bool = True
    """Use the embedding as the output matrix too."""
    cache: str | None = field(default=None, compare=False)
    """The folder for token files; None takes $ALGOFORMER_CACHE, then the user's cache."""

    name: ClassVar[str] = "text"
    measures: ClassVar[tuple[str, ...]] = ("loss", "last_loss")
    fixed_shapes: ClassVar[bool] = True
    path_settings: ClassVar[tuple[str, ...]] = ("files", "validation", "test")
    counts: ClassVar[tuple[str, ...]] = ("vocabulary", "context")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.files:
            raise ValueError("files must name at least one text file or folder, such as book.txt")

    @cached_property
    def known_tokenizer(self) -> Tokenizer:
        """The tokenizer: the given one, or the one that `tokenize` asks for."""
        if self.tokenizer is not None:
            return self.tokenizer
        if self.tokenize == "bpe":
            blocks = islice(self._training_blocks(), TOKENIZER_TEXT)
            return Tokenizer.train(blocks, vocabulary=self.vocabulary)
        if self.tokenize == "char":
            return character_tokenizer(self._training_blocks())
        return Tokenizer.from_json(read_text(self.tokenize, "tokenize"))

    @cached_property
    def splits(self) -> dict[str, TokenFile]:
        """The tokens of the splits, memory-mapped; tokenized when first asked for."""
        cache = None if self.cache is None else Path(self.cache)
        return token_files(self._files, self.known_tokenizer, seed=self.split_seed, cache=cache)

    def _new_model(self, program: Program, **sizes: Any) -> TokenModel:
        return TokenModel(program, context=self.context, tied=self.tied, **sizes)

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model of another kind, vocabulary or with less context."""
        super().check_model(model)
        if model.context < self.context:  # type: ignore[operator]
            raise ValueError(f"the model has room for {model.context} tokens, a sequence has {self.context}")

    def batches(self, model: nn.Module, training: TrainConfig, share: Share) -> WindowBatches:
        """Open random windows of the training tokens."""
        return WindowBatches(self, next(model.parameters()).device, training, share)

    def loss(self, model: Any, batch: TextBatch, unroll: Unroll, training: TrainConfig) -> Loss:
        """Return the cross-entropy of the next token over the window, and that of the last iteration."""
        found = token_loss(model, batch["input_ids"], batch["targets"], None, unroll, training)
        return Loss(found.mean, (found.mean.detach(), found.by_step[-1].detach()))

    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Return cross-entropy, perplexity and bits per byte of the validation text at the last iteration."""
        found = self._scores(model, self.splits["valid"], window=1, limit=VALIDATION_TOKENS, bf16=bf16)
        return {
            "valid_loss": found.cross_entropy[-1],
            "valid_perplexity": found.perplexity[-1],
            "valid_bits_per_byte": found.bits_per_byte[-1],
        }

    def evaluate(self, model: nn.Module, **options: Any) -> LanguageScores:
        """Score a model on the test text after every number of iterations.

        Args:
            model: the language model.
            options: `split` ("test" or "valid"), `limit`, the most tokens to read (None reads all), and
                `early_exit`, a stopping rule: tokens are then read one by one with a KV cache, as in
                decoding, and the first one of each sequence runs all iterations.
        """
        self.check_model(model)
        name = options.pop("split", "test")
        limit, rule = options.pop("limit", None), options.pop("early_exit", None)
        if options:
            strange = ", ".join(options)
            raise ValueError(f"plain text is evaluated with split, limit and early_exit, got {strange}")
        split = self.splits[name]
        self.check_held_out(GIVEN[name])
        return self._scores(model, split, window=None, limit=limit, bf16=False, early_exit=rule)

    @property
    def text_is_read(self) -> bool:
        """True if the text was read and tokenized already."""
        return "splits" in self.__dict__

    @cached_property
    def text_digest(self) -> str:
        """The SHA-256 of the training tokens' number and of their first and last million."""
        tokens = self.splits["train"].tokens
        digest = hashlib.sha256(str(len(tokens)).encode())
        for part in (tokens[:1_000_000], tokens[-1_000_000:]):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return what a card says about the text."""
        return {"corpus": "+".join(Path(path).name for path in self._paths("files")), "terms": TERMS}

    @property
    def _files(self) -> dict[str, list[Path]]:
        return files_of_splits({split: self._paths(name) for split, name in GIVEN.items()})

    def _training_blocks(self) -> Iterator[str]:
        return (block for block in split_blocks(self._files, "train", self.split_seed) if block is not None)

    @torch.no_grad()
    def _scores(
        self,
        model: Any,
        split: TokenFile,
        *,
        window: int | None,
        limit: int | None,
        bf16: bool,
        early_exit: StoppingRule | None = None,
    ) -> LanguageScores:
        tokens = np.asarray(split.tokens[: min(len(split), limit or len(split))], dtype=np.int64)
        if len(tokens) < 2:
            raise ValueError(NO_TEXT)
        whole = torch.from_numpy(tokens).to(next(model.parameters()).device)
        pieces = [whole[start : start + self.context + 1] for start in range(0, len(whole) - 1, self.context)]
        unroll = Unroll(steps=default_steps(model.program), window=window)
        nats = torch.zeros(unroll.length, dtype=torch.float64)
        iterations: tuple[int | float, ...] = tuple(range(unroll.first_step, unroll.steps + 1))
        with evaluating(model, bf16=bf16):
            if early_exit is not None:
                nats, taken = nats_with_exit(model, pieces, early_exit)
                iterations = (taken / (len(tokens) - 1),)
            else:
                for piece in pieces:
                    found = token_loss(model, piece[None, :-1], piece[None, 1:], None, unroll, None)
                    nats += found.by_step.double().cpu() * (len(piece) - 1)
        per_token = (nats / (len(tokens) - 1)).tolist()
        # the first token is given, not predicted
        text_bytes = max(split.bytes_between(1, len(tokens), self.known_tokenizer), 1)
        return LanguageScores(
            cross_entropy=tuple(per_token),
            bits_per_byte=tuple(one / math.log(2) / text_bytes for one in nats.tolist()),
            tokens=len(tokens) - 1,
            iterations=iterations,
        )


def nats_with_exit(model: TokenModel, pieces: list[Tensor], rule: StoppingRule) -> tuple[Tensor, float]:
    """Return the cross-entropy of pieces of text under a stopping rule and the iterations, both summed.

    Every token but the first of a piece is predicted, from the tokens before it, as decoding would do it.
    """
    nats, iterations = torch.zeros(1, dtype=torch.float64), 0.0
    by_length = groupby(pieces, key=len)  # all but the last have the same length
    for ids in (torch.stack(some) for _, same in by_length for some in batched(same, EXIT_BATCH)):
        decoder = CachedDecoder(model, batch=len(ids), length=ids.shape[1] - 1, early_exit=rule)
        scores = decoder.prefill(ids[:, :1])
        for place in range(1, ids.shape[1]):
            nats += float(F.cross_entropy(scores.float(), ids[:, place], reduction="sum"))
            iterations += float(decoder.iterations.sum())
            if place + 1 < ids.shape[1]:
                scores = decoder.step(ids[:, place])
    return nats, iterations


class WindowBatches(HeldBatch):
    """Random windows of memory-mapped tokens, `batch_size` of them; the seed and the step decide which."""

    def __init__(self, data: TextData, device: torch.device, training: TrainConfig, share: Share) -> None:
        share.check_batch_size(training.batch_size)
        super().__init__(device)
        self.data, self.training, self.share = data, training, share
        self.tokens = data.splits["train"].tokens
        if len(self.tokens) <= data.context:
            raise ValueError(
                f"the training text has {len(self.tokens)} of the {data.context + 1} tokens "
                "of one sequence; give more text, or choose a smaller context"
            )
        if training.validate_every is not None and len(data.splits["valid"]) < 2:
            raise ValueError(NO_TEXT)

    def select(self, step: int) -> Hashable:
        """Read the windows of a step, this process's share of them, and put them on the device."""
        count, length = self.training.batch_size, self.data.context + 1
        raw = np.random.PCG64(np.random.SeedSequence([self.training.seed, step])).random_raw(count)
        starts = (raw % np.uint64(len(self.tokens) - length + 1)).astype(np.int64)
        if self.share.processes > 1:
            starts = starts[self.share.rank :: self.share.processes]
        rows = np.stack([self.tokens[start : start + length] for start in starts]).astype(np.int64)
        windows = torch.from_numpy(rows)
        batch = {"input_ids": windows[:, :-1].contiguous(), "targets": windows[:, 1:].contiguous()}
        self.hold(batch, None)
        return None


def character_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Return a tokenizer with one token for each character of the texts, and bytes for all others.

    >>> tokenizer = character_tokenizer(["schön"])
    >>> [tokenizer.decode([token]) for token in tokenizer.encode("öh")][1:]
    ['ö', 'h']
    """
    characters = sorted({character for text in texts for character in set(text) if ord(character) > 127})
    library = require("tokenizers", extra="text")
    letters = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    merges: dict[tuple[str, str], None] = {}
    for character in characters:
        ((pieces, _),) = letters.pre_tokenize_str(character)  # one letter for each byte
        for end in range(1, len(pieces)):
            merges[pieces[:end], pieces[end]] = None
    return Tokenizer(merges)
