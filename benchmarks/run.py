"""Run the sections one after the other, and keep every row as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from algoformer.common.files import write_json
from benchmarks.concurrent_runs import together_rows
from benchmarks.cpu import cpu_rows
from benchmarks.decoding import decoding_rows
from benchmarks.evaluation import evaluation_rows
from benchmarks.exits import exit_rows
from benchmarks.lines import line_rows
from benchmarks.memory import memory_rows
from benchmarks.page import page_rows
from benchmarks.peers import peer_rows
from benchmarks.setting import Row, Setting, device_facts
from benchmarks.startup import ready_rows
from benchmarks.steps import step_rows

SECTIONS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "steps": step_rows,
    "ready": ready_rows,
    "together": together_rows,
    "memory": memory_rows,
    "evaluation": evaluation_rows,
    "decoding": decoding_rows,
    "exits": exit_rows,
    "peers": peer_rows,
    "cpu": cpu_rows,
    "lines": line_rows,
    "page": page_rows,
}
"""What can be measured, by name."""

Rows = dict[str, list[Row]]
"""The rows of each section."""


def run_benchmark(
    setting: Setting,
    sections: tuple[str, ...],
    *,
    budget: int | float,
    file: Path | None = None,
    tell: Callable[[str, Row], None] = lambda section, row: None,
    command: str = "",
) -> Rows:
    """Measure; after each row tell it and write the file anew, whole or not at all.

    Args:
        setting: what and where.
        sections: which, in this order.
        budget: seconds after which no new row is begun.
        file: where the rows go as JSON.
        tell: called with every row when it is there.
        command: how this was asked for, for provenance.

    Raises:
        ValueError: there is no such section.
    """
    for name in sections:
        if name not in SECTIONS:
            raise ValueError(f"sections are {', '.join(SECTIONS)}, got {name!r}")
    began = time.monotonic()
    facts: dict[str, Any] = {**device_facts(setting.device), "command": command, "size": asdict(setting.size)}
    found: Rows = {}

    def keep(*, complete: bool) -> None:
        if file is not None:
            spent = {"seconds": round(time.monotonic() - began, 1), "complete": complete}
            write_json(file, {**facts, **spent, "sections": found})

    for section in sections:
        rows = SECTIONS[section](setting)
        while True:
            if time.monotonic() - began > budget:
                keep(complete=False)
                return found
            row = next(rows, None)
            if row is None:
                break
            found.setdefault(section, []).append(row)
            tell(section, row)
            keep(complete=False)
    keep(complete=True)
    return found
