"""Corpora by name: parallel and labelled text, in splits without overlap."""

from algoformer.language.corpora.catalog import LABELLED as LABELLED
from algoformer.language.corpora.catalog import PARALLEL as PARALLEL
from algoformer.language.corpora.clean import plain as plain
from algoformer.language.corpora.clean import without_moses as without_moses
from algoformer.language.corpora.folder import data_place as data_place
from algoformer.language.corpora.load import load_labelled as load_labelled
from algoformer.language.corpora.load import load_parallel as load_parallel
from algoformer.language.corpora.splits import hold_out as hold_out
from algoformer.language.corpora.splits import together as together
from algoformer.language.corpora.splits import without_overlap as without_overlap
