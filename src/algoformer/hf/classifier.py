"""A program as a sequence classifier of `transformers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.installed import transformers
from algoformer.language.classifier import TextClassifier
from algoformer.trace import Unroll


class AlgoformerForSequenceClassification(transformers.PreTrainedModel):
    """A `TextClassifier` with the interface of `transformers`; its labels are those of `id2label`."""

    config_class = AlgoformerConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True

    def __init__(self, config: AlgoformerConfig) -> None:
        super().__init__(config)
        self.model = TextClassifier(
            config.as_program(),
            labels=[config.id2label[number] for number in range(config.num_labels)],
            vocabulary=config.vocab_size,
            context=config.max_position_embeddings,
            width=config.hidden_size,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            word_dropout=config.word_dropout,
        )
        self.gradient_checkpointing = False
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the initial weights of `TextClassifier`."""

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding of the tokens."""
        return self.model.trunk.embedding

    def forward(
        self,
        input_ids: Tensor,
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
            kwargs: passed to the loss function.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        checkpointing = self.gradient_checkpointing and self.training
        unroll = Unroll(steps=self.config.run_steps(steps), window=1, gradient_checkpointing=checkpointing)
        logits = self.model(input_ids, mask.bool(), unroll)[0]
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **kwargs)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


transformers.AutoModelForSequenceClassification.register(
    AlgoformerConfig, AlgoformerForSequenceClassification, exist_ok=True
)
