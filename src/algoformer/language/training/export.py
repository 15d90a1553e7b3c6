"""A trained model of text as one small file whose card says what it can do and whom it is owed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from algoformer.language.checkpoint import TextCheckpoint, save_text_model
from algoformer.language.classifier import TextClassifier
from algoformer.language.classify import Classifying
from algoformer.language.corpora import LABELLED, PARALLEL
from algoformer.language.packing import PackedText
from algoformer.language.training.measure import Measurement, measure
from algoformer.language.translate import Decoding, Translator
from algoformer.training.stored_model import in_half_precision

CARRIED = (
    "step",
    "valid_loss",
    "valid_accuracy",
    "corpus",
    "files",
    "notes",
    "experiment",
    "weights",
    "torch",
    "commit",
)
"""What the card takes over from the run."""

EXAMPLES = {
    "translation": (
        "Der Hund schläft.",
        "Ich habe heute keine Zeit.",
        "Wo ist der Bahnhof?",
        "Meine Schwester liest gern Bücher.",
        "Wir müssen morgen früh aufstehen.",
    ),
    "classification": (
        "A small river that rises in the hills and flows north into the lake.",
        "He is a footballer who plays as a goalkeeper for the national team.",
        "A species of beetle in the family of the ground beetles, described in 1890.",
        "The second studio album by the band, released on their own record label.",
        "A company that makes computers and has its headquarters in the capital.",
    ),
}
"""Lines of our own, answered on a CPU: a file that answers otherwise is not the one of the card."""


def export_text(
    path: Path | str,
    checkpoint: TextCheckpoint,
    text: PackedText,
    *,
    half: bool = True,
    decoding: Decoding | None = None,
    command: str = "",
) -> list[Measurement]:
    """Measure the model as it will be stored, on whole test splits, and write it with its card.

    Args:
        path: what to write.
        checkpoint: of a run; where its model is, it is measured.
        text: what it was trained on.
        half: whether to store it in half precision (float16).
        decoding: how translations are searched for.
        command: for the card.

    Raises:
        ValueError: the text is not what the model was trained on, or half precision cannot hold it.
    """
    if checkpoint.tokenizer != text.tokenizer.to_json():
        raise ValueError("the text has another tokenizer than the model: give what it was trained on")
    model = checkpoint.model
    if half:
        in_half_precision(model)
    spelling = text.card.get("spelling", {})
    kept = {name: checkpoint.card[name] for name in CARRIED if name in checkpoint.card}
    card = kept | {
        "lowercase": checkpoint.card.get("lowercase") is True or spelling.get("lowercase") is True,
        "only_words": spelling.get("only_words") is True,
    }
    stored = TextCheckpoint(model=model, tokenizer=checkpoint.tokenizer, card=card)
    found = measure(stored, text, decoding=decoding)
    model.cpu()
    labels = model.labels if isinstance(model, TextClassifier) else ()
    kind = "classification" if labels else "translation"
    corpora = str(checkpoint.card.get("corpus", "")).split("+")
    card |= {
        "task": f"one of {len(labels)} classes" if labels else "German to English",
        "program": str(model.program),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "precision": "float16" if half else "float32",
        "measurements": [one.to_data() for one in found],
        "licence": text.card.get("terms", ""),
        "attribution": [credit for credit in map(_credit, corpora) if credit],
        "examples": dict(zip(EXAMPLES[kind], answers(stored, EXAMPLES[kind]), strict=True)),
        "command": command,
    }
    save_text_model(path, TextCheckpoint(model=model, tokenizer=stored.tokenizer, card=card), half=half)
    return found


def answers(checkpoint: TextCheckpoint, lines: tuple[str, ...]) -> list[str]:
    """What the model says to lines: translations, or names of classes."""
    if isinstance(checkpoint.model, TextClassifier):
        return ["" if label is None else label.name for label in Classifying(checkpoint).classify(lines)]
    return list(Translator(checkpoint, Decoding(beam=1)).translate(lines))


def _credit(name: str) -> str:
    source: Any = PARALLEL.get(name.partition("/")[0]) or LABELLED.get(name)
    return "" if source is None else str(source.credit)
