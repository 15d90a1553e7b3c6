"""Hugging Face `transformers` in both directions; needs the extra `hf`.

Importing this room registers programs with the Auto classes of `transformers`.
"""

from algoformer.hf.card import depth_curve, model_card
from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.convert import to_hf, to_hf_tokenizer
from algoformer.hf.importers import from_hf
from algoformer.hf.loopify import loopify, set_steps
from algoformer.hf.model import AlgoformerForCausalLM, AlgoformerForSequenceClassification

__all__ = [
    "AlgoformerConfig",
    "AlgoformerForCausalLM",
    "AlgoformerForSequenceClassification",
    "depth_curve",
    "from_hf",
    "loopify",
    "model_card",
    "set_steps",
    "to_hf",
    "to_hf_tokenizer",
]
