"""Mutants of run folders: a file of a run is changed, and the run is resumed or described."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from algoformer.checkpoint import LATEST
from algoformer.common.files import read_tensors, write_tensors
from algoformer.training.run_folder import read_metrics
from torture.lines import run_line
from torture.mutate import mutate_bytes, mutate_json
from torture.sources import Source, copied_folder
from torture.verdicts import Mutant

Content = tuple[dict[str, Any], dict[str, Tensor]]
"""The header and the tensors of a checkpoint."""

Change = Callable[[random.Random, dict[str, Any], dict[str, Tensor]], Content]


def run_folders(runs: dict[str, Path], temporary: Path, change: Change) -> Source:
    """Return mutants of the files of a run folder, resumed, described and read."""
    names = list(runs.values())

    def mutant(rng: random.Random) -> Mutant:
        run_folder = rng.choice(names)
        target = temporary / f"run {rng.getrandbits(60)}"
        file = rng.choice(["config.json", "metrics.jsonl", LATEST, LATEST])
        changed = changed_card(rng, run_folder, change) if file == LATEST else None
        content = mutate_bytes(rng, (run_folder / file).read_bytes())
        words = rng.choice([("train", "--resume", "--no-evaluate", "--device", "cpu", "--out"), ("info",)])

        def run() -> None:
            copied_folder(run_folder, target)
            if changed is None:
                (target / file).write_bytes(content)
            else:
                write_tensors(target / file, *changed)
                (target / file).chmod(0o777)
            read_metrics(target)
            run_line([*words, str(target)], temporary)

        said = content[:200] if changed is None else json.dumps(changed[0].get("card"))[:800]
        return Mutant(f"{' '.join(words)} with another {file}: {said!r}", run)

    reads = (
        *("algoformer.training.run_folder.read_metrics", "algoformer.training.run_folder.load_experiment"),
        "algoformer.common.files.read_json",
    )
    return Source("run folders", 1.5, reads, mutant)


def changed_card(
    rng: random.Random, folder: Path, change: Change
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the newest checkpoint of a run with a changed card or with changed tensors of the optimizer."""
    header, tensors = read_tensors(folder / LATEST, lambda *found: found, what="sample")
    if rng.random() < 0.7:
        card = mutate_json(rng, header["card"])
        return {**header, "card": card}, tensors
    return change(rng, header, tensors)
