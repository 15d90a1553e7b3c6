"""A training step's state to a checkpoint and back, so that a run goes on as if it had never stopped."""

from __future__ import annotations

import copy
import logging
import math
import random
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from algoformer.model.algoformer import AlgoFormer
from algoformer.training.checkpoint import Checkpoint
from algoformer.training.config import is_data_of
from algoformer.training.model_step import ModelStep
from algoformer.common.provenance import source_commit
from algoformer.training.sharded import cut_like
from algoformer.training.step import TrainingStep

logger = logging.getLogger("algoformer.training")


@runtime_checkable
class Restorable(Protocol):
    """What a checkpoint of any kind of model holds."""

    @property
    def model(self) -> nn.Module:
        """The model to use."""
        ...

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts about it."""
        ...

    @property
    def state(self) -> Mapping[str, Tensor]:
        """Further tensors by name."""
        ...


RAW = "weights."
"""Under this name a checkpoint keeps the weights that the optimizer moves, if its model is their average."""


def capture(step: TrainingStep, card: Mapping[str, Any]) -> Checkpoint:
    """Everything that the next step depends on; `card` must hold the steps done and the seconds taken.

    The checkpoint's model is the one to use, also where that is an average of the weights: whoever loads
    the file cannot take the wrong one by mistake. The card's `weights` says which it is.

    With several processes all of them take part, and that of the first is the one to keep: it is the same
    as if the run had one process.
    """
    return Checkpoint(
        model=step.spread.whole_model(step.trained),
        task=step.experiment.task,
        card={**card, **facts_of(step)},
        state=state_of(step),
    )


def state_of(step: ModelStep) -> dict[str, Tensor]:
    """All tensors that the next step depends on, besides the model to use."""
    spread = step.spread
    state = {"sums": spread.average(step.sums)}
    if step.generator is not None:
        state["generator"] = step.generator.get_state()
    kept = step.optimizer.state
    for name, weight in step.model.named_parameters():
        state |= {f"optimizer.{name}.{key}": value for key, value in kept.get(weight, {}).items()}
    if step.average is not None:
        state |= {f"{RAW}{name}": value for name, value in step.model.state_dict().items()}
    return {name: spread.whole(value) for name, value in state.items()}


def facts_of(step: ModelStep) -> dict[str, Any]:
    """What a checkpoint's card says of any run."""
    return {
        "weights": "raw" if step.average is None else "average",
        "experiment": step.described.to_data(),
        "torch": torch.__version__,
        "commit": source_commit(),
    }


def restore(step: ModelStep, checkpoint: Restorable) -> tuple[int, float]:
    """Bring a fresh training step to where the checkpoint was made; the steps and seconds it had taken.

    Raises:
        ValueError: the checkpoint is of another experiment, or lacks something a run needs.
    """
    card, state, experiment = checkpoint.card, checkpoint.state, step.described
    if not is_data_of(card.get("experiment"), experiment):
        raise ValueError("the checkpoint is not one of this experiment's; start again in another folder")
    done, seconds = card.get("step"), card.get("seconds")
    if type(done) is not int or not 0 <= done <= experiment.training.steps:
        raise ValueError(f"the checkpoint's step must lie in 0..{experiment.training.steps}, got {done}")
    if not isinstance(seconds, float) or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"the checkpoint's seconds must be a positive number, got {seconds!r}")
    _restore_optimizer(step, state, started=done > 0)
    step.sums.copy_(_tensor(state, "sums", step.sums))
    if step.generator is not None:
        _restore_generator(step, step.generator, state, done)
    own = step.trained.state_dict()
    weights = checkpoint.model.state_dict()
    try:
        step.trained.load_state_dict(
            {name: cut_like(weight, own.get(name, weight)) for name, weight in weights.items()}
        )
    except RuntimeError as error:
        raise ValueError(f"the checkpoint's weights are not this experiment's: {error}") from None
    if step.average is not None:
        step.average.updates.fill_(done)
        for name, value in step.model.state_dict().items():
            value.copy_(_tensor(state, f"{RAW}{name}", value))
    return done, seconds


def raw_model(checkpoint: Checkpoint) -> AlgoFormer:
    """The model with the weights that the optimizer moved last, also if the checkpoint's is their average.

    Raises:
        ValueError: the checkpoint holds nothing but the average.
    """
    if checkpoint.card.get("weights") != "average":
        return checkpoint.model
    model = copy.deepcopy(checkpoint.model)
    for name, value in model.state_dict().items():
        if f"{RAW}{name}" not in checkpoint.state:
            raise ValueError("it holds an average of weights only, without the weights themselves")
        value.copy_(_tensor(checkpoint.state, f"{RAW}{name}", value))
    return model


def _restore_optimizer(step: ModelStep, state: Mapping[str, Tensor], *, started: bool) -> None:
    for name, weight in step.model.named_parameters():
        if not started:
            continue
        kept = {
            key: _tensor(state, f"optimizer.{name}.{key}", like).to(weight.device).clone()
            for key, like in step.optimizer.state_like(weight).items()
        }
        step.optimizer.load_state(weight, kept)


def _restore_generator(
    step: ModelStep, generator: torch.Generator, state: Mapping[str, Tensor], done: int
) -> None:
    stored = state.get("generator")
    if stored is None or stored.dtype != torch.uint8 or stored.ndim != 1:
        raise ValueError("the checkpoint lacks the state of the random generator")
    if stored.shape == generator.get_state().shape:
        try:
            generator.set_state(stored)
        except RuntimeError as error:
            raise ValueError(f"the checkpoint's random generator cannot be read: {error}") from None
        return
    # another kind of device has another kind of generator: go on with prompts that were not seen yet
    logger.warning("the run was on another kind of device: it goes on, with other prompts than there")
    fresh = random.Random(f"{step.described.training.seed}/{done}/{step.device.type}").randrange(2**30)
    generator.manual_seed(2 * fresh)


def _tensor(state: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    found = state.get(name)
    if found is None:
        raise ValueError(f"the checkpoint lacks {name!r}")
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(
            f"the checkpoint's {name!r} is {tuple(found.shape)} of {found.dtype}, "
            f"needed is {tuple(like.shape)} of {like.dtype}"
        )
    return cut_like(found, like)
