"""Sources of mutants of files with tensors and a header: checkpoints and packed text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.checkpoint import LATEST, load_checkpoint, model_header
from algoformer.common.files import read_header, read_tensors, write_tensors
from algoformer.language import LabelledText, ParallelText, Tokenizer
from algoformer.language.packing import PackedText, pack, unpack
from algoformer.language.tokens import TokenPairs, TokenTexts, encode_pairs, encode_texts
from torture.mutate import mutate_json
from torture.samples import sentences
from torture.sources import Source, file_source
from torture.verdicts import Mutant


def checkpoints(runs: dict[str, Path], folder: Path) -> list[Source]:
    """Return mutants of the checkpoints of runs."""

    def sane(path: Path) -> None:
        read_header(path)
        checkpoint = load_checkpoint(path)
        model_header(checkpoint.model)
        repr(checkpoint)

    reads = (
        *("algoformer.checkpoint.load_checkpoint", "algoformer.common.files.read_tensors"),
        *("algoformer.common.files.read_header", "algoformer.cli.measure.load_contender"),
        *("algoformer.cli.measure.load_text", "algoformer.cli.measure.load_weights"),
    )
    return _tensor_files("checkpoints", [path / LATEST for path in runs.values()], sane, reads, folder, 8)


def packed_text(scratch: Path, folder: Path) -> list[Source]:
    """Return mutants of packed text, of pairs and of texts with labels."""
    tokenizer = Tokenizer.train(sentences(60), vocabulary=300)
    lines = tuple(sentences(20))
    splits: dict[str, TokenPairs | TokenTexts] = {
        "pairs": encode_pairs(tokenizer, ParallelText(source=lines, target=lines)),
        "texts": encode_texts(tokenizer, LabelledText(texts=lines, labels=(0, 1) * 10)),
    }
    paths = [scratch / f"{name}.safetensors" for name in splits]
    for path, (name, split) in zip(paths, splits.items(), strict=True):
        pack(path, PackedText(splits={name: split}, tokenizer=tokenizer, card={"name": "sample"}))
    return _tensor_files("packed text", paths, unpack, ("algoformer.language.packing.unpack",), folder, 1)


def _tensor_files(
    name: str,
    paths: list[Path],
    read: Callable[[Path], object],
    reads: tuple[str, ...],
    folder: Path,
    weight: float,
) -> list[Source]:
    """Return mutants of tensors with a header: of the content with a right checksum, and of the bytes."""
    samples = [read_tensors(path, lambda header, tensors: (header, tensors), what="sample") for path in paths]

    def mutant(rng: random.Random) -> Mutant:
        header, tensors = rng.choice(samples)
        changed = changed_checkpoint(rng, header, tensors)
        path = folder / f"{rng.getrandbits(60)}.safetensors"

        def run() -> None:
            try:
                write_tensors(path, *changed)
                read(path)
            finally:
                path.unlink(missing_ok=True)

        return Mutant(f"{name} {json.dumps(changed[0])[:1500]}", run)

    whole = file_source(f"{name}, changed bytes", paths, read, reads, folder, weight=weight / 3)
    return [Source(f"{name}, changed content", weight, reads, mutant), whole]


def changed_checkpoint(
    rng: random.Random, header: dict[str, Any], tensors: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a header and tensors with changes, to be written with a right checksum."""
    if rng.random() < 0.8:
        found = mutate_json(rng, header)
        return (found if isinstance(found, dict) else {"model": found}), tensors
    changed = dict(tensors)
    name = rng.choice(sorted(changed))
    value = changed.pop(name)
    what = rng.randrange(6)
    if what == 1:
        changed[name + rng.choice(["x", "", ".weight", "\x1b[2J"])] = value
    elif what == 2:
        changed[name] = value.reshape(-1) if value.numel() else value.new_zeros(3)
    elif what == 3:
        changed[name] = value.to(rng.choice([torch.float64, torch.int64, torch.bool, torch.float8_e4m3fn]))
    elif what == 4:
        filled = [float("nan"), float("inf"), 3e38, 0.0] if value.is_floating_point() else [0, 1, 100]
        changed[name] = torch.full_like(value, rng.choice(filled))
    elif what == 5:
        changed[name] = torch.zeros(rng.choice([(0,), (1, 0, 5), (2,) * 9]))
    return header, changed
