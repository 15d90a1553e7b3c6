"""Text: corpora, tokenizer, batches and scores."""

from algoformer.language.corpora import load_labelled as load_labelled
from algoformer.language.corpora import load_parallel as load_parallel
from algoformer.language.text import Corpus as Corpus
from algoformer.language.text import LabelledText as LabelledText
from algoformer.language.text import ParallelText as ParallelText
from algoformer.language.tokenizer import Tokenizer as Tokenizer
