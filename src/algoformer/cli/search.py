"""`algoformer search`: find a program within a FLOP budget."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from algoformer.cli.choose import FirstOptions, read_experiment
from algoformer.cli.parse import DeviceName, EngineName
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from algoformer.search import SearchCallback, SearchResult, SearchSettings
    from algoformer.search.result import Outcome

HELP = """usage: algoformer search [--data NAME [FILE ...]] [OPTIONS]

Search programs of equal training FLOPs with Optuna; leave the best one as a
program file and a diagram.

what to search
  --data NAME [FILE ...]  what to train on, as in algoformer train
  --scale NAME            smoke (default: two CPU cores), short or paper
  --space FILE            a search space in JSON; by default widths and learning
                          rates around those of the scale
  --flops X               budget of a trial: FLOPs of a training step for one
                          prompt; by default those of --program
  --tolerance X           how far a trial may be off the budget (default: 0.2)
  --steps N, --lr X, ...  how each trial is trained, as in algoformer train

how to search
  --trials N              trials of all workers together (default: 50)
  --sampler NAME          tpe (default) or random
  --reduction N           at each rung one trial in N continues (default: 3)
  --rungs N               comparisons before the end (default: 2); 0 trains
                          every trial to its end
  --dry-run               print space, budget and first program; train nothing

where
  --out FOLDER            folder of runs, journal and results; the same folder
                          continues a search (default: runs/search)
  --storage FILE|URL      journal file, or the URL of a database
  --study NAME            name of the study in its storage (default: search)
  --front                 also the Pareto front of parameters and error
  --device NAME           auto, cpu, cuda or mps
  --max-minutes X         stop after this time; the same command continues

Start the command several times, on one or more machines, to work on one study
together. algoformer search --help-all lists every option.

examples
  algoformer search --data representation --trials 40 --steps 900
  algoformer search --space space.json --flops 2e6 --out runs/wide
  algoformer search --storage postgresql+psycopg://me@host/studies"""


@dataclass(frozen=True)
class SearchOptions(FirstOptions):
    """Options of `algoformer search` that are not settings of the experiment."""

    space: Path | None = None  # A JSON file with the search space.
    flops: float | None = None  # FLOPs of a training step for one prompt; by default those of the program.
    tolerance: float = 0.2  # How far a trial may be off the budget, as a fraction.
    trials: int = 50  # Trials of the study, of all workers together.
    sampler: Literal["tpe", "random"] = "tpe"  # How trials are drawn.
    reduction: int = 3  # At each rung, one trial in this many continues.
    rungs: int = 2  # Comparisons of trials before the end; 0 trains every trial to its end.
    out: Path = Path("runs/search")  # Folder of the search; the same folder continues it.
    storage: str | None = None  # Journal file or database URL; by default journal.log in --out.
    study: str = "search"  # Name of the study in its storage.
    front: bool = False  # Also print and plot the Pareto front of parameters and error.
    dry_run: bool = False  # Print what would be searched; train nothing.
    device: DeviceName = "auto"  # Where to train.
    engine: EngineName = "auto"  # How steps are executed; auto chooses.
    max_minutes: float | None = None  # Stop after this time.


def run_search(arguments: list[str]) -> int:
    """Search as the options say."""
    experiment, chosen = read_experiment(arguments, SearchOptions, command="search", short_help=HELP)
    from algoformer.extras import require

    require("optuna", extra="search")
    from algoformer.common.devices import pick_device
    from algoformer.search import SearchSettings, search
    from algoformer.search.study import shown_storage
    from algoformer.training import RunOptions

    settings = SearchSettings(
        experiment=experiment,
        space=None if chosen.space is None else _read_space(chosen.space),
        flops=chosen.flops,
        tolerance=chosen.tolerance,
        reduction=chosen.reduction,
        rungs=chosen.rungs,
        sampler=chosen.sampler,
    )
    if chosen.dry_run:
        _describe(settings)
        return 0
    words = [shown_storage(word) if "://" in word else word for word in arguments]
    command = shlex.join(["algoformer", "search", *words])
    options = RunOptions(device=pick_device(chosen.device), engine=chosen.engine, command=command)
    try:
        with _progress() as callback:
            result = search(
                settings,
                trials=chosen.trials,
                out=chosen.out,
                storage=chosen.storage,
                study=chosen.study,
                options=options,
                max_minutes=chosen.max_minutes,
                callback=callback,
            )
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command continues: {printable(command)}", file=sys.stderr)
        return 130
    _print_result(result, chosen.front)
    if result.ranked:
        _write_result(result, chosen.out, front=chosen.front, command=command)
    return 0


def _read_space(path: Path) -> Any:
    from algoformer.common.files import read_json
    from algoformer.common.plain_data import read_dataclass
    from algoformer.search import SearchSpace

    data = read_json(path, "--space")
    try:
        return read_dataclass(SearchSpace, data)
    except ValueError as error:
        raise ValueError(f"{path} is not a search space: {error}") from None


def _describe(settings: SearchSettings) -> None:
    space, config = settings.chosen_space, settings.experiment.training
    print(space)
    unit = "FLOPs for a prompt and training step"
    print(f"budget       {settings.budget:.4g} {unit}, ±{settings.tolerance:.0%}")
    rungs = [settings.rung_steps * settings.reduction**rung for rung in range(settings.rungs)]
    shown = f", compared after {', '.join(map(str, rungs))}" if rungs else ""
    print(f"training     {config.steps} steps{shown}")
    first = space.hand_made(settings.experiment)
    if first is not None:
        candidate = settings.candidate(first)
        share = candidate.flops / settings.budget
        print(f"first trial  {first}, lr {first.lr:.3g}, {share:.2f} of the budget")
        print(candidate.experiment.program)


def _print_result(result: SearchResult, front: bool) -> None:
    print(result)
    if not result.ranked:
        print("no trial has been trained to its end yet; the same command continues")
        return
    first = result.hand_made
    if first is not None:
        rank, ratio = 1 + result.ranked.index(first), "it is the best"
        if rank > 1:
            best, own = result.best.error or 0.0, first.error or 0.0
            ratio = f"the best has {best / own:.2f} of its error"
        print(f"hand-made 1+1+1: trial {first.number}, rank {rank} of {len(result.ranked)}; {ratio}")
    if front:
        print("front of parameters and error")
        print(result.table(front=True))


def _write_result(result: SearchResult, out: Path, *, front: bool, command: str) -> None:
    """Write the winner, all trials and the plots; print what can be done with them."""
    from algoformer.cli.measure import can_plot
    from algoformer.common.devices import source_commit
    from algoformer.common.files import write_json, write_text
    from algoformer.common.plain_data import as_data
    from algoformer.model.program import to_data
    from algoformer.report.canvas import save
    from algoformer.report.diagram import diagram
    from algoformer.report.plots import front_figure, importance_figure

    winner = result.candidate(result.best).experiment
    write_json(out / "winner.json", to_data(winner.program))
    write_json(out / "winner-config.json", winner.to_data())
    write_text(out / "winner.svg", diagram(winner.program, window=winner.training.window))
    trials = [as_data(one) | {"curve": dict(one.curve)} for one in result.outcomes]
    facts = {"command": command, "commit": source_commit(), "settings": result.settings.to_data()}
    write_json(out / "trials.json", {**facts, "importance": dict(result.importance), "trials": trials})
    if result.importance and can_plot():
        save(importance_figure(result.importance, title="What mattered"), out / "importance")
    if front and can_plot():
        points, chosen = (
            [(float(one.parameters), one.error or 0.0) for one in several]
            for several in (result.ranked, result.front)
        )
        save(front_figure(points, chosen, title="Error and parameters"), out / "front")
    place = shlex.quote(printable(str(out)))
    print(f"winner: {place}/winner.json, winner.svg; all trials: {place}/trials.json")
    print(f"train it: algoformer train --config {place}/winner-config.json --out runs/winner")


@contextmanager
def _progress() -> Iterator[SearchCallback]:
    """Show a bar on a terminal, and a line for each trial elsewhere."""
    from rich.console import Console

    from algoformer.cli.progress import bars
    from algoformer.search import SearchCallback

    terminal = Console(stderr=True).is_terminal
    with bars() as progress:
        bar = progress.add_task("trials", total=None, note="")
        show: Callable[..., None] = progress.update

        class News(SearchCallback):
            best: float | None = None

            def on_log(self, number: int, step: int, steps: int, error: float) -> None:
                best = "" if self.best is None else f"best {self.best:.3g}, "
                show(bar, note=f"{best}trial {number}: step {step} of {steps}, error {error:.3g}")

            def on_outcome(self, outcome: Outcome, done: int, trials: int) -> None:
                if outcome.error is not None:
                    self.best = outcome.error if self.best is None else min(self.best, outcome.error)
                show(bar, completed=done, total=trials)
                if not terminal:
                    print(f"{done} of {trials}: {_line(outcome)}", file=sys.stderr)

        yield News()


def _line(outcome: Outcome) -> str:
    ended = outcome.state if outcome.error is None else f"error {outcome.error:.3g}"
    if outcome.state == "pruned" and outcome.curve:
        step, error = list(outcome.curve.items())[-1]
        ended = f"pruned at step {step} with error {error:.3g}"
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"trial {outcome.number}, {outcome.point}, T = {outcome.iterations}: {ended}{reason}"
