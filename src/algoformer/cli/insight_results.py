"""Trace, print, store and draw the results of `algoformer identify` and `algoformer certify`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from algoformer.checkpoint import add_to_card
from algoformer.cli.measure import MOST_PROMPTS, can_plot
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.common.plain_data import check_count
from algoformer.common.terminal import printable
from algoformer.report import save
from algoformer.shipped import checkpoint_path


def prepare(chosen: Any) -> None:
    """Refuse a wrong number of prompts, and a folder that cannot be made, before anything is measured."""
    if chosen.prompts is not None:
        check_count("prompts", chosen.prompts, most=MOST_PROMPTS)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)


def with_provenance(found: Any, label: str, words: Sequence[str], start: float) -> Any:
    """Return a result together with what traces it: model, command, commit, device and time."""
    origin = {
        "model": label,
        "command": shlex.join(["algoformer", *words]),
        "commit": source_commit(),
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(time.process_time(), 1),
    }
    return replace(found, setting=found.setting | origin)


def deliver(
    found: Any, chosen: Any, facts: Mapping[str, Any], file: str, figures: Callable[[Any], Mapping[str, Any]]
) -> None:
    """Print a result; add facts to the model's card with --store; write JSON and plots with --out."""
    print(found.to_json() if chosen.json else found)
    if chosen.store and facts:
        add_to_card(checkpoint_path(chosen.model), facts)
    if chosen.out is not None:
        write_json(chosen.out / file, found.to_data())
        for name, figure in (figures(found) if can_plot() else {}).items():
            save(figure, chosen.out / name)
        stream = sys.stderr if chosen.json else sys.stdout
        print(f"numbers and plots: {printable(str(chosen.out))}", file=stream)
