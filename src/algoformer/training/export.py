"""A trained model of text as one small file whose card says what it can do and whom it is owed to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from algoformer.checkpoint import Checkpoint, save_checkpoint
from algoformer.language.classifier import TextClassifier
from algoformer.language.classify import Classifier
from algoformer.language.sampling import Sampling, Writer
from algoformer.language.token_model import TokenModel
from algoformer.language.translate import Decoding, Translator, is_translator
from algoformer.training.run_folder import exported_facts

EXAMPLE = Sampling(max_new_tokens=24, temperature=0)
"""The decoding behind the examples on the card of a language model: greedy, so that they can be repeated."""


def export_text(
    path: Path | str,
    checkpoint: Checkpoint,
    *,
    half: bool = True,
    examples: Sequence[str] = (),
    command: str = "",
) -> Any:
    """Measure the model as it will be stored, on whole test splits, and write it with its card.

    The examples are lines that are answered on a CPU and kept on the card with their answers: a file that
    answers otherwise is not the one of the card. Returns what the data's `evaluate` returns.
    """
    model, data = checkpoint.model, checkpoint.data
    if not isinstance(model, TokenModel | TextClassifier) or data is None:
        raise ValueError("only a model of text with its data can be exported this way")
    if half:
        in_half_precision(model)
    found = data.evaluate(model)
    model.cpu()
    facts = data.facts()
    card: dict[str, Any] = exported_facts(checkpoint.card) | {
        "program": str(model.program),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "precision": "float16" if half else "float32",
        "measurements": [one.to_data() for one in (found if isinstance(found, list) else [found])],
        "licence": facts.get("terms", ""),
        "attribution": facts.get("attribution", []),
        "command": command,
    }
    stored = Checkpoint(model=model, data=data, card=card)
    if examples:
        card["examples"] = dict(zip(examples, answers(stored, examples), strict=True))
    save_checkpoint(path, stored, half=half)
    return found


def in_half_precision(model: nn.Module) -> nn.Module:
    """Round the model's weights to half precision and back to single, as a file gives them back."""
    for name, weights in model.named_parameters():
        largest = float(weights.detach().abs().max()) if weights.numel() else 0.0
        if largest > torch.finfo(torch.float16).max:
            raise ValueError(
                f"weight {name!r} holds {largest:.3g}, which half precision cannot; export with --no-half"
            )
    return model.half().float()


def answers(checkpoint: Checkpoint, lines: Sequence[str]) -> list[str]:
    """Return what a model says to lines: translations, names of classes, or continuations."""
    if isinstance(checkpoint.model, TextClassifier):
        found = Classifier(checkpoint).classify(lines)
        return ["" if label is None else label.name for label in found]
    if not is_translator(checkpoint):
        writer = Writer(checkpoint)
        return [writer.write(line, EXAMPLE) for line in lines]
    return list(map(str, Translator(checkpoint, Decoding(beam=1)).translate(lines)))
