"""Convert results in the names of an earlier version: the stored experiments, and the hashes that follow.

    python -m scripts.convert_results results

Numbers, curves, scores and provenance are kept as they are. `fp32_end`, which is no setting any more, is left
out of the experiment; the provenance of such a result says which part of the run was in fp32.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from algoformer.common.files import read_json, write_json, write_text
from algoformer.training import Experiment
from paper.result import as_text
from paper.runs import fingerprint
from scripts.convert_checkpoints import converted_experiment


def convert(path: Path) -> bool:
    """Convert one file in place; return whether it held an experiment in the old names."""
    data = read_json(path)
    if not isinstance(data, dict):
        return False
    holder = data.get("settings", data)
    experiment = holder.get("experiment") if isinstance(holder, dict) else None
    if not isinstance(experiment, dict) or "data" in experiment:
        return False
    holder["experiment"] = converted_experiment(experiment)
    data["hash"] = fingerprint({"experiment": _as_written_today(holder["experiment"])})
    if holder is data:
        write_json(path, data)
    else:
        write_text(path, as_text(data))
    return True


def _as_written_today(experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the experiment with the settings that did not exist when it was stored, at their defaults."""
    return Experiment.from_data(experiment).to_data()


if __name__ == "__main__":
    found = [path for folder in sys.argv[1:] for path in sorted(Path(folder).rglob("*.json"))]
    print(f"{sum(map(convert, found))} of {len(found)} files were converted")
