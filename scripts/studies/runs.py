"""Train the runs of a study one after the other, and keep what was measured in one JSON file.

A run that is in the file is not trained again; a run that was stopped continues from its last checkpoint.
Several processes with the same folders share a study: each takes runs that no other one has.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

from torch import nn

from algoformer.checkpoint import LATEST
from algoformer.common.devices import pick_device, source_commit
from algoformer.common.files import write_atomically, write_json
from algoformer.training import Callback, Experiment, RunOptions, build_model, load_checkpoint, train
from algoformer.training.config import EngineName, is_data_of


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """A named experiment of a study.

    Attributes:
        name: its name in the file of results, such as "nested/seed0".
        experiment: what is trained and how.
        before: what is trained before it, a curriculum: each begins with the weights of the one before.
        keep: steps whose checkpoints are kept, in files called `kept_file`. A checkpoint is copied when the
            next row of metrics is written, so `checkpoint_every` must be larger than `log_every`.
    """

    name: str
    experiment: Experiment
    before: tuple[Experiment, ...] = ()
    keep: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """The name without the seed."""
        return self.name.rpartition("/")[0]


class KeepCheckpoints(Callback):
    """Copies the checkpoints of some steps, which a run overwrites."""

    def __init__(self, folder: Path, steps: Sequence[int]) -> None:
        self.folder, self.steps = folder, steps

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Copy the last checkpoint if it is wanted and was not copied yet."""
        missing = [one for one in self.steps if one <= step and not kept_file(self.folder, one).exists()]
        if missing and (found := load_checkpoint(self.folder / LATEST).card["step"]) in missing:
            copy = partial(copyfile, self.folder / LATEST)
            write_atomically(kept_file(self.folder, found), copy)


def kept_file(folder: Path, step: int) -> Path:
    """Return the file of a kept checkpoint of the run in a folder."""
    return folder / f"kept-{step}.safetensors"


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
    parser.add_argument("--minutes", type=float, help="Stop after this time; the same command continues.")
    parser.add_argument("--list", action="store_true", help="Print the names of the runs and stop.")
    chosen = parser.parse_args()
    chosen.device = pick_device(chosen.device)
    if chosen.minutes is not None and not chosen.minutes > 0:
        parser.error(f"--minutes must be positive, got {chosen.minutes:g}")
    chosen.until = math.inf if chosen.minutes is None else time.monotonic() + 60 * chosen.minutes
    return chosen


def make(
    runs: Sequence[StudyRun],
    measure: Callable[[StudyRun, nn.Module], Mapping[str, Any]],
    chosen: argparse.Namespace,
    file: Path,
) -> dict[str, Any]:
    """Train and measure the chosen runs; return the content of the file, which has those before as well.

    Raises:
        SystemExit: the time is over and a run is missing.
    """
    found = _stored(file)
    wanted = [run for run in runs if any(fnmatch(run.name, pattern) for pattern in chosen.only)]
    if chosen.list:
        print("\n".join(f"{run.name}{'  done' * (run.name in found['runs'])}" for run in wanted))
        return found
    until = getattr(chosen, "until", math.inf)
    while wanted:
        left = []
        for run in wanted:
            folder = None if chosen.steps else folder_of(run, chosen.runs, file)
            with claimed(folder) as mine:
                found["runs"] |= _stored(file)["runs"]  # other processes write there as well
                if not mine:
                    left.append(run)
                elif not _is_found(run, found["runs"].get(run.name)):
                    entry = _made(run, measure, folder, chosen, until)
                    found["runs"][run.name] = entry
                    if folder is not None:
                        _store(file, run.name, entry, folder.parent)
                    if time.monotonic() > until and (left or run is not wanted[-1]):
                        raise _out_of_time()
        if len(left) == len(wanted):  # other processes have all that is left
            if time.monotonic() > until:
                raise _out_of_time()
            time.sleep(1)
        wanted = left
    return found


def _made(
    run: StudyRun,
    measure: Callable[[StudyRun, nn.Module], Mapping[str, Any]],
    folder: Path | None,
    chosen: argparse.Namespace,
    until: float,
) -> dict[str, Any]:
    """Train and measure a run; return what the file of results has of it."""
    engine: EngineName = getattr(chosen, "engine", "auto")
    options = RunOptions(device=chosen.device, engine=engine, tensorboard=False, command=command())
    model, how = _train_all(run, folder, options, until)
    entry = {
        **measure(run, model),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        **_described(run),
        "provenance": {"measured_at": source_commit(), "command": command(), **how},
    }
    print(f"{run.name}: {json.dumps(entry.get('summary'))}", flush=True)
    return entry


@contextmanager
def claimed(path: Path | None, *, wait: bool = False) -> Iterator[bool]:
    """Hold the lock beside a path; yield False if another process holds it. None needs no lock.

    A lock ends with its process, however that ends. Where a system has none, processes are not kept apart.
    """
    if path is None:
        yield True
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as handle:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except (ImportError, OSError):
            pass
        yield True


def _stored(file: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"runs": {}}
    return stored


def _store(file: Path, name: str, entry: Mapping[str, Any], locks: Path) -> None:
    """Add a run to the file, beside those that other processes have written since."""
    with claimed(locks / "results", wait=True):
        stored = _stored(file)
        stored["runs"][name] = entry
        write_json(file, stored)


def _out_of_time() -> SystemExit:
    return SystemExit("stopped because the time is over; the same command continues")


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
    run: StudyRun, folder: Path | None, options: RunOptions, until: float
) -> tuple[nn.Module, dict[str, Any]]:
    """Train a run and what comes before it; return the model, and how it was trained."""
    # the first of several may have shorter prompts, and the model must have room for all of them
    model = build_model(run.experiment) if run.before else None
    seconds = 0.0
    how: dict[str, Any] = {}
    for number, experiment in enumerate((*run.before, run.experiment)):
        last = number == len(run.before)
        where = folder if last or folder is None else folder.with_name(f"{folder.name}-{number}")
        resume = where is not None and (where / LATEST).exists()
        keeper = (KeepCheckpoints(where, run.keep),) if where is not None and last else ()
        left = None if math.isinf(until) else max((until - time.monotonic()) / 60, 1e-3)
        trained = train(
            experiment,
            where,
            options=replace(options, max_minutes=left, callbacks=keeper),
            initial=None if resume else model,
            resume=resume,
        )
        if not trained.finished:
            raise _out_of_time()
        model = trained.model
        how = trained_how(where)
        seconds += how.get("seconds", 0.0)
    assert model is not None
    return model, {**how, "seconds": seconds} if how else {}


def trained_how(folder: Path | None) -> dict[str, Any]:
    """Return where, when and for how long a run was trained, from the card of its checkpoint."""
    if folder is None:
        return {}
    card = load_checkpoint(folder / LATEST).card
    words = ("commit", "device", "torch", "engine", "precision", "step", "seconds")
    return {word: card[word] for word in words}


def command() -> str:
    """Return the command that this process was started with."""
    module = Path(sys.argv[0]).stem
    return shlex.join(["python", "-m", f"scripts.studies.{module}", *sys.argv[1:]])
