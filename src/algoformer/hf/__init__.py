"""Hugging Face `transformers` in both directions; needs the extra `hf`.

Importing this room registers programs with the Auto classes of `transformers`.
"""

from algoformer.hf.card import depth_curve as depth_curve
from algoformer.hf.card import model_card as model_card
from algoformer.hf.config import AlgoformerConfig as AlgoformerConfig
from algoformer.hf.convert import to_hf as to_hf
from algoformer.hf.convert import to_hf_tokenizer as to_hf_tokenizer
from algoformer.hf.importers import from_hf as from_hf
from algoformer.hf.loopify import loopify as loopify
from algoformer.hf.loopify import set_steps as set_steps
from algoformer.hf.model import AlgoformerForCausalLM as AlgoformerForCausalLM
from algoformer.hf.model import AlgoformerForSequenceClassification as AlgoformerForSequenceClassification
