"""Programs as language models and classifiers of `transformers`, for `generate`, `Trainer` and Auto classes.

The KV cache is a stock cache of `transformers` with one entry for each loop, iteration and layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.context import context_of
from algoformer.hf.inputs import (
    check_checkpointing,
    check_embedding,
    check_inputs,
    check_labels,
    check_recompute,
    check_rows,
    has_own_loss,
    kept_rows,
)
from algoformer.hf.installed import transformers
from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.model.program import default_steps, modules_of
from algoformer.trace import Unroll


class ProgramModel(transformers.PreTrainedModel):
    """The parts that every wrapper of a model of this library has; `model` is the model itself."""

    config_class = AlgoformerConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["Layer"]  # noqa: RUF012

    def __init__(self, config: AlgoformerConfig, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__(config)
        self.model: Any = kind(
            config.as_program(),
            vocabulary=config.vocab_size,
            context=config.max_position_embeddings,
            width=config.hidden_size,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            word_dropout=config.word_dropout,
            **options,
        )
        # read once: a program that is read from its configuration in a forward pass could not be compiled
        self.program_steps = default_steps(self.model.program)
        learned = any(layers.positions == "learned" for layers in modules_of(self.model.program))
        self.learned_positions = config.max_position_embeddings if learned else None
        self.gradient_checkpointing = False
        self.built = False
        self.post_init()
        self.built = True

    def initialize_weights(self) -> None:
        """Take the weights that a folder does not hold from a new model, which draws all of its own."""
        if not self.built:
            return
        # `transformers` marks what it has read
        weights = self.model.named_parameters()
        missing = {name: one for name, one in weights if not getattr(one, "_is_hf_initialized", False)}
        if not missing:
            return
        kind: Any = type(self)
        new = dict(kind(self.config).model.named_parameters())
        with torch.no_grad():
            for name, weight in missing.items():
                weight.copy_(new[name])

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding of the tokens."""
        return self.model.trunk.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding of the tokens."""
        self.model.trunk.embedding = value
        self.model.trunk.vocabulary = value.num_embeddings

    def own_model(self) -> Any:
        """Return the model of this library; refuse if it would run for another number of steps."""
        configured = self.config.steps
        if configured not in (None, self.program_steps):
            raise ValueError(
                f"the model is configured for steps={configured} and its program for {self.program_steps}; "
                "set model.config.steps = None, and give Unroll(steps=...) to what from_hf returns"
            )
        return self.model

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Any = checkpoint, every_n_layers: int = 1
    ) -> None:
        if enable:
            check_recompute(self.model.program, gradient_checkpointing_func, every_n_layers)
        self.gradient_checkpointing = enable

    def unroll(self, steps: int | None) -> Unroll:
        """Return how far to run: `steps` of the traced loop, by default as configured."""
        checkpointing = self.gradient_checkpointing and self.training and torch.is_grad_enabled()
        steps = self.config.steps if steps is None else steps
        steps = self.program_steps if steps is None else steps
        return Unroll(steps=steps, window=1, gradient_checkpointing=checkpointing)


class AlgoformerForCausalLM(ProgramModel, transformers.GenerationMixin):
    """A `TokenModel` with the interface of `transformers`; `model` is the `TokenModel` itself.

    >>> from algoformer import programs
    >>> program = programs.algoformer(heads=2, steps=3)
    >>> model = AlgoformerForCausalLM(AlgoformerConfig.of(program, vocab_size=50, hidden_size=16))
    >>> model(torch.randint(50, (4, 7))).logits.shape
    torch.Size([4, 7, 50])
    """

    def __init__(self, config: AlgoformerConfig) -> None:
        super().__init__(config, TokenModel, tied=config.tie_word_embeddings)

    def get_output_embeddings(self) -> nn.Linear | None:
        """Return the map to scores, if it is not the embedding."""
        return self.model.output

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the map to scores."""
        self.model.output = value

    def generate(self, *args: Any, steps: int | None = None, **kwargs: Any) -> Any:
        """Generate tokens as `GenerationMixin.generate` does; `steps` sets how often the traced loop runs."""
        if kwargs.get("assistant_early_exit"):
            raise ValueError("assistant_early_exit needs layers that can be left out; give assistant_model")
        configured = self.config.steps
        self.config.steps = configured if steps is None else steps  # caches are sized by the configuration
        try:
            return super().generate(*args, **kwargs)
        finally:
            self.config.steps = configured

    @transformers.utils.can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return logits, and the loss if labels are given.

        Args:
            input_ids: tokens, (batch, token).
            attention_mask: which tokens are not padding, those in the cache included.
            position_ids: the position of each token; by default tokens that are not padding are counted.
                Without `attention_mask` and KV cache, tokens see those of their own document only if several
                are packed in a row: positions that do not count up by one begin another, as elsewhere in
                `transformers`.
            past_key_values: a KV cache; it belongs to one number of steps.
            labels: the tokens to predict, -100 where there is none; shifted here, as elsewhere in
                `transformers`.
            use_cache: whether to return a cache; by default as configured, and not while training.
            logits_to_keep: number of last tokens whose logits are computed, 0 for all, or their indices.
            steps: how often the traced loop runs; by default as configured.
            kwargs: `return_dict`, and what the loss function takes, such as `num_items_in_batch`; others are
                refused.
        """
        input_ids = check_inputs(input_ids, labels, kwargs, self)
        unroll, kept = self.unroll(steps), kept_rows(logits_to_keep)
        use_cache = (self.config.use_cache and not self.training) if use_cache is None else use_cache
        if unroll.gradient_checkpointing:
            check_checkpointing(use_cache, past_key_values)
        if use_cache and past_key_values is None:
            past_key_values = transformers.DynamicCache()
        context = context_of(self, input_ids, attention_mask, position_ids, past_key_values, unroll.steps)
        states = self.model.trunk(input_ids, unroll, context)[0]
        check_embedding(self.model.output_weight if self.model.tied else states, states)
        logits = self.model.scores(states[:, kept])
        loss = None
        if labels is not None:
            if not has_own_loss(self) and kwargs.get("shift_labels") is None:
                check_labels(labels, logits)
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size, **kwargs)
        return transformers.modeling_outputs.CausalLMOutputWithPast(
            loss=loss, logits=logits, past_key_values=past_key_values if use_cache else None
        )


class AlgoformerForSequenceClassification(ProgramModel):
    """A `TextClassifier` with the interface of `transformers`; its labels are those of `id2label`."""

    def __init__(self, config: AlgoformerConfig) -> None:
        labels = [config.id2label[number] for number in range(config.num_labels)]
        super().__init__(config, TextClassifier, labels=labels)

    @transformers.utils.can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the logits of the labels, and the loss if labels are given.

        Args:
            input_ids: tokens, (batch, token).
            attention_mask: which tokens are not padding; by default all.
            labels: the number of each sequence's label.
            steps: how often the traced loop runs; by default as configured.
            kwargs: `return_dict`, and what the loss function takes, such as `num_items_in_batch`; others are
                refused.
        """
        input_ids = check_inputs(input_ids, labels, kwargs, self)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        check_rows("attention_mask", mask, input_ids.shape)
        logits = self.model(input_ids, mask.bool(), self.unroll(steps))[0]
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **kwargs)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


transformers.AutoConfig.register(AlgoformerConfig.model_type, AlgoformerConfig, exist_ok=True)
transformers.AutoModelForCausalLM.register(AlgoformerConfig, AlgoformerForCausalLM, exist_ok=True)
transformers.AutoModelForSequenceClassification.register(
    AlgoformerConfig, AlgoformerForSequenceClassification, exist_ok=True
)
# here the trainer looks for models whose labels are shifted, and pipelines for the models that they know
_auto = transformers.models.auto.modeling_auto
_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[AlgoformerConfig.model_type] = AlgoformerForCausalLM.__name__
_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES[AlgoformerConfig.model_type] = (
    AlgoformerForSequenceClassification.__name__
)
