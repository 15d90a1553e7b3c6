"""Transformers with algorithmic structure.

Write the loop once; train it, prove it, time it, decode it, and see which algorithm it runs. The names are
listed in the order data flows: a task samples prompts, a solver answers them step by step, the answers
are measured.
"""

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
