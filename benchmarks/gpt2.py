"""GPT-2 for the section `peers`: our experiment, and the same model of `transformers`."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from algoformer.common.devices import matmul_precision
from algoformer.config import Precision, TrainConfig, learning_rate
from algoformer.data import Share, TextData
from algoformer.data.token_file import TokenFile
from algoformer.extras import require
from algoformer.language import TokenModel
from algoformer.language.tokenizer import SPECIALS, Tokenizer
from algoformer.model import presets
from algoformer.training import Experiment, build_model
from benchmarks.cases import Size, first_step

BATCHES = 32
"""The tokens in the file, in batches."""


@dataclass(frozen=True, kw_only=True)
class RandomText(TextData):
    """Plain text data whose file holds tokens already; they are memory-mapped as those of a corpus."""

    @cached_property
    def splits(self) -> dict[str, TokenFile]:
        """The training tokens."""
        (path,) = self._paths("files")
        tokens = np.memmap(path, dtype=np.uint16, mode="r")
        return {"train": TokenFile(tokens, np.zeros(0, np.int64), text_bytes=tokens.nbytes)}


def gpt2_experiment(size: Size, precision: Precision, folder: Path) -> Experiment:
    """Return the training of GPT-2 on random tokens, which are written to a file in `folder`."""
    path = folder / "random.tokens"
    count = BATCHES * size.gpt_batch * size.gpt_context
    np.random.default_rng(0).integers(size.gpt_vocabulary, size=count, dtype=np.uint16).tofile(path)
    tokenizer = pair_tokenizer(size.gpt_vocabulary)
    training = TrainConfig(
        batch_size=size.gpt_batch,
        window=1,
        optimizer="adamw",
        lr=6e-4,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        schedule="cosine",
        clip_norm=1.0,
        precision=precision,
    )
    return Experiment(
        program=presets.standard(size.gpt_layers, heads=size.gpt_heads),
        data=RandomText(files=str(path), tokenizer=tokenizer, context=size.gpt_context),
        width=size.gpt_width,
        training=training,
    )


def pair_tokenizer(vocabulary: int) -> Tokenizer:
    """Return a tokenizer with this many tokens, which joins pairs of bytes."""
    letters = list(Tokenizer([]).pieces)[len(SPECIALS) :]
    pairs = itertools.product(letters, letters)
    return Tokenizer(itertools.islice(pairs, vocabulary - len(SPECIALS) - len(letters)))


class Theirs:
    """The training step of GPT-2 in `transformers`: our initial weights, batches, learning rates and decay.

    Args:
        timed: our experiment.
        device: where.
        compiled: whether the model goes through `torch.compile`.
        tuned: whether attention is causal without a mask, GELU is PyTorch's own operation, and the compiled
            function returns the loss alone. Compiled by PyTorch before 2.14, `transformers` makes a mask,
            with which there is no flash attention.
    """

    def __init__(
        self, timed: Experiment, device: torch.device, *, compiled: bool = False, tuned: bool = False
    ) -> None:
        self.began = time.perf_counter()
        self.timed, self.step, self.device = timed, first_step(timed), device
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(matmul_precision(timed.training.precision))
        self.model = as_transformers(build_model(timed), "gpt2").to(device)
        self.model.loss_type = (
            "ForCausalLM"  # what it takes anyway, with a warning that splits the compiled code
        )
        if tuned:
            _tune(self.model)
        self.loss: Callable[[Tensor, Tensor], Tensor] = self._loss
        if compiled and tuned:
            self.loss = torch.compile(self._loss)
        elif compiled:
            self.model.compile()
        self.batches = timed.data.batches(self.model, timed.training, Share())
        matrices = [weight for weight in self.model.transformer.h.parameters() if weight.ndim == 2]
        inside = {id(weight) for weight in matrices}
        others = [weight for weight in self.model.parameters() if id(weight) not in inside]
        groups = [
            {"params": others, "weight_decay": 0.0},
            {"params": matrices, "weight_decay": timed.training.weight_decay},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=timed.training.betas, fused=True)

    def take(self, count: int) -> None:
        """Take steps without waiting for the device."""
        for _ in range(count):
            self.learn()

    def learn(self) -> Tensor:
        """Take one step; return the loss before it."""
        config = self.timed.training
        self.batches.select(self.step)
        batch = self.batches.current()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config, self.step)
        bf16 = config.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss = self.loss(batch["input_ids"], batch["targets"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        assert config.clip_norm is not None
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def _loss(self, input_ids: Tensor, targets: Tensor) -> Tensor:
        # the targets are shifted already
        found: Tensor = self.model(input_ids, labels=targets, shift_labels=targets, use_cache=False).loss
        return found

    def close(self) -> None:
        """Give everything back."""
        self.stack.close()


def as_transformers(model: Any, format: str = "algoformer") -> Any:
    """Return a language model as one of `transformers`, for which no token ends a sequence."""
    require("transformers", extra="hf")
    from algoformer.hf import to_hf

    served = to_hf(model, format)
    served.generation_config.eos_token_id = None
    return served


def _tune(model: Any) -> None:
    # an attention function without a function for its mask gets none, and is then causal by itself
    transformers = require("transformers", extra="hf")
    plain = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"]
    transformers.AttentionInterface.register("sdpa_without_mask", plain)
    model.set_attn_implementation("sdpa_without_mask")
    for block in model.transformer.h:
        block.mlp.act = nn.GELU(approximate="tanh")


class Served:
    """Greedy decoding by `generate` of `transformers`, with a static cache.

    On CUDA `transformers` then compiles the step of one token by itself, with CUDA graphs.
    """

    def __init__(self, model: TokenModel, format: str, ids: Tensor, size: Size) -> None:
        self.model = as_transformers(model, format)
        self.ids, self.count = ids, size.generated
        self.cache = require("transformers", extra="hf").StaticCache(
            config=self.model.config, max_cache_len=size.prefix + size.generated
        )

    @property
    def is_compiled(self) -> bool:
        """Whether `transformers` has compiled the model."""
        return hasattr(self.model, "_compiled_call")

    def generate(self) -> Tensor:
        """Return the generated tokens; `generate` makes a cache every time."""
        return self._generate(cache_implementation="static")

    def generate_with_kept_cache(self) -> Tensor:
        """Return the generated tokens; one cache is cleared and used every time."""
        self.cache.reset()
        return self._generate(past_key_values=self.cache)

    @torch.no_grad()
    def _generate(self, **cache: Any) -> Tensor:
        found: Tensor = self.model.generate(
            self.ids,
            attention_mask=torch.ones_like(self.ids),
            max_new_tokens=self.count,
            do_sample=False,
            **cache,
        )
        return found[:, self.ids.shape[1] :]
