"""`python -m torture`: kills, races and mutants, counted in a table and in a JSON file."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from torture.child import warm_up

DESCRIPTION = """Kill, race and mutate the library, and count what happens; the exit status is 1 with a fault.
Parts with different seeds can run side by side, each with a file of its own for the counts."""


def main(arguments: list[str] | None = None) -> int:
    """Run the sections that the options ask for; return 1 if anything went wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=DESCRIPTION)
    parser.add_argument("--kills", type=int, default=500, help="training runs to kill (default: 500)")
    parser.add_argument("--groups", type=int, default=50, help="processes of groups to kill (default: 50)")
    parser.add_argument("--races", type=int, default=1000, help="races for one folder (default: 1000)")
    parser.add_argument("--mutants", type=int, default=30_000, help="changed inputs (default: 30000)")
    parser.add_argument("--only", default="", help="change only inputs whose source has this in its name")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything that is drawn (default: 0)")
    parser.add_argument("--out", type=Path, help="the file for the counts (default: torture-SEED.json)")
    chosen = parser.parse_args(arguments)
    out = chosen.out or Path(f"torture-{chosen.seed}.json")
    warm_up()
    import torch

    table: dict[str, Any] = {"seed": chosen.seed, "commit": source_commit(), "torch": torch.__version__}
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        os.chmod(folder, 0o755)
        os.environ["ALGOFORMER_CACHE"] = f"{folder}/cache"
        for name, section in _sections(chosen.only).items():
            count = getattr(chosen, name)
            if count:
                scratch = Path(folder) / name
                scratch.mkdir()
                save = _saver(table, name, out)
                save(section(count, seed=chosen.seed, scratch=scratch, save=save))
    print(formatted(table))
    return int(any(table[name]["faults"] for name in _sections("") if name in table))


def _saver(table: dict[str, Any], name: str, out: Path) -> Callable[[Any], None]:
    """Return a function that writes the counts of a section so far: a run that is stopped has counted too."""
    began = time.monotonic()

    def save(done: Any) -> None:
        table[name] = done.table() | {"wall seconds": round(time.monotonic() - began)}
        write_json(out, table)

    return save


def _sections(only: str) -> dict[str, Callable[..., Any]]:
    from torture.groups import kill_groups
    from torture.kills import kill_runs
    from torture.mutants import mutate
    from torture.races import race

    return {
        "races": race,
        "mutants": partial(mutate, only=only),
        "kills": kill_runs,
        "groups": kill_groups,
    }


def formatted(table: dict[str, Any]) -> str:
    """Return the counts as lines of text, below a line that says what was counted."""
    rows = [", ".join(f"{key} {value}" for key, value in table.items() if not isinstance(value, dict))]
    for name, section in table.items():
        if isinstance(section, dict):
            rows.append(f"\n{name}")
            rows += [f"  {key:45} {value}" for key, value in section.items() if key != "examples"]
            rows += [f"  fault: {example}" for example in section.get("examples", [])]
    return "\n".join(rows)
