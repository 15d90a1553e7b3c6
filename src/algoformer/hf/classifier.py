"""A program as a sequence classifier of `transformers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.installed import transformers
from algoformer.hf.model import ProgramModel
from algoformer.language.classifier import TextClassifier


class AlgoformerForSequenceClassification(ProgramModel):
    """A `TextClassifier` with the interface of `transformers`; its labels are those of `id2label`."""

    def __init__(self, config: AlgoformerConfig) -> None:
        labels = [config.id2label[number] for number in range(config.num_labels)]
        super().__init__(config, TextClassifier, labels=labels)

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
        logits = self.model(input_ids, mask.bool(), self.unroll(steps))[0]
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **kwargs)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


transformers.AutoModelForSequenceClassification.register(
    AlgoformerConfig, AlgoformerForSequenceClassification, exist_ok=True
)
