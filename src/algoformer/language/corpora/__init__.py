"""Corpora by name: parallel and labelled text, in splits without overlap."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.language.corpora.catalog import LABELLED as LABELLED
    from algoformer.language.corpora.catalog import PARALLEL as PARALLEL
    from algoformer.language.corpora.clean import plain as plain
    from algoformer.language.corpora.clean import without_moses as without_moses
    from algoformer.language.corpora.load import data_place as data_place
    from algoformer.language.corpora.load import load_labelled as load_labelled
    from algoformer.language.corpora.load import load_parallel as load_parallel
    from algoformer.language.corpora.load import register_corpus as register_corpus
    from algoformer.language.corpora.splits import hold_out as hold_out
    from algoformer.language.corpora.splits import together as together
    from algoformer.language.corpora.splits import without_overlap as without_overlap
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
