"""Bring a fresh training step to where a checkpoint was made."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from algoformer.checkpoint import Checkpoint
from algoformer.training.config import is_data_of
from algoformer.training.optimizer import start_weights
from algoformer.training.step import RAW, Step, checked_tensor


def restore(step: Step, checkpoint: Checkpoint) -> tuple[int, float]:
    """Bring a fresh training step to where the checkpoint was made; return the steps and seconds it took."""
    card, state, experiment = checkpoint.card, checkpoint.state, step.experiment
    if not is_data_of(card.get("experiment"), experiment):
        raise ValueError("the checkpoint is not one of this experiment's; start again in another folder")
    done, seconds = card.get("step"), card.get("seconds")
    if type(done) is not int or not 0 <= done <= experiment.training.steps:
        raise ValueError(f"the checkpoint's step must lie in 0..{experiment.training.steps}, got {done}")
    if not isinstance(seconds, float) or not math.isfinite(seconds) or not 0 <= seconds < 1e12:
        raise ValueError(f"the checkpoint's seconds must be a positive number, got {seconds!r:.40}")
    if done:
        _restore_optimizer(step, state)
    step.sums.copy_(_tensors(step, state, "", {"sums": step.sums})["sums"])
    own = step.trained.state_dict()
    try:
        step.trained.load_state_dict(dict(step.group.shard_like(checkpoint.model.state_dict(), own)))
    except RuntimeError as error:
        raise ValueError(f"the checkpoint's weights are not this experiment's: {str(error)[:200]}") from None
    if step.average is not None:
        step.average.updates.fill_(done * experiment.training.segments)
        weights = step.model.state_dict()
        for name, value in _tensors(step, state, RAW, weights).items():
            weights[name].copy_(value)
    return done, seconds


def _restore_optimizer(step: Step, state: Mapping[str, Tensor]) -> None:
    starts = {id(weight) for weight in start_weights(step.model)}
    for name, weight in step.model.named_parameters():
        like = step.optimizer.state_like(weight)
        if id(weight) in starts and not any(f"optimizer.{name}.{key}" in state for key in like):
            continue  # no step has reached it yet
        kept = _tensors(step, state, f"optimizer.{name}.", like)
        copied = {key: value.to(weight.device).clone() for key, value in kept.items()}
        step.optimizer.load_state(weight, copied)


def _tensors(
    step: Step, state: Mapping[str, Tensor], prefix: str, like: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    whole = {name: checked_tensor(state, f"{prefix}{name}", value) for name, value in like.items()}
    return step.group.shard_like(whole, like)
