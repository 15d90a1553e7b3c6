"""Small valid files and command lines of every kind, from which everything else is made."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from pathlib import Path

from algoformer import tasks
from algoformer.cli import main
from algoformer.data.protocol import data_class, data_names
from algoformer.model.presets import PRESETS

SMALL = ("--width", "8", "--log-every", "3", "--no-evaluate", "--no-tensorboard", "--device", "cpu")
"""Options that make a run of any kind small."""

WORDS = ("the", "loop", "reads", "a", "line", "and", "writes", "one", "more", "until", "it", "ends", "well")


def sentences(count: int) -> list[str]:
    """Return different short sentences of English words."""
    return [" ".join(WORDS[(i * j + j) % len(WORDS)] for j in range(3, 9)) + f" {i}." for i in range(count)]


def data_files(folder: Path) -> dict[str, list[list[str]]]:
    """Write a valid file in every format that data is read from, and return the paths by kind of data.

    Each kind has one list of files for each format. A kind of data without files has the empty list.

    Raises:
        ValueError: a kind of data is registered and has no sample here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = sentences(120)
    rows = [{"text": line, "label": WORDS[number % 3]} for number, line in enumerate(lines)]
    table = io.StringIO()
    for delimiter, name in ((",", "table.csv"), ("\t", "table.tsv")):
        table = io.StringIO()
        writer = csv.DictWriter(table, fieldnames=["text", "label"], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
        (folder / name).write_text(table.getvalue())
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "lines.de").write_text("\n".join(lines) + "\n")
    (folder / "lines.en").write_text("\n".join(line.upper() for line in lines) + "\n")
    (folder / "book.txt").write_text("\n".join(sentences(600)))
    path = {one.name: str(one) for one in folder.iterdir()}
    known = {
        "prompts": [],
        "translation": [[path["lines.de"], path["lines.en"]]],
        "labels": [[path["table.csv"]], [path["table.tsv"]], [path["table.jsonl"]]],
        "text": [[path["book.txt"]]],
    }
    missing = sorted(set(data_names()) - set(known))
    if missing:
        raise ValueError(f"write a valid file for data of the kind {missing[0]!r} in torture/samples.py")
    return known


def scenarios(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the words of `algoformer train` for a small run of every task, program and kind of data.

    The runs differ in optimizer, averaging, validation and the number of steps between checkpoints.
    """
    short = (*SMALL, "--batch-size", "4", "--steps", "7")
    found: dict[str, tuple[str, ...]] = {}
    for name, task in tasks.TASKS.items():
        points = ("--data.points", "6") if "points" in {one.name for one in fields(task)} else ()
        found[f"task {name}"] = ("--data", name, *points, "--checkpoint-every", "2", *short)
    for number, name in enumerate(PRESETS):
        options = [("--optimizer", "muon", "--lr", "0.01"), ("--ema", "0.9"), ("--burn-in", "0", "1")]
        found[f"program {name}"] = (
            *("--program", name, "--data.points", "6", "--data.dim", "3", "--checkpoint-every", "1"),
            *(*short, *options[number % 3]),
        )
    for kind, formats in data_files(folder / "data").items():
        by_tokens = any(one.name == "batch_tokens" for one in fields(data_class(kind)))
        batch = ("--data.batch-tokens", "200") if by_tokens else ("--batch-size", "4")
        for files in formats:
            found[f"{kind} {Path(files[0]).suffix[1:]}"] = (
                *("--data", kind, *files, "--data.vocabulary", "300", "--checkpoint-every", "3"),
                *("--validate-every", "3", "--data.dropout", "0.1", *batch, *SMALL, "--steps", "7"),
            )
    linear = ("--data.points", "6", "--data.dim", "3", *short)
    for name, words in {"initial prompts": linear, "initial text": found["text txt"]}.items():
        begun = folder / name
        if not begun.exists() and main(["train", *words, "--seed", "5", "--out", str(begun)]):
            raise RuntimeError("the run that others begin with could not be trained")
        found[name] = (*words, "--initial", str(begun), "--checkpoint-every", "1000")
    return found
