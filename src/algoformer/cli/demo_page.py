"""The runs, tables, plots and page of `algoformer demo`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from algoformer import __version__
from algoformer.cli import demo_runs
from algoformer.cli.explore_pages import make_page
from algoformer.cli.progress import counting
from algoformer.cli.say import say
from algoformer.common.devices import device_name
from algoformer.common.files import write_json, write_text
from algoformer.common.provenance import source_commit
from algoformer.evaluation import Evaluation, Table, depth_table, summary_table
from algoformer.extras import require
from algoformer.model.program import traced_part
from algoformer.report import (
    Fact,
    Page,
    Picture,
    Section,
    error_by_sample,
    error_by_step,
    inline_svg,
    render,
    save,
    training_loss,
)
from algoformer.report.diagram import diagram
from algoformer.report.explorer import conclusion
from algoformer.training import Experiment, load_experiment, read_metrics
from algoformer.training.progress import training_bars
from algoformer.training.side_by_side import Planned, train_side_by_side

EXPLORED_PROMPTS = 16
"""Held-out prompts behind the conclusion of an explorer page, so that the shipped model takes seconds."""


def make_demo(out: Path, *, fresh: bool, checkpoints: Path) -> int:
    """Train, compare, print, draw."""
    require("matplotlib", extra="viz")
    began = time.monotonic()
    plans = demo_runs.plan(out)
    _make_room(plans, fresh=fresh)
    _train(plans)
    with counting("measuring") as progress:
        results = demo_runs.measure(plans, progress=progress)
    first = plans[demo_runs.MODELS[0]].experiment
    trained = demo_runs.trained_steps(first)
    task = first.task
    tables = (
        summary_table(
            results, title=f"linear regression in {task.dim} dimensions, {task.points - 1} examples"
        ),
        depth_table(
            [result.by_step for result in results],
            trained=trained,
            depths=(demo_runs.BEYOND * trained,),
            title="beyond the trained depth",
        ),
    )
    for table in tables:
        say(table)
    known: list[demo_runs.Shipped] = []
    if checkpoints.is_dir():
        with counting("shipped models") as progress:
            known = demo_runs.shipped(checkpoints, progress=progress)
        for model in known:
            say(_shipped_table(model))
    write_json(out / "evaluation.json", [result.to_data() for result in results])
    pictures = _draw(plans, results, out, trained)
    page = _page(plans, pictures, tables, known, lead=_lead(results, first), seconds=time.monotonic() - began)
    write_text(out / "report.html", render(page))
    print(page.lead)
    print(f"page: {out / 'report.html'}")
    for file in _explore(out, checkpoints):
        print(f"explorer: {file} (the model runs in the browser)")
    print(f"pictures: {out}/error_by_sample.png, error_by_step.png, training_loss.png")
    print(f"runs: {out / 'runs'} (measure them again: algoformer evaluate {out / 'runs'}/*)")
    return 0


def _lead(results: list[Evaluation], first: Experiment) -> str:
    """Return what the comparison says about the AlgoFormer, in words."""
    found = {result.label: result for result in results}
    rivals = [found[label] for label in demo_runs.TEXTBOOK.values() if label != "least squares"]
    return conclusion(
        found[demo_runs.MODELS[0]],
        rivals,
        trained=demo_runs.trained_steps(first),
        looping=True,
        examples=first.task.points - 1,
    )


def _explore(out: Path, checkpoints: Path) -> list[Path]:
    """Write pages in which the demo's AlgoFormer and the shipped linear model run."""
    models = {out / "explorer.html": out / "runs" / demo_runs.MODELS[0]}
    if (shipped := checkpoints / "linear.safetensors").is_file():
        models[out / "explorer-linear.html"] = shipped
    for file, model in models.items():
        make_page(str(model), file, prompts=EXPLORED_PROMPTS)
    return list(models)


def _make_room(plans: Mapping[str, Planned], *, fresh: bool) -> None:
    # only the demo's own folders are ever removed: --out may be a folder with other things in it
    for planned in plans.values():
        if not (planned.folder / "config.json").exists():
            continue
        if fresh:
            shutil.rmtree(planned.folder)
        elif load_experiment(planned.folder) != planned.experiment:
            raise ValueError(f"{planned.folder} holds another run than the demo's; train anew with --fresh")


def _train(plans: Mapping[str, Planned]) -> None:
    with training_bars({name: planned.experiment.training.steps for name, planned in plans.items()}) as show:
        train_side_by_side(plans, progress=show)


def _draw(
    plans: Mapping[str, Planned], results: list[Evaluation], folder: Path, trained: int
) -> dict[str, Picture]:
    metrics = {name: read_metrics(planned.folder) for name, planned in plans.items()}
    figures = {
        "error_by_sample": (
            error_by_sample(results),
            "Error against the number of examples in the prompt, at the largest depth.",
        ),
        "error_by_step": (
            error_by_step(results, trained=trained, log_x=True),
            "Error on the last question against iterations: does the loop improve, and does it hold?",
        ),
        "training_loss": (training_loss(metrics), "The training loss rises with the curriculum, then falls."),
    }
    pictures = {}
    for name, (figure, caption) in figures.items():
        save(figure, folder / name)
        pictures[name] = Picture(svg=inline_svg(figure), caption=caption)
    return pictures


def _page(
    plans: Mapping[str, Planned],
    pictures: Mapping[str, Picture],
    tables: tuple[Table, ...],
    known: list[demo_runs.Shipped],
    *,
    lead: str,
    seconds: float,
) -> Page:
    first = plans[demo_runs.MODELS[0]].experiment
    programs = tuple(
        Picture(svg=diagram(planned.experiment.program, window=_window(planned)), caption=name)
        for name, planned in plans.items()
    )
    sections = [
        Section(
            title="What was trained",
            text=(
                f"The task: {first.task}. A prompt shows pairs (x, y) with y = <w, x> for a w of its own; "
                "the model must find w from the prompt alone.",
            ),
            pictures=programs,
        ),
        Section(title="How well it does", tables=tables, pictures=tuple(pictures.values())),
    ]
    sections += [
        Section(
            title=f"Trained model: {model.name}",
            text=(f"Task: {model.task}.",),
            tables=(_shipped_table(model),),
            pictures=(Picture(svg=inline_svg(error_by_sample(model.results)), caption=model.name),),
        )
        for model in known
    ]
    training = first.training
    return Page(
        title="AlgoFormer demo",
        lead=lead,
        sections=tuple(sections),
        commands=("algoformer demo",),
        facts=(
            Fact(
                name="training",
                value=f"{training.steps} steps of {training.batch_size} prompts, seed {training.seed}",
            ),
            Fact(name="device", value=device_name(torch.device("cpu"))),
            Fact(name="commit", value=source_commit()),
            Fact(name="versions", value=f"algoformer {__version__}, torch {torch.__version__}"),
            Fact(name="seconds", value=f"{seconds:.0f}"),
        ),
    )


def _window(planned: Planned) -> int | None:
    looping = traced_part(planned.experiment.program) is not None
    return planned.experiment.training.window if looping else None


def _shipped_table(model: demo_runs.Shipped) -> Table:
    return summary_table(model.results, title=f"{model.name}: {model.task}")
