"""Language models and translators with a loop, beside their peers: a modern block, small texts, one GPU.

    python -m scripts.studies.language --out results/language --size shakespeare --text FOLDER --device cuda
    python -m scripts.studies.language --out results/language --size iwslt --data-folder FOLDER --device cuda
    python -m scripts.studies.language --out results/language --size books --text FOLDER --device cuda

FOLDER of `shakespeare` holds input.txt or input.txt.gz, that of `books` train, valid and test as .txt or
.txt.xz, and that of `iwslt` the named corpora. Every run keeps the weights of its best validation; the model
is measured as it is stored in half precision, next to its checkpoint as model.safetensors.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from algoformer.common.files import write_atomically
from algoformer.data import TextData, TranslationData
from algoformer.data.text import LanguageScores
from algoformer.evaluation import Cell, Table
from algoformer.model import presets
from algoformer.model.loop_models import LLAMA
from algoformer.model.program import Program
from algoformer.report import markdown_table
from algoformer.training import Experiment, TrainConfig, load_checkpoint, read_metrics
from algoformer.training.export import export_text
from algoformer.training.text_recipes import text_experiment
from paper.corpora import register_corpora
from scripts.studies.runs import StudyRun, add_options, command, folder_of, make
from scripts.studies.scaling import unpacked

USUAL: dict[str, Any] = {
    "optimizer": "muon",
    "schedule": "cosine",
    "clip_norm": 1.0,
    "precision": "bf16",
    "ema": 0.998,
    "window": 1,
    "backprop": "full",
}

CHARACTERS: dict[str, Any] = {
    **USUAL,
    "steps": 2500,
    "batch_size": 64,
    "lr": 5e-3,
    "weight_decay": 0.1,
    "warmup": 0.05,
    "validate_every": 100,
    "log_every": 50,
}

BOOKS: dict[str, Any] = {
    **USUAL,
    "steps": 10_000,
    "batch_size": 128,
    "lr": 5e-3,
    "weight_decay": 0.01,
    "warmup": 0.05,
    "validate_every": 500,
    "checkpoint_every": 2500,
}

BLOCKS: dict[str, dict[str, Any]] = {"gpt2": {}, "modern": {**LLAMA, "hidden": 704}}
"""Layers of width 256 by name: 704 gated hidden units have as many weights as 1,024 with biases."""

EPOCHS_OF_IWSLT = 28
TOKENS_OF_IWSLT = 2_420_088


def shakespeare_runs(text: Path, runs: Path, seeds: list[int], steps: int | None) -> Iterator[StudyRun]:
    """Yield loops of two layers and standard transformers on the characters of Shakespeare.

    The first 90 % of the characters are for training and the last 10 % for validation, as in nanoGPT.
    """
    train, valid = (str(path) for path in _tenths(text, runs / "text"))
    layer: dict[str, Any] = {**LLAMA, "heads": 6, "hidden": 992}
    programs: dict[str, tuple[Program, float]] = {
        "looped-2x4": (presets.looped(2, steps=4, **layer), 0.2),
        "looped-2x6": (presets.looped(2, steps=6, **layer), 0.2),
        "standard-2": (presets.standard(2, **layer), 0.2),
        "standard-8": (presets.standard(8, **layer), 0.2),
    }
    for seed in seeds:
        for name, (program, dropout) in programs.items():
            data = TextData(
                files=train, validation=valid, test=valid, tokenize="char", context=256, dropout=dropout
            )
            words = {**CHARACTERS, "seed": seed, **({"steps": steps} if steps else {})}
            yield StudyRun(
                name=f"{name}/seed{seed}",
                experiment=Experiment(program, data, width=384, training=TrainConfig(**words)),
            )


def _tenths(folder: Path, target: Path) -> tuple[Path, Path]:
    """Write nine tenths of the characters of a text to one file, and the last tenth to another."""
    plain, packed = folder / "input.txt", folder / "input.txt.gz"
    if not (plain.exists() or packed.exists()):
        raise ValueError(f"--text: {folder} has neither {plain.name} nor {packed.name}")
    content = plain.read_text() if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    cut = len(content) * 9 // 10
    files = target / "characters-train.txt", target / "characters-valid.txt"
    for file, part in zip(files, (content[:cut], content[cut:]), strict=True):
        write_atomically(file, lambda path, part=part: path.write_text(part))  # type: ignore[misc]
    return files


def iwslt_runs(folder: str | None, seeds: list[int], steps: int | None) -> Iterator[StudyRun]:
    """Yield AlgoFormers 1+1+1 of width 256 with both blocks, reading German in one direction or both."""
    for seed in seeds:
        for block, layer in BLOCKS.items():
            for reading in ("causal", "prefix"):
                recipe = text_experiment(
                    "translation",
                    "algoformer",
                    "paper",
                    corpus="iwslt14_de_en",
                    prefix_lm=reading == "prefix",
                    dropout=0.25,
                )
                assert isinstance(recipe.data, TranslationData)
                whole = EPOCHS_OF_IWSLT * TOKENS_OF_IWSLT / (0.95 * recipe.data.batch_tokens)
                training = replace(
                    recipe.training,
                    steps=steps or round(whole / 100) * 100,
                    window=2,
                    backprop="full",
                    ema=0.998,
                    seed=seed,
                )
                data = recipe.data if folder is None else replace(recipe.data, folder=folder)
                program = presets.algoformer(1, 1, 1, steps=10, heads=8, **layer)
                yield StudyRun(
                    name=f"{block}-{reading}/seed{seed}",
                    experiment=Experiment(program, data, width=256, training=training),
                )


def books_runs(
    text: Path, runs: Path, seeds: list[int], steps: int | None, megabytes: int | None
) -> Iterator[StudyRun]:
    """Yield an AlgoFormer 1+2+1 on books, small enough to be given away."""
    paths = [
        str(unpacked(text, split, runs / "text", megabytes if split == "train" else None))
        for split in ("train", "valid", "test")
    ]
    data = TextData(files=paths[0], validation=paths[1], test=paths[2], vocabulary=5000, context=256)
    program = presets.algoformer(1, 2, 1, steps=4, heads=8, **BLOCKS["modern"])
    for seed in seeds:
        words = {**BOOKS, "seed": seed, **({"steps": steps} if steps else {})}
        yield StudyRun(
            name=f"algoformer/seed{seed}",
            experiment=Experiment(program, data, width=256, training=TrainConfig(**words)),
        )


def measure(run: StudyRun, model: Any, *, runs: Path, file: Path, data_folder: str | None) -> dict[str, Any]:
    """Return the scores of the best weights as they are stored in half precision, and the validations."""
    folder = folder_of(run, runs, file)
    if not (folder / "best.safetensors").exists():  # only tried
        return {"summary": {}}
    best = load_checkpoint(folder / "best.safetensors")
    best.model.to(next(model.parameters()).device).eval()
    data: Any = best.data
    if data_folder is not None:
        data = replace(data, folder=data_folder)
    scores = export_text(folder / "model.safetensors", replace(best, data=data), command=command())
    rows = [row for row in read_metrics(folder) if "valid_loss" in row]
    least = min(rows, key=lambda row: row["valid_loss"])
    return {
        "scores": [score.to_data() for score in scores],
        "validation": {"steps": [row["step"] for row in rows], "loss": [row["valid_loss"] for row in rows]},
        "summary": {"valid_loss": least["valid_loss"], "at": least["step"], **_summary(scores[0])},
    }


def _summary(scores: Any) -> dict[str, Any]:
    if isinstance(scores, LanguageScores):
        return {"test_loss": scores.cross_entropy[-1], "bits_per_byte": scores.bits_per_byte[-1]}
    return {name: [score.value, score.low, score.high] for name, score in scores.scores.items()}


def table_of(found: Mapping[str, Any]) -> Table:
    """Return one row for every run."""
    names = list(dict.fromkeys(name for run in found.values() for name in run["summary"]))
    rows: list[tuple[Cell, ...]] = []
    for name, run in sorted(found.items()):
        cells = (run["summary"].get(item) for item in names)
        numbers = [cell[0] if isinstance(cell, list) else cell for cell in cells]
        rows.append((name, run["parameters"], *numbers))
    return Table(columns=("run", "parameters", *names), rows=tuple(rows))


def main() -> None:
    """Train and measure what was asked for."""
    register_corpora()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, help="Folder with the text.")
    parser.add_argument("--data-folder", help="Folder with named corpora; by default $ALGOFORMER_DATA.")
    parser.add_argument("--megabytes", type=int, help="Read only so many megabytes of training text.")
    chosen = add_options(parser, ("shakespeare", "iwslt", "books"), seeds=(0,))
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    if chosen.size != "iwslt" and chosen.text is None:
        raise SystemExit("--text must name the folder of the text")
    runs = {
        "shakespeare": lambda: shakespeare_runs(chosen.text, chosen.runs, chosen.seeds, chosen.steps),
        "iwslt": lambda: iwslt_runs(chosen.data_folder, chosen.seeds, chosen.steps),
        "books": lambda: books_runs(chosen.text, chosen.runs, chosen.seeds, chosen.steps, chosen.megabytes),
    }[chosen.size]()
    file = chosen.out / f"{chosen.size}.json"
    measured = partial(measure, runs=chosen.runs, file=file, data_folder=chosen.data_folder)
    found = make(list(runs), measured, chosen, file)
    if found["runs"] and not (chosen.list or chosen.steps):
        file.with_suffix(".md").write_text(markdown_table(table_of(found["runs"])))


if __name__ == "__main__":
    main()
