"""Optimization: config, objective, schedules and curricula, the step, the trainer, checkpoints."""

from algoformer.training.checkpoint import Checkpoint as Checkpoint
from algoformer.training.checkpoint import load_checkpoint as load_checkpoint
from algoformer.training.checkpoint import save_checkpoint as save_checkpoint
from algoformer.training.config import Experiment as Experiment
from algoformer.training.config import Ramp as Ramp
from algoformer.training.config import TrainConfig as TrainConfig
from algoformer.training.config import build_model as build_model
from algoformer.training.distributed import join_torchrun as join_torchrun
from algoformer.training.trainer import Run as Run
from algoformer.training.trainer import load_experiment as load_experiment
from algoformer.training.trainer import read_metrics as read_metrics
from algoformer.training.trainer import train as train
