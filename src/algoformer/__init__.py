"""A PyTorch library for looped transformers.

Describe the architecture as a value, train it, build it from a theorem, run it to any depth, decode with it,
and find out which algorithm its loop runs.

Names are imported when they are first used, so that the command line prints help, and can be stopped by
Ctrl-C, without waiting for PyTorch.
"""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    import algoformer.hf as hf  # noqa: F401
    from algoformer import algorithms as algorithms
    from algoformer import data as data
    from algoformer import evaluation as evaluation
    from algoformer import insight as insight
    from algoformer import language as language
    from algoformer import model as model
    from algoformer import nn as nn
    from algoformer import onnx as onnx
    from algoformer import problems as problems
    from algoformer import prompt as prompt
    from algoformer import report as report
    from algoformer import search as search
    from algoformer import tasks as tasks
    from algoformer import theory as theory
    from algoformer import trace as trace
    from algoformer import training as training
    from algoformer.evaluation import evaluate as evaluate
    from algoformer.insight import certify as certify
    from algoformer.insight import identify as identify
    from algoformer.model import AlgoFormer as AlgoFormer
    from algoformer.model import Layers as Layers
    from algoformer.model import Loop as Loop
    from algoformer.model import Parallel as Parallel
    from algoformer.model import Program as Program
    from algoformer.model import TwoStates as TwoStates
    from algoformer.model import presets as programs  # noqa: F401
    from algoformer.prompt import Prompt as Prompt
    from algoformer.shipped import load as load
    from algoformer.trace import Carry as Carry
    from algoformer.trace import Solver as Solver
    from algoformer.trace import Trace as Trace
    from algoformer.trace import Unroll as Unroll
    from algoformer.training import Experiment as Experiment
    from algoformer.training import TrainConfig as TrainConfig
    from algoformer.training import train as train
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)

__version__ = "0.1.0"
