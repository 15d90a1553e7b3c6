"""Transformers with algorithmic structure.

Write the loop once; train it, prove it, time it, decode it, and see which algorithm it runs. A task samples
prompts, a solver (trained, hand-built or textbook) answers them step by step, and the answers are measured.
"""

from algoformer import algorithms as algorithms
from algoformer import tasks as tasks
from algoformer.evaluation import evaluate as evaluate
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

programs = presets
"""The named programs: `programs.standard`, `programs.looped`, `programs.algoformer`, ..."""

__version__ = "0.1.0"
