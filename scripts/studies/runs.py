"""Train the runs of a study one after the other, and keep what was measured in one JSON file.

A run that is in the file is not trained again; a run that was stopped continues from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from torch import nn

from algoformer.common.devices import pick_device, source_commit
from algoformer.common.files import write_json
from algoformer.training import Experiment, load_checkpoint, train


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """A named experiment of a study.

    Attributes:
        name: its name in the file of results, such as "nested/seed0".
        experiment: what is trained and how.
    """

    name: str
    experiment: Experiment

    @property
    def kind(self) -> str:
        """The name without the seed."""
        return self.name.rpartition("/")[0]


def add_options(
    parser: argparse.ArgumentParser, sizes: Sequence[str], seeds: Sequence[int] = (0, 1, 2)
) -> argparse.Namespace:
    """Add the options that every study has, and parse the command line."""
    parser.add_argument("--size", choices=sizes, default=sizes[0])
    parser.add_argument("--out", type=Path, required=True, help="Folder for results and pictures.")
    parser.add_argument("--runs", type=Path, default=Path("runs/studies"), help="Folder for checkpoints.")
    parser.add_argument("--only", nargs="*", default=["*"], help="Patterns of names, such as 'nested/*'.")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(seeds))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, help="Fewer steps, to try a recipe; nothing is written.")
    parser.add_argument("--list", action="store_true", help="Print the names of the runs and stop.")
    chosen = parser.parse_args()
    chosen.device = pick_device(chosen.device)
    return chosen


def make(
    runs: Sequence[StudyRun],
    measure: Callable[[StudyRun, nn.Module], Mapping[str, Any]],
    chosen: argparse.Namespace,
    file: Path,
) -> dict[str, Any]:
    """Train and measure the chosen runs; return the content of the file, which has those before as well."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"runs": {}}
    wanted = [run for run in runs if any(fnmatch(run.name, pattern) for pattern in chosen.only)]
    if chosen.list:
        print("\n".join(f"{run.name}{'  done' * (run.name in found['runs'])}" for run in wanted))
        return found
    for run in wanted:
        stored = found["runs"].get(run.name)
        if stored is not None and stored["experiment"] == run.experiment.to_data():
            continue
        folder = None if chosen.steps else chosen.runs / file.stem / run.name.replace("/", "-")
        done = train(
            run.experiment,
            folder,
            device=chosen.device,
            resume=folder is not None and folder.exists(),
            tensorboard=False,
            command=command(),
        )
        found["runs"][run.name] = {
            **measure(run, done.model),
            "parameters": sum(weight.numel() for weight in done.model.parameters()),
            "experiment": run.experiment.to_data(),
            "provenance": {"measured_at": source_commit(), "command": command(), **trained_how(folder)},
        }
        if folder is not None:
            write_json(file, found)
        print(f"{run.name}: {json.dumps(found['runs'][run.name].get('summary'))}", flush=True)
    return found


def trained_how(folder: Path | None) -> dict[str, Any]:
    """Return where, when and for how long a run was trained, from the card of its checkpoint."""
    if folder is None:
        return {}
    card = load_checkpoint(folder / "checkpoint.safetensors").card
    words = ("commit", "device", "torch", "engine", "precision", "step", "seconds")
    return {word: card[word] for word in words}


def command() -> str:
    """Return the command that this process was started with."""
    module = Path(sys.argv[0]).stem
    return shlex.join(["python", "-m", f"scripts.studies.{module}", *sys.argv[1:]])
