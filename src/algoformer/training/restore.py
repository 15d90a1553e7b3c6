"""Checkpoints of a run back into live objects: a training step, or the weights that the optimizer moved."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

from torch import Tensor, nn

from algoformer.checkpoint import Checkpoint
from algoformer.training.config import is_data_of
from algoformer.training.step import RAW, Step


def restore(step: Step, checkpoint: Checkpoint) -> tuple[int, float]:
    """Bring a fresh training step to where the checkpoint was made; return the steps and seconds it took.

    Raises:
        ValueError: the checkpoint is of another experiment, or lacks something a run needs.
    """
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


def raw_model(checkpoint: Checkpoint) -> nn.Module:
    """Return the model with the weights that the optimizer moved last, also where the file has their average.

    Raises:
        ValueError: the checkpoint holds nothing but the average.
    """
    model: nn.Module = checkpoint.model
    if checkpoint.card.get("weights") != "average":
        return model
    model = copy.deepcopy(model)
    for name, value in model.state_dict().items():
        if f"{RAW}{name}" not in checkpoint.state:
            raise ValueError("it holds an average of weights only, without the weights themselves")
        value.copy_(_checked(checkpoint.state, f"{RAW}{name}", value))
    return model


def _restore_optimizer(step: Step, state: Mapping[str, Tensor]) -> None:
    for name, weight in step.model.named_parameters():
        kept = _tensors(step, state, f"optimizer.{name}.", step.optimizer.state_like(weight))
        step.optimizer.load_state(
            weight, {key: value.to(weight.device).clone() for key, value in kept.items()}
        )


def _tensors(
    step: Step, state: Mapping[str, Tensor], prefix: str, like: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    whole = {name: _checked(state, f"{prefix}{name}", value) for name, value in like.items()}
    return step.group.shard_like(whole, like)


def _checked(state: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    found = state.get(name)
    if found is None:
        raise ValueError(f"the checkpoint lacks {name!r}")
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(
            f"the checkpoint's {name!r} is {tuple(found.shape)} of {found.dtype}, "
            f"needed is {tuple(like.shape)} of {like.dtype}"
        )
    return found
