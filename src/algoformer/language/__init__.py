"""Text: corpora, tokenizer, batches, scores; models of tokens, decoding with a cache, classification."""

from functools import partial
from typing import TYPE_CHECKING

from algoformer.common.lazy import lazy_attribute, lazy_dir

if TYPE_CHECKING:
    from algoformer.language.cache import KeyValueCache as KeyValueCache
    from algoformer.language.cache import cache_bytes as cache_bytes
    from algoformer.language.checkpoint import TextCheckpoint as TextCheckpoint
    from algoformer.language.classifier import TextClassifier as TextClassifier
    from algoformer.language.corpora import load_labelled as load_labelled
    from algoformer.language.corpora import load_parallel as load_parallel
    from algoformer.language.corpora import register_corpus as register_corpus
    from algoformer.language.decode import CachedDecoder as CachedDecoder
    from algoformer.language.decode import UncachedDecoder as UncachedDecoder
    from algoformer.language.losses import window_cross_entropy as window_cross_entropy
    from algoformer.language.scores import register_metric as register_metric
    from algoformer.language.search import Generation as Generation
    from algoformer.language.search import beam_search as beam_search
    from algoformer.language.search import generate as generate
    from algoformer.language.search import greedy_search as greedy_search
    from algoformer.language.text import Corpus as Corpus
    from algoformer.language.text import LabelledText as LabelledText
    from algoformer.language.text import ParallelText as ParallelText
    from algoformer.language.token_model import TokenModel as TokenModel
    from algoformer.language.tokenizer import Tokenizer as Tokenizer
else:
    __getattr__, __dir__ = partial(lazy_attribute, __name__), partial(lazy_dir, __name__)
