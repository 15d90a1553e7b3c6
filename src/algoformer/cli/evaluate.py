"""`algoformer evaluate`: runs and textbook solvers, or a model of text on its test set."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from algoformer.cli.parse import DeviceName, parse
from algoformer.cli.say import say
from algoformer.common.terminal import printable

DESCRIPTION = """Measure models and textbook solvers on held-out prompts, or models of text on their test set.

Examples:
  algoformer evaluate linear --against newton,gd
  algoformer evaluate runs/a runs/b --against oracle --out comparison
  algoformer evaluate runs/sudoku --against textbook
  algoformer evaluate runs/small_de_en-algoformer-smoke-seed0

Solvers for --against: algoformer evaluate --solvers
"""


RESULTS = ("error_by_sample.png", "error_by_step.png", "evaluation.json", "report.html", "scores.json")
"""The files that an evaluation may write."""


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of `algoformer evaluate`."""

    runs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(metavar="MODEL ...", help="Run folders, checkpoint files or shipped models."),
    ] = ()
    against: str = ""  # Textbook solvers, separated by commas.
    iterations: int | None = None  # Iterations of the loop; by default as trained.
    stop: str | None = None  # Stopping rule of the loop of a text model, such as kl:1e-3.
    prompts: int = 1280  # Number of held-out prompts.
    raw: bool = False  # Use the last weights of a run, not the best ones or their moving average.
    device: DeviceName = "auto"  # Where models run.
    out: Path | None = None  # Folder for numbers and plots; by default the folder of a single run.
    data_folder: str | None = None  # Folder with named corpora; by default $ALGOFORMER_DATA.
    solvers: bool = False  # List the textbook solvers and exit.


def run_evaluate(arguments: list[str]) -> int:
    """Measure, print, draw."""
    chosen = parse(EvaluateOptions, arguments, command="evaluate", description=DESCRIPTION)
    from algoformer.algorithms import SOLVERS
    from algoformer.cli.measure import TEXTBOOK, measure_runs, measure_text, refuse_folder
    from algoformer.common.devices import pick_device
    from algoformer.common.names import check_choice
    from algoformer.evaluation import summary_table
    from algoformer.model.stopping import parse_stopping
    from algoformer.shipped import load

    if chosen.solvers:
        print("\n".join([*SOLVERS, TEXTBOOK]))
        return 0
    if not chosen.runs:
        raise ValueError("evaluate needs a run folder, a checkpoint file or a shipped model")
    against = [name.strip() for name in chosen.against.split(",") if name.strip()]
    for name in against:  # an unknown name is refused before anything is measured
        check_choice("solver", name, [*SOLVERS, TEXTBOOK])
    if chosen.iterations is not None and chosen.iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {chosen.iterations}")
    out = chosen.out or default_folder(chosen.runs)
    command, device = shlex.join(["algoformer", "evaluate", *arguments]), pick_device(chosen.device)
    is_text = len(chosen.runs) == 1 and load(chosen.runs[0]).task is None
    _refuse_options(chosen, is_text=is_text)
    how: dict[str, Any] = {"out": out, "command": command, "device": device, "raw": chosen.raw}
    if is_text:
        how |= {} if chosen.stop is None else {"early_exit": parse_stopping(chosen.stop)}
        table = measure_text(chosen.runs[0], folder=chosen.data_folder, **how)
    else:
        refuse_folder(chosen.data_folder)
        how |= {"against": against, "prompts": chosen.prompts, "steps": chosen.iterations}
        table = summary_table(measure_runs(chosen.runs, **how))
    say(table)
    if out is not None:
        written = ", ".join(name for name in RESULTS if (out / name).exists())
        print(f"written to {printable(str(out))}: {written}")
    return 0


def _refuse_options(chosen: EvaluateOptions, *, is_text: bool) -> None:
    if not is_text and chosen.stop is not None:
        raise ValueError("--stop is for models of text; compare depths of this one with --iterations")
    if is_text and (chosen.against or chosen.iterations is not None):
        option = "--against" if chosen.against else "--iterations"
        raise ValueError(f"{option} is for models that answer prompts; this one was trained on text")
    if is_text and chosen.prompts != EvaluateOptions.prompts:
        raise ValueError("--prompts is for models that answer prompts; a text model reads its whole test set")


def default_folder(runs: tuple[Path, ...]) -> Path | None:
    """Return where results go: into the folder of a single run; of a file or a shipped model, nowhere."""
    from algoformer.shipped import checkpoint_path

    if len(runs) == 1:
        return runs[0] if checkpoint_path(runs[0]).parent == runs[0] else None
    return Path("evaluation")
