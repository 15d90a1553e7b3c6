"""Where mutants come from: every file format and every command of the library.

A source takes a valid sample, changes it, and reads it. `readers` finds all functions of the library that
read something from outside; a test compares them with what the sources read, so that a new format cannot be
forgotten.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import algoformer
from torture.mutate import mutate_bytes, mutate_text
from torture.verdicts import Mutant, NonsenseError


@dataclass(frozen=True)
class Source:
    """A kind of mutants.

    Attributes:
        name: the row of the table that its mutants are counted in.
        weight: how often it is drawn, beside the others.
        reads: the functions of the library that it covers, by module and name.
        mutant: makes a mutant from a generator.
    """

    name: str
    weight: float
    reads: tuple[str, ...]
    mutant: Callable[[random.Random], Mutant]


PREFIXES = ("load_", "read_", "from_json", "from_data", "from_header", "unpack")

ELSEWHERE = {
    "algoformer.language.corpora.load_parallel": "calls the function of a registered corpus",
    "algoformer.language.corpora.load_labelled": "calls the function of a registered corpus",
    "algoformer.common.plain_data.read_value": "is a part of read_dataclass",
    "algoformer.insight.trajectory.read_depths": "computes depths and reads no file",
    "algoformer.data.protocol.Data.from_header": "is the protocol of what the kinds of data do",
    "algoformer.data.text_base.BaseTextData.from_header": "is the base of kinds of data",
    "algoformer.data.tokenized.TokenizedData.from_header": "is the base of kinds of data",
    "algoformer.common.plain_data.Stored.from_data": "is the base of results",
    "algoformer.common.plain_data.Stored.from_json": "is the base of results",
}
"""Readers without a source of their own, and why."""


def uncovered(sources: Sequence[Source]) -> list[str]:
    """Return the readers of the library that no source reads, and that have no reason for it."""
    return sorted(set(readers()) - {name for source in sources for name in source.reads} - set(ELSEWHERE))


def readers() -> dict[str, Callable[..., Any]]:
    """Return the public functions and classmethods of the library that by their names read something."""
    found: dict[str, Callable[..., Any]] = {}
    for module in _modules():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value) and name.startswith(PREFIXES):
                found[f"{module.__name__}.{name}"] = value
            elif inspect.isclass(value):
                for inner, method in inspect.getmembers(value, inspect.ismethod):  # inherited ones too
                    if inner.startswith(PREFIXES) and method.__module__.startswith("algoformer."):
                        found[f"{module.__name__}.{name}.{inner}"] = method
    return found


def _modules() -> Iterator[Any]:
    for module in pkgutil.walk_packages(algoformer.__path__, "algoformer."):
        if not module.name.endswith("__main__") and ".kernels." not in module.name:
            yield importlib.import_module(module.name)


def json_source(kind: type[Any], samples: list[str], check: Callable[[Any], object]) -> Source:
    """Return mutants of a class with `from_json`; what is accepted must survive being written and read."""

    def mutant(rng: random.Random) -> Mutant:
        text = mutate_text(rng, rng.choice(samples))

        def run() -> None:
            found = kind.from_json(text)
            check(found)
            again = kind.from_json(found.to_json())
            # numbers that are not finite are not equal to themselves
            if again != found and again.to_json() != found.to_json():
                raise NonsenseError("what was read is not what is written")

        return Mutant(f"{kind.__name__}.from_json({text[:500]!r})", run)

    where = f"{kind.__module__}.{kind.__name__}"
    reads = tuple(f"{where}.{name}" for name in ("from_json", "from_data") if hasattr(kind, name))
    return Source(f"{kind.__name__} as JSON", 2, reads, mutant)


def file_source(
    name: str,
    samples: list[Path],
    read: Callable[[Path], object],
    reads: tuple[str, ...],
    folder: Path,
    *,
    weight: float = 1,
) -> Source:
    """Return mutants of files: a file is changed and read under its own suffix."""
    contents = [(path.suffix, path.read_bytes()) for path in samples]

    def mutant(rng: random.Random) -> Mutant:
        suffix, content = rng.choice(contents)
        if suffix == ".json" and rng.random() < 0.7:
            changed = mutate_text(rng, content.decode()).encode("utf-8", "surrogatepass")
        else:
            changed = mutate_bytes(rng, content)
        path = folder / f"mutant {rng.getrandbits(60)}{suffix}"

        def run() -> None:
            path.write_bytes(changed)
            try:
                read(path)
            finally:
                path.unlink(missing_ok=True)

        return Mutant(f"{name} {suffix}: {changed[:300]!r}", run)

    return Source(name, weight, reads, mutant)


def copied_folder(source: Path, target: Path) -> Path:
    """Copy a run folder that everybody may write in."""
    shutil.copytree(source, target)
    for path in (target, *target.iterdir()):
        os.chmod(path, 0o777)
    return target


def as_text(value: Any) -> str:
    """Return JSON text of plain data, also of numbers that JSON does not have."""
    return json.dumps(value)
