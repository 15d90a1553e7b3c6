"""Convert checkpoints of format 1 to the present format: weights and cards are kept.

    python scripts/convert_checkpoints.py FILE...

Each file is replaced in one step. Tensors that only a resumed run needs (optimizer, generator) are left out:
a run of an older version cannot be resumed exactly. Format 2, split into several files, is not converted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from safetensors import safe_open

from algoformer.checkpoint import load_checkpoint
from algoformer.common.files import HEADER, write_tensors

TRAINING = {
    "batch": "batch_size",
    "learning_rate": "lr",
    "final_rate": "min_lr_ratio",
    "clip": "clip_norm",
    "grad": "backprop",
    "recompute": "gradient_checkpointing",
    "points": "samples",
    "loops": "iterations",
}
"""Fields of training by their old names."""

TEXT = {
    "corpora": "corpus",
    "longest": "max_length",
    "budget": "batch_tokens",
    "multiple": "pad_to_multiple_of",
    "smoothing": "label_smoothing",
}
"""Settings of text by their old names."""

ONLY_TRANSLATION = ("also_tested", "prefix_lm", "tied")
"""Settings of text that classifiers no longer have."""


def convert(path: Path) -> None:
    """Convert one file in place; a file of the present format is left as it is."""
    header, tensors = _read(path)
    if header.get("format") != 1:
        print(f"{path}: format {header.get('format')} is left as it is")
        return
    weights = {name: value for name, value in tensors.items() if name.startswith("model.")}
    write_tensors(path, converted(header), weights)
    print(f"{path}: {load_checkpoint(path)}")


def converted(header: dict[str, Any]) -> dict[str, Any]:
    """Return an old header in the present form."""
    kind = header.get("kind", "algoformer")
    card = dict(header["card"])
    experiment = card.get("experiment")
    if experiment is not None:
        card["experiment"] = experiment = converted_experiment(experiment)
    card.pop("runs_at_once", None)
    if kind == "algoformer":
        data = None if header.get("task") is None else {"name": "prompts", "task": header["task"]}
    else:
        name = "translation" if kind == "token model" else "labels"
        settings: dict[str, Any] = {"name": name, "settings": {}}
        data = {**(experiment["data"] if experiment else settings), "tokenizer": header["tokenizer"]}
        if kind == "text classifier":
            data["classes"] = header["model"]["labels"]
    return {
        "model": {"kind": kind, "program": header["program"], "options": header["model"]},
        "data": data,
        "card": card,
    }


def converted_experiment(old: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment of an earlier version in the present names."""
    training = {TRAINING.get(name, name): value for name, value in old["training"].items()}
    training.pop("fp32_end", None)  # the card's precision says it in words
    if "text" not in old:
        data = {"name": "prompts", "task": old["task"]}
    else:
        text = dict(old["text"])
        kind = text.pop("kind")
        training["validate_every"] = text.pop("validate_every")
        settings = {TEXT.get(name, name): value for name, value in text.items()}
        if kind == "classification":
            settings["corpus"] = settings["corpus"][0]
            settings = {name: value for name, value in settings.items() if name not in ONLY_TRANSLATION}
        data = {"name": "translation" if kind == "translation" else "labels", "settings": settings}
    return {"program": old["program"], "data": data, "width": old["width"], "training": training}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with safe_open(path, framework="pt", device="cpu") as file:
        header = json.loads((file.metadata() or {})[HEADER])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return header, tensors


if __name__ == "__main__":
    for name in sys.argv[1:]:
        convert(Path(name))
