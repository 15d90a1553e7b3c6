"""Transformers with algorithmic structure.

Write the loop once; train it, prove it, time it, decode it, and see which algorithm it runs. A task samples
prompts, a solver (trained, hand-built or textbook) answers them step by step, and the answers are measured.

Names are imported when they are first asked for: the command line can then help, and be stopped by Ctrl-C,
before PyTorch is there.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algoformer import algorithms as algorithms
    from algoformer import tasks as tasks
    from algoformer.evaluation import evaluate as evaluate
    from algoformer.insight import certify as certify
    from algoformer.insight import identify as identify
    from algoformer.model import AlgoFormer as AlgoFormer
    from algoformer.model import Layers as Layers
    from algoformer.model import Loop as Loop
    from algoformer.model import Parallel as Parallel
    from algoformer.model import Program as Program
    from algoformer.model import presets
    from algoformer.prompt import Prompt as Prompt
    from algoformer.trace import Solver as Solver
    from algoformer.trace import Trace as Trace
    from algoformer.trace import Unroll as Unroll
    from algoformer.training import Experiment as Experiment
    from algoformer.training import TrainConfig as TrainConfig
    from algoformer.training import load as load
    from algoformer.training import train as train

    programs = presets
    """The named programs: `programs.standard`, `programs.looped`, `programs.algoformer`, ..."""

__version__ = "0.1.0"

_ROOMS = (
    *("algorithms", "data", "evaluation", "insight", "model"),
    *("nn", "problems", "prompt", "tasks", "trace"),
)
_HOMES = {
    "AlgoFormer": "model",
    "Experiment": "training",
    "Layers": "model",
    "Loop": "model",
    "Parallel": "model",
    "Program": "model",
    "Prompt": "prompt",
    "Solver": "trace",
    "Trace": "trace",
    "TrainConfig": "training",
    "Unroll": "trace",
    "certify": "insight",
    "evaluate": "evaluation",
    "identify": "insight",
    "load": "training",
    "presets": "model",
    "programs": "model",
    "train": "training",
}
"""The module of each public name; `programs` is the module `model.presets`."""

__all__ = [*_HOMES, *_ROOMS]


def _found(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"algoformer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'algoformer' has no attribute {name!r}")
    found = getattr(import_module(f"algoformer.{_HOMES[name]}"), {"programs": "presets"}.get(name, name))
    globals()[name] = found
    return found


if not TYPE_CHECKING:
    # a type checker would take it for a promise that every name is there
    __getattr__ = _found


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
