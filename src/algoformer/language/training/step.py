"""One training step on text: a batch of the plan, the window's loss, an update."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from algoformer.language.batches import (
    BatchPlan,
    LabelledBatch,
    TranslationBatch,
    labelled_batch,
    plan_pairs,
    translation_batch,
)
from algoformer.language.classifier import TextClassifier
from algoformer.language.losses import WindowLoss, window_cross_entropy
from algoformer.language.token_model import TokenModel
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.training.experiment import MULTIPLE, TextExperiment, TextSettings
from algoformer.trace import Unroll
from algoformer.training.model_step import ModelStep
from algoformer.training.precision import RoundedBody
from algoformer.training.schedule import learning_rate, unroll_at

TextModel = TokenModel | TextClassifier
Split = TokenPairs | TokenTexts
TextBatch = TranslationBatch | LabelledBatch


class TextStep(ModelStep[TextModel]):
    """A step as a function of its number: which batch, how far to unroll, what dropout leaves out.

    So there is no position and no generator to save. The sums are of the loss, of the cross-entropy at the
    last iteration, and of the tokens that were read.
    """

    def __init__(self, experiment: TextExperiment, model: TextModel, train: Split) -> None:
        super().__init__(experiment, model, None, sums=3)
        self.experiment, self.train = experiment, train
        self.plan = plan_batches(train, experiment.text, seed=experiment.training.seed)
        self.rounded = _HalfText(model) if experiment.training.precision == "bf16" else None

    @property
    def described(self) -> TextExperiment:
        """The experiment."""
        return self.experiment

    def run(self, number: int) -> None:
        """Take the step of this number, counted from 0, and add to `sums`."""
        training = self.experiment.training
        self.optimizer.set_rate(learning_rate(training, number))
        batch = make_batch(self.train, self.plan, number)
        tokens = int(batch.mask.sum())
        unroll = unroll_at(self.experiment, number)
        self.model.train()
        with draws_of(training.seed, number, self.device):
            loss = self.loss(batch.to(self.device), unroll)
            self.descend(loss.mean)
        last = loss.by_step[-1].detach()
        self.sums.add_(torch.stack([loss.mean.detach(), last, torch.full_like(last, tokens)]))

    def loss(self, batch: TextBatch, unroll: Unroll) -> WindowLoss:
        """The loss on a batch, in the precision of the experiment."""
        smoothing = self.experiment.text.smoothing
        if self.rounded is None:
            return text_loss(self.model, batch, unroll, smoothing=smoothing)
        return cast(WindowLoss, self.rounded.call(batch, unroll, smoothing))


class _HalfText(RoundedBody):
    """A model of text whose products are in bf16; its weights, stream, norms and losses stay fp32."""

    def forward(self, batch: TextBatch, unroll: Unroll, smoothing: float) -> WindowLoss:
        """The loss; to be called by `call`, which puts the rounded weights in place."""
        with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, cache_enabled=False):
            return text_loss(cast(TextModel, self.model), batch, unroll, smoothing=smoothing)


def text_loss(
    model: TextModel, batch: TextBatch, unroll: Unroll, *, smoothing: int | float = 0.0
) -> WindowLoss:
    """Mean cross-entropy over the window's iterations: of the tokens of the translation, or of the labels."""
    if isinstance(batch, TranslationBatch):
        assert isinstance(model, TokenModel)
        states = model.states(batch.ids, unroll, prefix=batch.prefix)
        return window_cross_entropy(
            states, model.output_weight, batch.targets, batch.loss_mask, smoothing=smoothing
        )
    assert isinstance(model, TextClassifier)
    scores = model(batch.ids, batch.mask, unroll).float()
    by_step = torch.stack([F.cross_entropy(one, batch.labels, label_smoothing=smoothing) for one in scores])
    return WindowLoss(mean=by_step.mean(), by_step=by_step.detach())


def plan_batches(split: Split, settings: TextSettings, *, seed: int | None) -> BatchPlan:
    """The batches of a split: shuffled and all whole for training, in order of length without a seed."""
    fill = seed is not None
    if isinstance(split, TokenPairs):
        return plan_pairs(split, budget=settings.budget, multiple=MULTIPLE, seed=seed, fill=fill)
    return BatchPlan(
        lengths=split.texts.lengths, budget=settings.budget, multiple=MULTIPLE, seed=seed, fill=fill
    )


def make_batch(split: Split, plan: BatchPlan, number: int) -> TextBatch:
    """Batch `number` of a plan as tensors on the CPU."""
    length, rows = plan.rows(number)
    if isinstance(split, TokenPairs):
        return translation_batch(split, rows, length=length)
    return labelled_batch(split, rows, length=length)


@contextmanager
def draws_of(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Inside, what PyTorch draws (dropout) depends on seed and step alone; outside nothing changes."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(random.Random(f"{seed}/{step}/dropout").getrandbits(31))
        yield


def right_answers(scores: Tensor, labels: Tensor) -> int:
    """How many labels have the highest score."""
    return int((scores.argmax(dim=-1) == labels).sum())
