"""Order and repetition: programs, the loop driver, stopping rules, the AlgoFormer module, its cost."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.model.address import addresses as addresses
    from algoformer.model.algoformer import AlgoFormer as AlgoFormer
    from algoformer.model.driver import ForwardContext as ForwardContext
    from algoformer.model.program import Layers as Layers
    from algoformer.model.program import Loop as Loop
    from algoformer.model.program import Parallel as Parallel
    from algoformer.model.program import Program as Program
    from algoformer.model.stopping import Converged as Converged
    from algoformer.model.stopping import Fixed as Fixed
    from algoformer.model.stopping import Gate as Gate
    from algoformer.model.stopping import KLShift as KLShift
    from algoformer.model.stopping import ProbabilityShift as ProbabilityShift
    from algoformer.model.stopping import SameAnswer as SameAnswer
    from algoformer.model.stopping import StateDifference as StateDifference
    from algoformer.model.stopping import StoppingRule as StoppingRule
    from algoformer.model.stopping import parse_stopping as parse_stopping
    from algoformer.model.two_states import TwoStates as TwoStates
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
