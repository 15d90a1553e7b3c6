"""The fit, the tables and the picture of a scaling study, from its file of results.

python -m scripts.studies.scaling_report results/scaling/text-full.json --without '*/budget0/*'
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from algoformer.evaluation import Cell, Table
from algoformer.report.axes import logarithmic
from algoformer.report.canvas import finish, panels
from algoformer.report.style import INK, strokes
from scripts.studies.scaling_law import Law, Runs, fit
from scripts.studies.scaling_models import PLAIN

PUBLISHED = {"full": 0.46, "truncated": 0.38, "hyper-connections": 0.65}
"""φ of language models of 20 layers trained on 4.6e17 to 2.2e19 FLOPs, from arXiv 2604.21106."""


def law_of(found: Mapping[str, Any], recipes: Sequence[str], resamples: int = 1000) -> dict[str, Any]:
    """Return the law of the runs as plain data: parameters, bands, and Δφ of every other recipe."""
    rows = [
        {**run, "loss": run["summary"]["loss"], "recipe": name.split("/")[0]}
        for name, run in found.items()
        if name.split("/")[0] in (PLAIN, *recipes)
    ]
    done = fit(Runs.of(rows), resamples=resamples)
    phi = done.law.phi
    return {
        "law": asdict(done.law),
        "bands": {name: done.band(name) for name in done.resampled},
        "differences": {
            name: {"value": phi[name] - phi[PLAIN], "band": done.band(name, PLAIN)}
            for name in phi
            if name != PLAIN
        },
        "relative_error": done.error,
        "at_bounds": done.law.at_bounds,
        "runs": len(rows),
        "flops": [end(row["flops"] for row in rows) for end in (min, max)],
    }


def report_of(law: Mapping[str, Any]) -> Table:
    """Return the fitted parameters with their 5–95 % bands."""
    values, bands = law["law"], law["bands"]
    plain = ("E", "A", "B", "alpha", "beta")
    rows: list[tuple[Cell, ...]] = [(name, f"{values[name]:.3g}", _band(bands[name])) for name in plain]
    rows += [(f"φ {name}", f"{phi:.2f}", _band(bands[name])) for name, phi in values["phi"].items()]
    rows += [
        (f"Δφ {name}", f"{item['value']:+.2f}", _band(item["band"]))
        for name, item in law["differences"].items()
    ]
    rows.append(("relative residual", f"{law['relative_error']:.3f}", "–"))
    return Table(columns=("parameter", "value", "5–95 % over runs"), rows=tuple(rows))


def _band(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.2g} to {ends[1]:.2g}"


def picture_of(found: Mapping[str, Any], fitted: Mapping[str, Any], plain: str) -> Any:
    """Draw the losses of the plain recipe beside the law, and φ of every recipe with its band."""
    law = Law(**fitted["law"])
    figure, (left, right) = panels(2, "What a repetition is worth")
    runs = [run for name, run in found.items() if name.startswith(f"{plain}/")]
    numbers = sorted({run["repetitions"] for run in runs})
    styles = strokes([f"r = {r}" for r in numbers])
    losses = [run["summary"]["loss"] for run in runs]
    ends = min(losses) / 1.03, max(losses) * 1.03
    for r in numbers:
        some = [run for run in runs if run["repetitions"] == r]
        fit = [law.loss(law.effective(run["once"], run["loop"], r, plain), run["data"]) for run in some]
        style = styles[f"r = {r}"]
        seen = [run["summary"]["loss"] for run in some]
        left.plot(fit, seen, "o", color=style.color, label=f"r = {r}", markersize=5)
    left.plot(ends, ends, color=INK, linewidth=1, alpha=0.5)
    for along in ("x", "y"):
        logarithmic(left, *ends, along=along)
    left.set_xlabel("loss by the law", color=INK)
    left.set_ylabel("loss on held-out data", color=INK)
    _draw_phi(right, fitted)
    return finish(figure, left)


def _draw_phi(axes: Any, fitted: Mapping[str, Any]) -> None:
    names = list(fitted["law"]["phi"])
    values = np.array([fitted["law"]["phi"][name] for name in names])
    low, high = np.array([fitted["bands"][name] for name in names]).T
    places = np.arange(len(names))
    axes.vlines(places, low, high, color=INK, linewidth=1.5)
    axes.plot(places, values, "o", color=INK, markersize=6)
    for name, value in PUBLISHED.items():
        axes.axhline(value, color=INK, linewidth=0.8, alpha=0.5, linestyle=(0, (2, 2)))
        place = {"xycoords": axes.get_yaxis_transform(), "ha": "right", "va": "bottom"}
        axes.annotate(f"{name}, published", (1, value), fontsize=8, color=INK, **place)
    axes.set_xticks(places, names)
    axes.set_xlim(-0.5, len(names) + 0.5)
    axes.set_ylabel("φ", color=INK)


def main() -> None:
    """Fit the runs of a file again, and print the law."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="File of results, such as results/scaling/text-full.json.")
    parser.add_argument("--recipes", nargs="*", default=[], help="Recipes besides 'full'.")
    parser.add_argument("--without", nargs="*", default=[], help="Patterns of runs to leave out.")
    chosen = parser.parse_args()
    if not chosen.file.exists():
        parser.error(f"there is no file {chosen.file}; give one of results/scaling, such as text-full.json")
    runs = json.loads(chosen.file.read_text())["runs"]
    known = sorted({name.split("/")[0] for name in runs} - {"rates"})
    if missing := [one for one in chosen.recipes if one not in known]:
        parser.error(f"--recipes: the file has {', '.join(known)}, got {missing[0]!r}")
    kept = {name: run for name, run in runs.items() if not any(fnmatch(name, one) for one in chosen.without)}
    print(report_of(law_of(kept, chosen.recipes)))


if __name__ == "__main__":
    main()
