"""A folder of results: what is there, under which settings, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from algoformer.common.files import read_json
from algoformer.training import Experiment
from paper.measuring import measure_reference, measure_run
from paper.result import LARGEST_FILE, Result, read_result, write_result
from paper.runs import Item, RunSpec, fingerprint, names_of_seeds, without_steps

Results = Mapping[str, Result]
"""What there is, by name."""


def seeds_so_far(results: Results, name: str) -> list[Result]:
    """A run and the same with other seeds, as far as they were made over as many steps."""
    found = [results[run] for run in names_of_seeds(name) if run in results]
    return [result for result in found if result.steps == found[0].steps]


class Archive:
    """The results in a folder and below it. Other files there are left alone.

    A result is found by its settings, not by its name: two figures that need the same run share it.

    Attributes:
        folder: where the results are.
        results: all that could be read.
        refused: what may have been a result and is none, with the reason, to be told to the user.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results: list[Result] = []
        self.refused: list[str] = []
        for path in sorted(folder.rglob("*.json")):
            try:
                if _looks_like_one(path):
                    self.results.append(read_result(path))
            except ValueError as error:
                self.refused.append(str(error))
            except OSError as error:
                self.refused.append(f"{path} cannot be read: {error.strerror}")

    def find(self, item: Item) -> Result | None:
        """The result of exactly this run on as many prompts."""
        wanted = fingerprint(item.settings)
        for result in self.results:
            if result.hash == wanted and result.prompts == item.prompts:
                return result
        return None

    def nearest(self, item: Item) -> Result | None:
        """The result of this run, or if there is none, of the same run over the nearest number of steps."""
        exact = self.find(item)
        if exact is not None:
            return exact
        wanted = fingerprint(without_steps(item.settings))
        like = [
            result
            for result in self.results
            if result.prompts == item.prompts and result.hash_without_steps == wanted
        ]
        steps = item.experiment.training.steps if isinstance(item, RunSpec) else 1
        return min(like, key=lambda result: abs(math.log((result.steps or 1) / steps)), default=None)

    def prepare(self, item: RunSpec) -> Experiment:
        """Return what is to be trained; its prompts are drawn as it goes."""
        return item.experiment

    def measure(self, item: Item, folder: Path, *, device: str, command: str) -> tuple[str, Path]:
        """Measure a finished run or a textbook method, store the result, return it in words and its file."""
        if isinstance(item, RunSpec):
            result = measure_run(item, folder, device=device, command=command)
        else:
            result = measure_reference(item, command=command)
        depth = f"T = {result.trained_depth}" if result.main.deep is not None else "last sample"
        return f"error {result.error:.3g} at {depth}", self.add(result)

    def by_name(self, items: Iterable[Item]) -> dict[str, Result]:
        """What there is for these runs, by the name that each has in its figure."""
        found = {item.name: self.nearest(item) for item in items}
        return {name: result for name, result in found.items() if result is not None}

    def add(self, result: Result) -> Path:
        """Write a result under its name; one with other settings that was there is kept beside it."""
        path = self.folder / f"{result.name}.json"
        if path.exists():
            try:
                before = read_result(path)
            except ValueError:
                before = None
            if before is not None and before.hash != result.hash:
                path.replace(path.with_name(f"{path.stem}.{before.hash}.json"))
        write_result(path, result)
        self.results = [old for old in self.results if old.hash != result.hash] + [result]
        return path


def _looks_like_one(path: Path) -> bool:
    # a folder of results may hold other JSON files; only what says that it is a result is held to it, and
    # what was cut off, which says nothing any more
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        return False
    data = read_json(path)
    return isinstance(data, dict) and {"format", "settings", "errors"} <= set(data)
