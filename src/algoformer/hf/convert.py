"""Models and tokenizers of this library as those of `transformers`, also in formats that need no plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from algoformer.common.names import check_choice
from algoformer.extras import require
from algoformer.hf.config import AlgoformerConfig
from algoformer.hf.importers import FAMILIES, Family, module_at, stored_layers
from algoformer.hf.installed import transformers
from algoformer.hf.model import AlgoformerForCausalLM, AlgoformerForSequenceClassification
from algoformer.language.checkpoint import TextModelFile
from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer
from algoformer.model.formats import FORMATS, servable
from algoformer.model.parts import LayersModule
from algoformer.model.program import Layers, Loop, Program, modules_of

SPECIAL_TOKENS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}


def to_hf(model: TokenModel | TextClassifier | TextModelFile, format: str = "algoformer") -> Any:
    """Return a language model or a classifier as a model of `transformers`.

    As "algoformer" the weights are shared, not copied, and `save_pretrained` of the result writes a folder
    that `AutoModelForCausalLM.from_pretrained` opens wherever `algoformer.hf` is imported.

    The other formats are those of `transformers` itself. The weights are copied, the number of steps is the
    program's, and everything that reads the format runs the model without this library.
    `programs.servable(program)` says which format fits a program.

    Args:
        model: the model to convert, or a checkpoint of one, as `algoformer.load` returns it.
        format: "algoformer" for any program, or a name in `model.formats.FORMATS`: "llama", "hrm_text", ...

    Raises:
        ValueError: the model is not one of text, is a prefix language model, which `generate` of
            `transformers` cannot run, is not one of the format, or has a dropout rate that the format has
            no field for.
    """
    check_choice("format", format, ("algoformer", *FORMATS))
    if isinstance(model, TextModelFile):
        return to_hf(model.model, format)  # type: ignore[arg-type]
    if not isinstance(model, TokenModel | TextClassifier):
        raise ValueError(
            f"model must be a TokenModel, a TextClassifier or a checkpoint of one, got {type(model).__name__}"
        )
    if isinstance(model, TokenModel) and model.prefix_lm:
        raise ValueError(
            "transformers cannot generate from a model with prefix_lm=True; use algoformer.language.generate"
        )
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
        **SPECIAL_TOKENS,
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


def to_hf_tokenizer(
    tokenizer: Tokenizer | TextModelFile, model: TokenModel | TextClassifier | None = None
) -> Any:
    """Return a tokenizer as one of `transformers`, with the same token numbers for every text.

    The special tokens are never read from text: a text that spells one is encoded letter by letter. Decoding
    keeps the space before the first word, so that a continuation can be put behind its prompt. A batch is
    padded on the left, as `generate` needs it, and on the right for a classifier.

    Args:
        tokenizer: the tokenizer, or a checkpoint, as `algoformer.load` returns it. The tokenizer of a
            classifier's checkpoint spells a text as `algoformer classify` does: NFC, single spaces, and lower
            case or words only if its card says so.
        model: the model that it is for, to check that the model has all of its tokens, and to know the most
            tokens of a text; by default that of the checkpoint.

    Raises:
        ValueError: the tokenizer has more tokens than the model, or there is none.
    """
    tokenizers = require("tokenizers", extra="text")
    spelling = []
    if isinstance(tokenizer, TextModelFile):
        checkpoint = tokenizer
        if not checkpoint.tokenizer:
            raise ValueError("the checkpoint has no tokenizer; give a checkpoint of a model of text")
        tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
        model = checkpoint.model if model is None else model  # type: ignore[assignment]
        if isinstance(checkpoint.model, TextClassifier):
            spelling = _spelling(checkpoint.card)
    if not isinstance(tokenizer, Tokenizer):
        raise ValueError(
            f"tokenizer must be a Tokenizer or a checkpoint, got {type(tokenizer).__name__}; "
            "give the checkpoint itself, or Tokenizer.from_json(text)"
        )
    if model is not None and len(tokenizer) > model.vocabulary:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {model.vocabulary}; "
            "use the tokenizer that the model was trained with"
        )
    encoder = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=tokenizer.pieces, merges=list(tokenizer.merges))
    )
    # one space is put before the first word of every text that is not empty, also if it begins with a space
    encoder.normalizer = tokenizers.normalizers.Sequence([*spelling, tokenizers.normalizers.Prepend(" ")])
    encoder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=encoder,
        pad_token=SPECIALS[PAD],
        bos_token=SPECIALS[BOS],
        eos_token=SPECIALS[EOS],
        # `generate` continues the last token of every row of a batch
        padding_side="right" if isinstance(model, TextClassifier) else "left",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        **({} if model is None else {"model_max_length": model.context}),
    )


def _spelling(card: Mapping[str, Any]) -> list[Any]:
    """Return what `language.lines.prepared` does to a text as steps of a tokenizer."""
    tokenizers = require("tokenizers", extra="text")
    normalizers, regex = tokenizers.normalizers, tokenizers.Regex
    blank = r"\s\x1c-\x1f"  # as Python splits
    signs = [normalizers.Replace(regex(rf"[^\p{{L}}\p{{N}}{blank}]"), " ")]
    # the sigma at the end of a word has a lower case of its own
    lower = [normalizers.Replace(regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς"), normalizers.Lowercase()]
    return [
        normalizers.NFC(),
        *(signs if card.get("only_words") is True else []),
        normalizers.Replace(regex(f"[{blank}]+"), " "),
        normalizers.Strip(),
        *(lower if card.get("lowercase") is True else []),
    ]


@torch.no_grad()
def export(model: TokenModel, format: str) -> Any:
    """Return a copy of a language model as a plain model of `transformers`, in a format of `FORMATS`."""
    found = servable(model.program)
    if found.format != format:
        reason = found.reason or f"it is one of the format {found.format!r}"
        raise ValueError(f"this program cannot be exported as {format!r}: {reason}")
    changed = model.rebuildable()
    if changed:
        raise ValueError(f"this model cannot be exported as {format!r}: {changed}")
    layers = modules_of(model.program)[0]
    _check_dropout(model, format)
    if model.trunk.width % layers.heads:
        raise ValueError(
            f"{format!r} needs a width that the heads divide, "
            f"got width={model.trunk.width} and heads={layers.heads}"
        )
    embedding = model.trunk.embedding.weight
    theirs = transformers.AutoModelForCausalLM.from_config(_config(model, format), dtype=embedding.dtype)
    theirs = theirs.to(embedding.device)
    theirs.get_input_embeddings().weight.copy_(embedding)
    if not model.tied:
        theirs.get_output_embeddings().weight.copy_(model.output_weight)
    stacks = [module for module in model.body.modules() if isinstance(module, LayersModule)]
    ours = [layer for stack in stacks for layer in stack.layers]
    decoder = theirs.get_decoder()
    for one, other in zip(ours, stored_layers(format, decoder), strict=True):
        _fill_layer(other, one, FAMILIES[format])
    if format == "gpt2":
        assert stacks[0].positions is not None
        decoder.wpe.weight.copy_(stacks[0].positions.table)
        _split(stacks[-1].final_norm, decoder.ln_f)
    elif format != "hrm_text":  # its norms have no weights
        _split(stacks[-1].final_norm, decoder.norm)
    return theirs.train(model.training)


def _check_dropout(model: TokenModel, format: str) -> None:
    """Refuse a dropout rate that the format has no field for: training would go on without it."""
    held = ("dropout", "attention_dropout") if format == "gpt2" else ("attention_dropout",)
    kept = ", ".join(f"{name}={getattr(model.trunk, name)}" for name in held if getattr(model.trunk, name))
    for name in ("dropout", "word_dropout"):
        rate = getattr(model.trunk, name)
        if rate and name not in held:
            raise ValueError(
                f"{format!r} holds no {name}, got {rate}; to export the model without it, call "
                f"model.trunk.set_dropout({kept}) first"
            )


def _config(model: TokenModel, format: str) -> Any:
    trunk, layers = model.trunk, modules_of(model.program)[0]
    count = sum(each.count for each in modules_of(model.program))
    hidden = layers.hidden or 4 * trunk.width
    options: dict[str, Any] = {
        "vocab_size": trunk.vocabulary,
        "tie_word_embeddings": model.tied,
        **SPECIAL_TOKENS,
    }
    if format == "gpt2":
        options |= {"n_positions": trunk.context, "n_embd": trunk.width, "n_layer": count, "n_inner": hidden}
        options |= {"n_head": layers.heads, "layer_norm_epsilon": layers.norm_eps}
        options |= {"resid_pdrop": trunk.dropout, "embd_pdrop": trunk.dropout}
        options |= {"attn_pdrop": trunk.attention_dropout}
    else:
        options |= _llama_options(model, layers, count, hidden)
    if format == "hrm_text":
        options |= _cycles(model.program, count)
        del options["num_key_value_heads"]  # it has as many as heads
    return transformers.AutoConfig.for_model(format, **options)


def _llama_options(model: TokenModel, layers: Layers, count: int, hidden: int) -> dict[str, Any]:
    return {
        "hidden_size": model.trunk.width,
        "intermediate_size": hidden,
        "num_hidden_layers": count,
        "num_attention_heads": layers.heads,
        "num_key_value_heads": layers.key_heads,
        "head_dim": layers.width_of_head(model.trunk.width),
        "max_position_embeddings": model.trunk.context,
        "rms_norm_eps": layers.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": layers.rope_base},
        "attention_dropout": model.trunk.attention_dropout,
    }


def _cycles(program: Program, count: int) -> dict[str, Any]:
    loop = program.parts[0]
    low = loop.bodies[0].parts[0]
    assert isinstance(loop, Loop)
    assert isinstance(low, Loop)
    return {
        "num_hidden_layers": count // 2,
        "H_cycles": loop.steps,
        "L_cycles": low.steps,
        "L_bp_cycles": [low.steps] * loop.steps,  # gradients flow through every step, as here
        "embedding_scale": 1.0,
        "prefix_lm": False,
    }


def _fill_layer(theirs: Any, ours: Any, family: Family) -> None:
    for our_path, their_paths in family.maps.items():
        module = module_at(ours, our_path)
        if module is not None:
            # a norm over all heads together is a module around the norm
            inner = getattr(module, "norm", module)
            _split(inner, *(module_at(theirs, path) for path in their_paths), transposed=family.transposed)
    for our_name, their_name in family.norms.items():
        _split(getattr(ours, our_name), getattr(theirs, their_name))


def _split(ours: Any, *theirs: nn.Module, transposed: bool = False) -> None:
    """Copy the rows of one map or norm of ours to several of theirs, in this order."""
    for name, weight in ours.named_parameters():
        turned = transposed and weight.ndim == 2  # their products have the input first
        targets = [each.get_parameter(name).T if turned else each.get_parameter(name) for each in theirs]
        for piece, target in zip(weight.split([len(each) for each in targets]), targets, strict=True):
            target.copy_(piece)
