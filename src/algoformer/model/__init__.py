"""Order and repetition: programs, presets, tokens, the loop, the AlgoFormer module, its cost."""

from algoformer.model.address import addresses as addresses
from algoformer.model.algoformer import AlgoFormer as AlgoFormer
from algoformer.model.program import Layers as Layers
from algoformer.model.program import Loop as Loop
from algoformer.model.program import Parallel as Parallel
from algoformer.model.program import Program as Program
