"""One training step on text: a batch of the plan, the window's loss, an update."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Literal, NamedTuple, cast, get_args

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
from algoformer.language.losses import Asked, WindowLoss, asked_tokens, window_cross_entropy
from algoformer.language.token_model import TokenModel
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.training.experiment import TextExperiment, TextSettings
from algoformer.trace import Unroll
from algoformer.training.captured import CapturedStep
from algoformer.training.engine import Plan
from algoformer.training.model_step import ModelStep
from algoformer.training.precision import RoundedBody
from algoformer.training.schedule import learning_rate, unroll_at

TextModel = TokenModel | TextClassifier
Split = TokenPairs | TokenTexts
TextBatch = TranslationBatch | LabelledBatch
TextEngine = Literal["auto", "eager", "graph"]


ASKED_MULTIPLE = 1024
"""On CUDA the number of predicted tokens is rounded up to a multiple of this: few numbers, few graphs."""


class StepKind(NamedTuple):
    """What decides which work a step is: two steps of the same kind launch the same kernels."""

    unroll: Unroll
    shape: torch.Size
    asked: int


class TextStep(ModelStep[TextModel]):
    """A step as a function of its number: which batch, how far to unroll, what dropout leaves out.

    So there is no position and no generator to save. The sums are of the loss, of the cross-entropy at the
    last iteration, and of the tokens that were read. On CUDA batches of a kind always lie in the same place,
    and nothing is read back, so that a step can be captured as a graph.
    """

    def __init__(self, experiment: TextExperiment, model: TextModel, train: Split) -> None:
        super().__init__(experiment, model, None, sums=3)
        self.experiment, self.train = experiment, train
        self.plan = plan_batches(train, experiment.text, seed=experiment.training.seed)
        self.rounded = _HalfText(model) if experiment.training.precision == "bf16" else None
        self.given: tuple[TextBatch, Asked | None]
        """What the next step learns from."""
        self._places: dict[tuple[torch.Size, int], list[Tensor]] = {}

    @property
    def described(self) -> TextExperiment:
        """The experiment."""
        return self.experiment

    def run(self, number: int) -> None:
        """Take the step of this number, counted from 0, and add to `sums`."""
        kind = self.prepare(number)
        with self.draws(number):
            self.take(kind.unroll)

    def prepare(self, number: int) -> StepKind:
        """Set the learning rate and put the batch of this number where the step reads it."""
        self.optimizer.set_rate(learning_rate(self.experiment.training, number))
        batch, asked = make_batch(self.train, self.plan, number), None
        if isinstance(batch, TranslationBatch):
            multiple = ASKED_MULTIPLE if self.device.type == "cuda" else 1
            asked = asked_tokens(batch.loss_mask, multiple=multiple)
        count = 0 if asked is None else len(asked.places)
        self.given = self._placed(batch, asked, (batch.ids.shape, count))
        self.model.train()
        return StepKind(unroll_at(self.experiment, number), batch.ids.shape, count)

    def draws(self, number: int) -> AbstractContextManager[None]:
        """Inside, what dropout leaves out depends on the seed and the step's number alone."""
        return draws_of(self.experiment.training.seed, number, self.device)

    def take(self, unroll: Unroll) -> None:
        """Learn from what was given, and add to `sums`."""
        batch, asked = self.given
        loss = self.loss(batch, unroll, asked)
        self.descend(loss.mean)
        last = loss.by_step[-1].detach()
        self.sums.add_(torch.stack([loss.mean.detach(), last, batch.mask.sum().to(last.dtype)]))

    def loss(self, batch: TextBatch, unroll: Unroll, asked: Asked | None = None) -> WindowLoss:
        """The loss on a batch, in the precision of the experiment."""
        smoothing = self.experiment.text.smoothing
        if self.rounded is None:
            return text_loss(self.model, batch, unroll, asked=asked, smoothing=smoothing)
        return cast(WindowLoss, self.rounded.call(batch, unroll, asked, smoothing))

    def _placed(
        self, batch: TextBatch, asked: Asked | None, key: tuple[torch.Size, int]
    ) -> tuple[TextBatch, Asked | None]:
        """The batch on the model's device; on CUDA in the same place as all batches like it."""
        if self.device.type != "cuda":
            return batch.to(self.device), asked
        names = [one.name for one in fields(batch)]
        parts = [getattr(batch, name) for name in names] + list(asked or ())
        # from pinned memory the copy waits for the step before it, and the host for neither
        pinned = [part.pin_memory() for part in parts]
        if key not in self._places:
            self._places[key] = [torch.empty_like(part, device=self.device) for part in parts]
        for place, part in zip(self._places[key], pinned, strict=True):
            place.copy_(part, non_blocking=True)
        lying = self._places[key]
        moved: TextBatch = replace(batch, **dict(zip(names, lying, strict=False)))  # type: ignore[arg-type]
        return moved, None if asked is None else Asked(*lying[len(names) :])


@contextmanager
def open_text_engine(step: TextStep, plan: Plan) -> Iterator[Callable[[int], None]]:
    """Inside, a function that takes the step of a number as planned, with the same result as `step.run`."""
    if plan.engine == "eager":
        yield step.run
        return
    captured = CapturedStep(step)

    def run(number: int) -> None:
        kind = step.prepare(number)
        take = partial(step.take, kind.unroll)
        with step.draws(number):  # trying the step out draws too, and is to leave no trace
            captured.prepare(kind, take)
        with step.draws(number):
            captured.run(kind, take)

    yield run


def plan_text_engine(wanted: TextEngine, device: torch.device) -> Plan:
    """The engine for a run on text.

    >>> print(plan_text_engine("auto", torch.device("cpu")))
    engine eager: only on CUDA steps are captured

    Raises:
        ValueError: there is no such engine for text, or the device cannot do what was asked for.
    """
    if wanted not in get_args(TextEngine):
        raise ValueError(f"engine must be one of {', '.join(get_args(TextEngine))}, got {wanted!r}")
    if wanted == "graph" and device.type != "cuda":
        raise ValueError(f"engine 'graph' needs a CUDA device, got {device}; choose 'eager' or 'auto'")
    if wanted != "auto":
        return Plan(engine=wanted, reason="asked for")
    if device.type != "cuda":
        return Plan(engine="eager", reason="only on CUDA steps are captured")
    return Plan(engine="graph", reason="a graph for each shape of batch")


class _HalfText(RoundedBody):
    """A model of text whose products are in bf16; its weights, stream, norms and losses stay fp32."""

    def forward(self, batch: TextBatch, unroll: Unroll, asked: Asked | None, smoothing: float) -> WindowLoss:
        """The loss; to be called by `call`, which puts the rounded weights in place."""
        with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, cache_enabled=False):
            return text_loss(cast(TextModel, self.model), batch, unroll, asked=asked, smoothing=smoothing)


def text_loss(
    model: TextModel,
    batch: TextBatch,
    unroll: Unroll,
    *,
    asked: Asked | None = None,
    smoothing: int | float = 0.0,
) -> WindowLoss:
    """Mean cross-entropy over the window's iterations: of the tokens of the translation, or of the labels.

    With `asked`, from the batch's `loss_mask`, nothing waits for the device.
    """
    if isinstance(batch, TranslationBatch):
        assert isinstance(model, TokenModel)
        states = model.states(batch.ids, unroll, prefix=batch.prefix)
        wanted = batch.loss_mask if asked is None else asked
        return window_cross_entropy(states, model.output_weight, batch.targets, wanted, smoothing=smoothing)
    assert isinstance(model, TextClassifier)
    scores = model(batch.ids, batch.mask, unroll).float()
    by_step = torch.stack([F.cross_entropy(one, batch.labels, label_smoothing=smoothing) for one in scores])
    return WindowLoss(mean=by_step.mean(), by_step=by_step.detach())


def plan_batches(split: Split, settings: TextSettings, *, seed: int | None) -> BatchPlan:
    """The batches of a split: shuffled and all whole for training, in order of length without a seed."""
    fill = seed is not None
    if isinstance(split, TokenPairs):
        return plan_pairs(split, budget=settings.budget, multiple=settings.multiple, seed=seed, fill=fill)
    return BatchPlan(
        lengths=split.texts.lengths, budget=settings.budget, multiple=settings.multiple, seed=seed, fill=fill
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
