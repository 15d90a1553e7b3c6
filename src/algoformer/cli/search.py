"""`algoformer search`: find a program within a FLOP budget."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import tyro

from algoformer.cli.choose import Field, read_experiment
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from algoformer.search import SearchCallback, SearchResult, SearchSettings
    from algoformer.search.result import Outcome

HELP = """usage: algoformer search [--data NAME [FILE ...]] [OPTIONS]

Search programs of equal training FLOPs with Optuna; leave the winner as a program file and a diagram.

what to search
  --data NAME [FILE ...]  what trials are trained on, as in algoformer train (default: linear)
  --scale NAME            smoke (default: two CPU cores), short (GPU minutes), paper (the paper's sizes)
  --space FILE            a search space in JSON; by default widths and learning rates around the scale's
  --flops X               budget of a trial: FLOPs of a training step for one prompt; by default those of the
                          program that --program and --model.PART.NAME describe (1+1+1 unless changed)
  --tolerance X           how far a trial may be off the budget, as a fraction (default: 0.2)
  --steps N, --lr X, ...  how each trial is trained, as in algoformer train

how to search
  --trials N              trials of the study, of all workers together (default: 50)
  --sampler NAME          tpe (default) or random
  --reduction N           at each rung one trial in N goes on (default: 3)
  --rungs N               rungs before the end (default: 2); 0 trains every trial to its end
  --dry-run               print the space, the budget and the first program; train nothing

where
  --out FOLDER            run folders, journal and results; the same folder goes on (default: runs/search)
  --storage FILE|URL      journal file, or a database such as postgresql+psycopg://user@host/name
  --study NAME            name of the study in its storage (default: search)
  --front                 also the front of parameters and error
  --device NAME           auto, cpu, cuda or mps
  --max-minutes X         stop after this time; the same command goes on

Start the command several times, on one or more machines, to work on one study together.
algoformer search --help-all lists every option.

examples
  algoformer search --data representation --trials 40 --steps 900
  algoformer search --space space.json --flops 2e6 --out runs/wide
  algoformer search --storage postgresql+psycopg://me@host/studies --out runs/search"""

DESCRIPTION = (
    "Search programs of equal training FLOPs with Optuna; leave the winner as a program and a diagram."
)


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search that are not settings of the experiment."""

    space: Annotated[Path | None, tyro.conf.arg(help="A JSON file with the search space.")] = None
    flops: Annotated[
        float | None,
        tyro.conf.arg(help="FLOPs of a training step for one prompt; by default those of the program."),
    ] = None
    tolerance: Annotated[float, tyro.conf.arg(help="How far a trial may be off the budget.")] = 0.2
    trials: Annotated[int, tyro.conf.arg(help="Trials of the study, of all workers together.")] = 50
    sampler: Annotated[Literal["tpe", "random"], tyro.conf.arg(help="What draws trials.")] = "tpe"
    reduction: Annotated[int, tyro.conf.arg(help="At each rung one trial in so many goes on.")] = 3
    rungs: Annotated[int, tyro.conf.arg(help="Rungs before the end; 0 trains every trial to its end.")] = 2
    out: Annotated[Path, tyro.conf.arg(help="The folder of the search; the same folder goes on.")] = Path(
        "runs/search"
    )
    storage: Annotated[
        str | None, tyro.conf.arg(help="Journal file or database URL; by default journal.log in --out.")
    ] = None
    study: Annotated[str, tyro.conf.arg(help="Name of the study in its storage.")] = "search"
    front: Annotated[bool, tyro.conf.arg(help="Also the front of parameters and error.")] = False
    dry_run: Annotated[bool, tyro.conf.arg(help="Print what would be searched; train nothing.")] = False
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to train.")] = "auto"
    engine: Annotated[
        Literal["auto", "eager", "graph", "compiled", "fused"],
        tyro.conf.arg(help="How steps are executed; auto chooses."),
    ] = "auto"
    max_minutes: Annotated[float | None, tyro.conf.arg(help="Stop after this time.")] = None


def options() -> list[Field]:
    """Return the options of this command that are not settings of the experiment."""
    hints = get_type_hints(SearchOptions, include_extras=True)
    return [(item.name, hints[item.name], item.default) for item in fields(SearchOptions)]


def run_search(arguments: list[str]) -> int:
    """Search as the options say."""
    experiment, chosen = read_experiment(
        arguments, command="search", description=DESCRIPTION, extra=options(), short_help=HELP
    )
    from algoformer.extras import require

    require("optuna", extra="search")
    from algoformer.search import SearchSettings, search
    from algoformer.search.study import shown_storage

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
    try:
        with _progress() as callback:
            result = search(
                settings,
                trials=chosen.trials,
                out=chosen.out,
                storage=chosen.storage,
                study=chosen.study,
                options=_run_options(chosen, command),
                max_minutes=chosen.max_minutes,
                callback=callback,
            )
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command goes on: {printable(command)}", file=sys.stderr)
        return 130
    _print_result(result, chosen.front)
    if result.ranked:
        _write_result(result, chosen.out, front=chosen.front, command=command)
    return 0


def _read_space(path: Path) -> Any:
    from algoformer.common.files import read_json
    from algoformer.common.plain_data import read_dataclass
    from algoformer.search import SearchSpace

    data = read_json(path)
    try:
        return read_dataclass(SearchSpace, data)
    except ValueError as error:
        raise ValueError(f"{path} is not a search space: {error}") from None


def _run_options(chosen: Any, command: str) -> Any:
    from algoformer.common.devices import pick_device
    from algoformer.training import RunOptions

    return RunOptions(device=pick_device(chosen.device), engine=chosen.engine, command=command)


def _describe(settings: SearchSettings) -> None:
    space, config = settings.chosen_space, settings.experiment.training
    print(space)
    print(
        f"budget       {settings.budget:.4g} FLOPs for a prompt and training step, ±{settings.tolerance:.0%}"
    )
    rungs = [settings.rung_steps * settings.reduction**rung for rung in range(settings.rungs)]
    shown = f", compared after {', '.join(map(str, rungs))}" if rungs else ""
    print(f"training     {config.steps} steps{shown}")
    first = space.hand_made(settings.experiment)
    if first is not None:
        candidate = settings.candidate(first)
        print(
            f"first trial  {first}, lr {first.lr:.3g}, {candidate.flops / settings.budget:.2f} of the budget"
        )
        print(candidate.experiment.program)


def _print_result(result: SearchResult, front: bool) -> None:
    print(result)
    if not result.ranked:
        print("no trial has been trained to its end yet; the same command goes on")
        return
    first = result.hand_made
    if first is not None:
        rank = 1 + result.ranked.index(first)
        assert first.error is not None
        assert result.best.error is not None
        ratio = (
            f"the best has {result.best.error / first.error:.2f} of its error"
            if rank > 1
            else "it is the best"
        )
        print(f"hand-made 1+1+1: trial {first.number}, rank {rank} of {len(result.ranked)}; {ratio}")
    if front:
        print("front of parameters and error")
        print(result.table(front=True))


def _write_result(result: SearchResult, out: Path, *, front: bool, command: str) -> None:
    """Write the winner, all trials and the plots; print what can be done with them."""
    from algoformer.common.devices import source_commit
    from algoformer.common.files import write_json, write_text
    from algoformer.common.plain_data import as_data
    from algoformer.model.program import to_data
    from algoformer.report.canvas import save
    from algoformer.report.diagram import diagram
    from algoformer.report.search_plots import front_figure, importance_figure

    winner = result.candidate(result.best).experiment
    write_json(out / "winner.json", to_data(winner.program))
    write_json(out / "winner-config.json", winner.to_data())
    write_text(out / "winner.svg", diagram(winner.program, window=winner.training.window))
    write_json(
        out / "trials.json",
        {
            "command": command,
            "commit": source_commit(),
            "settings": result.settings.to_data(),
            "importance": dict(result.importance),
            "trials": [as_data(one) | {"curve": dict(one.curve)} for one in result.outcomes],
        },
    )
    try:
        if result.importance:
            save(importance_figure(result.importance, title="What mattered"), out / "importance")
        if front:
            points = [(float(one.parameters), one.error or 0.0) for one in result.ranked]
            chosen = [(float(one.parameters), one.error or 0.0) for one in result.front]
            save(front_figure(points, chosen, title="Error and parameters"), out / "front")
    except ModuleNotFoundError as error:
        print(f"no plots: {error}", file=sys.stderr)
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
