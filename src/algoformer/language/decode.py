"""Score the next token of growing sequences: with a KV cache, or from the start each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.products import onednn_linear, onednn_product
from algoformer.language.cache import KeyValueCache, Policy
from algoformer.language.early_exit import run_with_exit
from algoformer.language.token_model import TokenModel
from algoformer.model.address import inner_steps, with_inner_steps
from algoformer.model.driver import ForwardContext
from algoformer.model.program import default_steps
from algoformer.model.settle import check_rule
from algoformer.model.stopping import StoppingRule
from algoformer.nn import added_to_scores
from algoformer.trace import Unroll

MOST_BEAMS = 8
"""More beams than this do not share a cache: each would have to mask the places of all others."""


class CachedDecoder:
    """A decoder that reads each token once and keeps keys and values in a cache.

    A decoder scores the next token of a batch of sequences that grow by one token at a time.
    After `prefill`, a step without early exit has fixed shapes, writes in place and never waits for the
    device: on CUDA it is captured as a graph at the second token, and replayed from then on.

    Args:
        model: the model, in evaluation mode if it has dropout.
        batch: the number of sequences.
        length: the maximum number of tokens of a sequence, padding included.
        steps: iterations of the traced loop for every token; None means as many as the program says.
        inner: iterations of other loops, as in `Unroll`.
        policy: the cached iterations of a loop, "full" (exact) or "last".
        early_exit: the stopping rule for a generated token. Prefixes are always read in full.
        dtype: the data type of keys and values; None means the model's.
        captured: replay steps as a CUDA graph; None does so where it can be done.
    """

    def __init__(
        self,
        model: TokenModel,
        *,
        batch: int,
        length: int,
        steps: int | None = None,
        inner: Mapping[str, int] | None = None,
        policy: Policy = "full",
        early_exit: StoppingRule | None = None,
        dtype: torch.dtype | None = None,
        captured: bool | None = None,
    ) -> None:
        check_ready(model, length)
        if early_exit is not None:
            check_rule(model.body, early_exit)
        weight = model.output_weight
        possible = weight.is_cuda and early_exit is None
        if captured and not possible:
            raise ValueError("only steps on CUDA without early exit can be captured; leave captured out")
        self.model, self.early_exit = model, early_exit
        self.captured = possible if captured is None else captured
        self.graph: _StepGraph | None = None
        self.inner = inner or {}
        self.cache = KeyValueCache(
            with_inner_steps(model.program, self.inner),
            width=model.trunk.width,
            batch=batch,
            length=length,
            steps=steps,
            policy=policy,
            device=weight.device,
            dtype=dtype or weight.dtype,
        )
        self.iterations = torch.full((batch,), float(self.cache.steps), device=weight.device)

    @property
    def fixed_batch(self) -> bool:
        """True if ended sequences stay in the batch: for a captured step, and for edits of states."""
        return self.captured or bool(self.model.body.edits)

    @torch.no_grad()
    def prefill(
        self, input_ids: Int[Tensor, "batch token"], attention_mask: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch vocabulary"]:
        """Read the prefixes; return the scores of the token after each."""
        given = check_prefix(self.model, input_ids, attention_mask)
        self.cache.begin(given)
        context = self.model.context_of(input_ids, attention_mask, given.sum(dim=1))
        unroll = Unroll(steps=self.cache.steps, window=1, inner=self.inner)
        states = self.model.trunk(input_ids, unroll, replace(context, cache=self.cache.slot))[0]
        self.cache.prefix_done()
        return self.model.scores(last_state(states, given))

    def step(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        """Read one more token of each sequence; return the scores of the token after it."""
        self.cache.reserve()
        if not self.captured or self.model.body.edits:
            return self._read(tokens)  # a captured step would not see edits of states
        if self.graph is None:
            self.graph = _StepGraph(tokens)
            return self._read(tokens)  # whatever is done for the first time is done here
        return self.graph.run(self._read, tokens)

    @torch.no_grad()
    def _read(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        """The part of a step that works on the device alone, which a graph can hold."""
        cache = self.cache
        cache.advance()
        access = self.model.body.access((), cache.steps, self.inner)
        mask = cache.visible[:, None, :, : cache.reach]
        context = ForwardContext(
            positions=cache.positions,
            # converted once for all layers: on CUDA each of them would launch kernels for it
            causal_mask=added_to_scores(mask, cache.dtype) if cache.reads_all else mask,
            cache=cache.slot,
            access=access,
            loop_steps=inner_steps(self.model.program, self.inner) if self.inner else None,
        )
        if self.early_exit is None:
            unroll = Unroll(steps=cache.steps, window=1)
            states = self.model.trunk(tokens.view(cache.batch, cache.beams), unroll, context)[0]
            return self.model.scores(states.flatten(0, 1))
        scores, iterations = run_with_exit(self.model, tokens, cache, context, self.early_exit)
        self.iterations = iterations.float()
        return scores

    def select(self, rows: Int[Tensor, " row"], *, same_prefix: bool = False) -> None:
        """Let sequence i go on from where sequence `rows[i]` is; there may be more or fewer than before."""
        if len(rows) != len(self.iterations):
            self.graph = None  # it works on tensors that are now replaced
        self.cache.select(rows, same_prefix=same_prefix)
        self.iterations = self.iterations.index_select(0, rows)

    def fork(self, beams: int) -> None:
        """Let each sequence go on in several beams, which are consecutive sequences from now on.

        Directly after `prefill`. Later selections have the promise `same_prefix`.
        """
        rows = torch.arange(self.cache.batch, device=self.cache.device).repeat_interleave(beams)
        if self.early_exit is not None or not 1 < beams <= min(MOST_BEAMS, self.model.context):
            self.select(rows)  # each beam is a sequence of its own, with its own cache
            return
        self.cache.fork(beams)
        self.iterations = self.iterations.index_select(0, rows)


class _StepGraph:
    """A step as a CUDA graph."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = torch.empty_like(tokens)
        self.scores: Tensor | None = None
        self.graph = torch.cuda.CUDAGraph()

    def run(self, read: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
        """Replay the step on other tokens, captured first if it was not yet."""
        self.tokens.copy_(tokens)
        if self.scores is None:
            # not torch.cuda.graph(), which collects garbage: a translation has hundreds of batches
            stream = torch.cuda.Stream(tokens.device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.graph.capture_begin()
                try:
                    self.scores = read(self.tokens)
                finally:  # whatever went wrong, what comes after is not to be captured too
                    self.graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
        self.graph.replay()
        return self.scores.clone()  # the next step writes there


class UncachedDecoder:
    """A `CachedDecoder` without a cache: it reads everything again for every token, as a reference."""

    def __init__(
        self, model: TokenModel, *, steps: int | None = None, inner: Mapping[str, int] | None = None
    ) -> None:
        check_ready(model, 1)
        self.model = model
        steps = default_steps(model.program) if steps is None else steps
        self.unroll = Unroll(steps=steps, window=1, inner=inner or {})
        self.iterations = torch.empty(0)
        self.input_ids = self.attention_mask = self.prefix = torch.empty(0)

    @property
    def fixed_batch(self) -> bool:
        """True if ended sequences stay in the batch: for edits of states."""
        return bool(self.model.body.edits)

    def prefill(
        self, input_ids: Int[Tensor, "batch token"], attention_mask: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch vocabulary"]:
        """Read the prefixes; return the scores of the token after each."""
        self.input_ids = input_ids
        self.attention_mask = check_prefix(self.model, input_ids, attention_mask)
        self.prefix = self.attention_mask.sum(dim=1)
        self.iterations = torch.full((len(input_ids),), float(self.unroll.steps), device=input_ids.device)
        return self._scores()

    def step(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        """Read everything again with one more token of each sequence; return the scores of the next one."""
        one = torch.ones_like(tokens, dtype=torch.bool)[:, None]
        self.input_ids = torch.cat([self.input_ids, tokens[:, None]], dim=1)
        self.attention_mask = torch.cat([self.attention_mask, one], dim=1)
        return self._scores()

    def select(self, rows: Int[Tensor, " row"], *, same_prefix: bool = False) -> None:
        """Let sequence i go on from where sequence `rows[i]` is."""
        for name in ("input_ids", "attention_mask", "prefix", "iterations"):
            setattr(self, name, getattr(self, name).index_select(0, rows))

    def fork(self, beams: int) -> None:
        """Let each sequence go on in several beams."""
        self.select(torch.arange(len(self.input_ids), device=self.input_ids.device).repeat_interleave(beams))

    @torch.no_grad()
    def _scores(self) -> Tensor:
        states = self.model.states(
            self.input_ids, self.unroll, attention_mask=self.attention_mask, prefix=self.prefix
        )[0]
        return self.model.scores(last_state(states, self.attention_mask))


Decoder = CachedDecoder | UncachedDecoder
"""The decoders that a search can use."""


@contextmanager
def fast_products(model: TokenModel) -> Iterator[None]:
    """Run a model's products by oneDNN inside the `with` block, where it is on a CPU in fp32.

    The weights are copied: a change of them inside the block is not seen.
    """
    scores = onednn_product(model.output_weight, packed=True) if type(model) is TokenModel else None
    with onednn_linear(model, packed=True):
        if scores is None or "scores" in vars(model):
            yield
            return
        model.scores = scores  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            del model.scores


def last_state(
    states: Float[Tensor, "batch token width"], attention_mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch width"]:
    """Return the state of each sequence's last token that is not padding."""
    order = torch.arange(1, attention_mask.shape[1] + 1, device=attention_mask.device)
    last = (attention_mask * order).argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]


def check_ready(model: TokenModel, length: int) -> None:
    """Refuse a model that would drop things out, and more tokens than it has positions for."""
    trunk = model.trunk
    if model.training and (trunk.dropout or trunk.attention_dropout or trunk.word_dropout):
        raise ValueError("the model is in training mode, with dropout; call model.eval() before decoding")
    if not 1 <= length <= model.context:
        raise ValueError(
            f"prefix and new tokens together are {length}, this model was built for context={model.context}"
        )


def check_prefix(
    model: TokenModel,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None,
) -> Bool[Tensor, "batch token"]:
    """Refuse prefixes that have no next token; return which of their tokens are not padding."""
    if not input_ids.numel():
        raise ValueError(f"a prefix has at least one token, got {input_ids.shape[0]} × {input_ids.shape[1]}")
    low, high = int(input_ids.min()), int(input_ids.max())
    if low < 0 or high >= model.vocabulary:
        raise ValueError(f"tokens lie in 0..{model.vocabulary - 1}, got {low}..{high}")
    if attention_mask is None:
        return torch.ones_like(input_ids, dtype=torch.bool)
    if attention_mask.shape != input_ids.shape:
        shapes = tuple(attention_mask.shape), tuple(input_ids.shape)
        raise ValueError(f"attention_mask has shape {shapes[0]}, the tokens have {shapes[1]}")
    if not bool(attention_mask.any(dim=1).all()):
        raise ValueError("a sequence of nothing but padding has no next token; give it at least one token")
    return attention_mask
