"""How a model does on a split that it is not trained on, in cross-entropy and right answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from algoformer.language.batches import LabelledBatch
from algoformer.language.classifier import TextClassifier
from algoformer.language.scores import TokenLoss
from algoformer.language.training.experiment import TextSettings
from algoformer.language.training.step import (
    Split,
    TextModel,
    make_batch,
    plan_batches,
    right_answers,
    text_loss,
)
from algoformer.model.program import default_steps
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Cross-entropy at the last iteration, without smoothing; for labels also how many were right."""

    loss: TokenLoss
    right: int | None = None

    @property
    def numbers(self) -> dict[str, float]:
        """The same for a row of metrics."""
        found = {"valid_loss": self.loss.per_token}
        if self.right is not None:
            found["valid_accuracy"] = self.right / max(self.loss.tokens, 1)
        return found


def merit(numbers: Mapping[str, float]) -> tuple[float, float]:
    """What decides which of several validations is the best, the highest: right answers, then the loss.

    A classifier's loss rises again once it is too sure of its few mistakes, while it still learns to make
    fewer; translations have a loss alone.

    >>> early, late = {"valid_loss": 0.2, "valid_accuracy": 0.91}, {"valid_loss": 0.3, "valid_accuracy": 0.92}
    >>> merit(early) < merit(late)
    True
    """
    return numbers.get("valid_accuracy", 0.0), -numbers["valid_loss"]


@torch.no_grad()
def validate(model: TextModel, split: Split, settings: TextSettings, *, half: bool = False) -> Validation:
    """Measure on the whole of a split; the model is in evaluation mode meanwhile.

    Args:
        model: where it is.
        split: every one of its rows must fit the model's context.
        settings: for the size of batches.
        half: whether products may be in bf16.
    """
    device = next(model.parameters()).device
    unroll = Unroll(steps=default_steps(model.program), window=1)
    plan = plan_batches(split, settings, seed=None)
    total, right = TokenLoss(), 0
    training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16) if half else nullcontext():
            for number in range(len(plan)):
                batch = make_batch(split, plan, number).to(device)
                if isinstance(batch, LabelledBatch):
                    assert isinstance(model, TextClassifier)
                    scores = model(batch.ids, batch.mask, unroll)[-1].float()
                    right += right_answers(scores, batch.labels)
                    nats = float(F.cross_entropy(scores, batch.labels, reduction="sum"))
                    total += TokenLoss(nats=nats, tokens=len(batch.labels))
                else:
                    count = int(batch.loss_mask.sum())
                    total += TokenLoss(nats=float(text_loss(model, batch, unroll).mean) * count, tokens=count)
    finally:
        model.train(training)
    return Validation(loss=total, right=right if isinstance(model, TextClassifier) else None)
