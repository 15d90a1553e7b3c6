"""The corpora of the paper's tables, which `register_corpora` makes known to the library by name."""

from paper.corpora.catalog import LABELLED as LABELLED
from paper.corpora.catalog import PARALLEL as PARALLEL
from paper.corpora.clean import without_moses as without_moses
from paper.corpora.load import data_place as data_place
from paper.corpora.load import register_corpora as register_corpora
