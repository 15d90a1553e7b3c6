"""Load, trace, write and draw for `algoformer identify` and `algoformer certify`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from algoformer.cli.measure import Contender, load_contender
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.extras import require
from algoformer.model import AlgoFormer
from algoformer.report import save
from algoformer.shipped import load


def load_in_context(path: Path, *, instead: str) -> Contender:
    """Load a model of prompts; refuse a model of text and say what to use instead.

    Raises:
        ValueError: the file holds a model of text, or no model.
    """
    if not isinstance(load(path).model, AlgoFormer):
        raise ValueError(f"{path} is a model of text, with no regression inside its prompts; {instead}")
    return load_contender(path)


def provenance(label: str, command: str, start: float) -> dict[str, Any]:
    """Return what a result needs to be traced: model, command, commit, device and time."""
    return {
        "model": label,
        "command": command,
        "commit": source_commit(),
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(time.process_time(), 1),
    }


def write_result(found: Any, path: Path, figures: Callable[[Any], Mapping[str, Any]]) -> None:
    """Write a result as JSON to `path` and its figures beside it, if matplotlib is installed."""
    write_json(path, found.to_data())
    try:
        require("matplotlib", extra="viz")
    except ModuleNotFoundError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return
    for name, figure in figures(found).items():
        save(figure, path.parent / name)
