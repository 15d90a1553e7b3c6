"""Models and tokenizers of this library as those of `transformers`."""

from __future__ import annotations

from typing import Any

import torch

from algoformer.common.names import check_choice
from algoformer.extras import require
from algoformer.hf.classifier import AlgoformerForSequenceClassification
from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.export import export
from algoformer.hf.installed import transformers
from algoformer.hf.model import AlgoformerForCausalLM
from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer
from algoformer.model.formats import FORMATS


def to_hf(model: TokenModel | TextClassifier, format: str = "algoformer") -> Any:
    """Return a language model or a classifier as a model of `transformers`.

    As "algoformer" the weights are shared, not copied, and `save_pretrained` of the result writes a folder
    that `AutoModelForCausalLM.from_pretrained` opens wherever `algoformer.hf` is imported.

    The other formats are those of `transformers` itself. The weights are copied, the number of steps is the
    program's, and everything that reads the format runs the model without this library.
    `programs.servable(program)` says which format fits a program.

    Args:
        model: the model to convert.
        format: "algoformer" for any program, or a name in `model.formats.FORMATS`: "llama", "hrm_text", ...

    Raises:
        ValueError: the model is a prefix language model, which `generate` of `transformers` cannot run, or
            it is not one of the format.
    """
    check_choice("format", format, ("algoformer", *FORMATS))
    if isinstance(model, TokenModel) and model.prefix_lm:
        raise ValueError("a model with prefix_lm=True cannot be generated from by transformers")
    if format != "algoformer":
        if not isinstance(model, TokenModel):
            raise ValueError(f"format={format!r} is for language models; leave it out for a classifier")
        return export(model, format)
    trunk = model.trunk
    options: dict[str, Any] = {
        "vocab_size": trunk.vocabulary,
        "hidden_size": trunk.width,
        "max_position_embeddings": trunk.context,
        "dropout": trunk.dropout,
        "attention_dropout": trunk.attention_dropout,
        "word_dropout": trunk.word_dropout,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    if isinstance(model, TextClassifier):
        options |= {"id2label": dict(enumerate(model.labels))}
        options |= {"label2id": {label: number for number, label in enumerate(model.labels)}}
        wrapper: Any = AlgoformerForSequenceClassification
    else:
        options |= {"tie_word_embeddings": model.tied}
        wrapper = AlgoformerForCausalLM
    with torch.device("meta"):
        wrapped = wrapper(AlgoformerConfig.of(model.program, **options))
    wrapped.model = model
    return wrapped.train(model.training)


def to_hf_tokenizer(tokenizer: Tokenizer, model: TokenModel | TextClassifier | None = None) -> Any:
    """Return a tokenizer as one of `transformers`, with the same token numbers for every text.

    The special tokens are never read from text: a text that spells one is encoded letter by letter. Decoding
    keeps the space before the first word, so that a continuation can be put behind its prompt.

    Args:
        tokenizer: the tokenizer.
        model: the model that it is for, to check that the model has all of its tokens.

    Raises:
        ValueError: the tokenizer has more tokens than the model.
    """
    if model is not None and len(tokenizer) > model.vocabulary:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {model.vocabulary}; "
            "use the tokenizer that the model was trained with"
        )
    tokenizers = require("tokenizers", extra="text")
    model = tokenizers.models.BPE(vocab=tokenizer.pieces, merges=list(tokenizer.merges))
    encoder = tokenizers.Tokenizer(model)
    # one space is put before the first word of every text that is not empty, also if it begins with a space
    encoder.normalizer = tokenizers.normalizers.Prepend(" ")
    encoder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=encoder,
        pad_token=SPECIALS[PAD],
        bos_token=SPECIALS[BOS],
        eos_token=SPECIALS[EOS],
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )
