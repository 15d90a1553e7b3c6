"""Hugging Face `transformers` in both directions; needs the extra `hf`."""

from algoformer.hf.loopify import loopify, set_steps

__all__ = ["loopify", "set_steps"]
