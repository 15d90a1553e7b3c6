"""Architecture search: programs of equal FLOPs, trained with the one engine, chosen by Optuna."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.search.kinds import register_kind as register_kind
    from algoformer.search.reporting import SearchCallback as SearchCallback
    from algoformer.search.result import Outcome as Outcome
    from algoformer.search.result import SearchResult as SearchResult
    from algoformer.search.result import read_result as read_result
    from algoformer.search.settings import Candidate as Candidate
    from algoformer.search.settings import Impossible as Impossible
    from algoformer.search.settings import SearchSettings as SearchSettings
    from algoformer.search.space import Point as Point
    from algoformer.search.space import SearchSpace as SearchSpace
    from algoformer.search.space import space_around as space_around
    from algoformer.search.worker import search as search
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
