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
from algoformer.training import Experiment, build_model, load_checkpoint, train
from algoformer.training.config import EngineName, is_data_of


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """A named experiment of a study.

    Attributes:
        name: its name in the file of results, such as "nested/seed0".
        experiment: what is trained and how.
        before: what is trained before it, a curriculum: each begins with the weights of the one before.
    """

    name: str
    experiment: Experiment
    before: tuple[Experiment, ...] = ()

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
    parser.add_argument("--engine", default="auto", help="How steps are taken, as in algoformer train.")
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
        if _is_found(run, found["runs"].get(run.name)):
            continue
        folder = None if chosen.steps else folder_of(run, chosen.runs, file)
        model, how = _train_all(run, folder, chosen.device, getattr(chosen, "engine", "auto"))
        found["runs"][run.name] = {
            **measure(run, model),
            "parameters": sum(weight.numel() for weight in model.parameters()),
            **_described(run),
            "provenance": {"measured_at": source_commit(), "command": command(), **how},
        }
        if folder is not None:
            write_json(file, found)
        print(f"{run.name}: {json.dumps(found['runs'][run.name].get('summary'))}", flush=True)
    return found


def folder_of(run: StudyRun, runs: Path, file: Path) -> Path:
    """Return the folder of a run's checkpoints, for results in this file."""
    return runs / file.stem / run.name.replace("/", "-")


def _is_found(run: StudyRun, stored: Mapping[str, Any] | None) -> bool:
    if stored is None or len(stored.get("before", ())) != len(run.before):
        return False
    parts = zip((*stored.get("before", ()), stored["experiment"]), (*run.before, run.experiment), strict=True)
    return all(is_data_of(data, experiment) for data, experiment in parts)


def _described(run: StudyRun) -> dict[str, Any]:
    before = [one.to_data() for one in run.before]
    return {"experiment": run.experiment.to_data(), **({"before": before} if before else {})}


def _train_all(
    run: StudyRun, folder: Path | None, device: str, engine: EngineName
) -> tuple[nn.Module, dict[str, Any]]:
    """Train a run and what comes before it; return the model, and how it was trained."""
    # the first of several may have shorter prompts, and the model must have room for all of them
    model = build_model(run.experiment) if run.before else None
    seconds = 0.0
    how: dict[str, Any] = {}
    for number, experiment in enumerate((*run.before, run.experiment)):
        last = number == len(run.before)
        where = folder if last or folder is None else folder.with_name(f"{folder.name}-{number}")
        resume = where is not None and where.exists()
        model = train(
            experiment,
            where,
            device=device,
            engine=engine,
            initial=None if resume else model,
            resume=resume,
            tensorboard=False,
            command=command(),
        ).model
        how = trained_how(where)
        seconds += how.get("seconds", 0.0)
    assert model is not None
    return model, {**how, "seconds": seconds} if how else {}


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
