"""Optimization: the experiment, schedules, the step, engines, the trainer, run folders."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.checkpoint import Checkpoint as Checkpoint
    from algoformer.checkpoint import load_checkpoint as load_checkpoint
    from algoformer.checkpoint import save_checkpoint as save_checkpoint
    from algoformer.config import Depth as Depth
    from algoformer.config import Ramp as Ramp
    from algoformer.config import TrainConfig as TrainConfig
    from algoformer.shipped import load as load
    from algoformer.training.config import Experiment as Experiment
    from algoformer.training.config import RunOptions as RunOptions
    from algoformer.training.config import build_model as build_model
    from algoformer.training.progress import Callback as Callback
    from algoformer.training.run_folder import load_experiment as load_experiment
    from algoformer.training.run_folder import read_metrics as read_metrics
    from algoformer.training.trainer import Run as Run
    from algoformer.training.trainer import join_torchrun as join_torchrun
    from algoformer.training.trainer import train as train
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
