"""The runs, table and pages of `algoformer demo`."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from algoformer.cli import demo_runs
from algoformer.cli.demo_runs import DemoRun
from algoformer.cli.demo_text import text_lines, text_section, written_by_depth
from algoformer.cli.explore_pages import make_page
from algoformer.cli.measure import load_contender
from algoformer.cli.progress import counting
from algoformer.cli.report_page import conclude, result_section, write_page
from algoformer.cli.say import say
from algoformer.common.devices import available_cores
from algoformer.common.files import write_json
from algoformer.common.terminal import printable
from algoformer.evaluation import Evaluation, Table, depth_table
from algoformer.extras import require
from algoformer.model.program import default_steps
from algoformer.report import Link, Page, Picture, Section, inline_svg, training_loss
from algoformer.shipped import shipped_names, shipped_path
from algoformer.training import load_experiment, read_metrics
from algoformer.training.progress import training_bars

TRAINED = default_steps(demo_runs.RECIPE.program)

SHIPPED = "linear"
"""The shipped model that gets a page of its own."""

SHIPPED_PROMPTS = 16
"""Held-out prompts behind the conclusion about the shipped model, so that it takes seconds."""


def make_demo(out: Path, *, fresh: bool) -> int:
    """Train, compare, write the pages, and print the conclusion first."""
    require("matplotlib", extra="viz")
    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made is noticed at once
    began = time.monotonic()
    plans = demo_runs.plan(out)
    _make_room(plans, fresh=fresh)
    _train(plans)
    with counting("measuring") as progress:
        results = demo_runs.measure(plans, progress=progress)
    write_json(out / "evaluation.json", [result.to_data() for result in results])
    shipped = _shipped(out)
    own = load_contender(out / "runs" / demo_runs.MODELS[0])
    lead = conclude(results, own)
    texts = written_by_depth()
    page = _page(plans, results, lead, shipped, texts, seconds=time.monotonic() - began)
    files = write_page(page, own, out)
    print(lead)
    say(_table(results))
    for paragraph in text_lines(texts):
        print(paragraph)
    for file in [*files, *shipped.values()]:
        print(f"page: {printable(str(file))} (open it in a browser; a model runs in it)")
    runs = printable(str(out / "runs"))
    print(f"runs: {runs} (measure them again: algoformer evaluate {runs}/*)")
    return 0


def _shipped(out: Path) -> dict[str, Path]:
    """Write the explorer page of the shipped model, if it is there; return the page by its conclusion."""
    if SHIPPED not in shipped_names():
        return {}
    file = out / f"explorer-{SHIPPED}.html"
    return {make_page(str(shipped_path(SHIPPED)), file, prompts=SHIPPED_PROMPTS): file}


def _table(results: list[Evaluation]) -> Table:
    curves = [result.by_step for result in results]
    return depth_table(curves, trained=TRAINED, depths=(demo_runs.BEYOND * TRAINED,))


def _make_room(plans: Mapping[str, DemoRun], *, fresh: bool) -> None:
    # only the demo's own folders are ever removed: --out may be a folder with other things in it
    for planned in plans.values():
        if not (planned.folder / "config.json").exists():
            continue
        if fresh:
            shutil.rmtree(planned.folder)
        elif load_experiment(planned.folder) != planned.experiment:
            raise ValueError(f"{planned.folder} holds another run than the demo's; train anew with --fresh")


def _train(plans: Mapping[str, DemoRun]) -> None:
    """Train all runs, as many at a time as there are cores; bars show the metrics in their folders."""
    steps = {name: planned.experiment.training.steps for name, planned in plans.items()}
    waiting, running, shown = list(plans), dict[str, subprocess.Popen[str]](), dict.fromkeys(plans, 0)
    with training_bars(steps) as show:
        try:
            while waiting or running:
                while waiting and len(running) < available_cores():
                    name = waiting.pop(0)
                    running[name] = plans[name].begin()
                time.sleep(0.2)
                ended = {name: process for name, process in running.items() if process.poll() is not None}
                for name in running:
                    for row in read_metrics(plans[name].folder)[shown[name] :]:
                        show(name, int(row["step"]), steps[name], row)
                        shown[name] += 1
                for name, process in ended.items():
                    del running[name]
                    if process.returncode:
                        assert process.stderr is not None
                        how = f"ended with exit code {process.returncode}"
                        raise RuntimeError(f"the run {name!r} {how}: {process.stderr.read()[-1000:]}")
        finally:
            for process in running.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)  # after Ctrl-C each saves its checkpoint first
                process.terminate()


def _page(
    plans: Mapping[str, DemoRun],
    results: list[Evaluation],
    lead: str,
    shipped: Mapping[str, Path],
    texts: Mapping[int, str],
    *,
    seconds: float,
) -> Page:
    recipe = demo_runs.RECIPE
    loss = training_loss({name: read_metrics(plan.folder) for name, plan in plans.items()}, compact=True)
    larger = [
        Section(title="A larger trained model", text=(words, f"Its page lies beside this one: {file.name}."))
        for words, file in shipped.items()
    ]
    sections = (
        result_section(results, TRAINED, _table(results)),
        Section(
            title="What was trained",
            text=(
                f"A prompt shows up to {recipe.task.points - 1} pairs (x, y) with y = w x and a new w for "
                "each prompt. Three models learn to answer the next x from the pairs alone: an AlgoFormer "
                "(a layer, a loop of ten iterations of one layer, a layer), a loop of one layer, and a "
                "standard transformer of four layers, which does not iterate.",
            ),
            pictures=(Picture(svg=inline_svg(loss), caption="Training loss: the log of the squared error."),),
        ),
        *larger,
        *([text_section(texts)] if texts else []),
    )
    words = "A model of 2.4 million parameters in 20 dimensions"
    return Page(
        title="A loop learns an algorithm",
        lead=lead,
        links=tuple(Link(words=words, address=file.name) for file in shipped.values()),
        sections=sections,
        commands=("algoformer demo",),
        facts=(
            ("prompts in a step", str(recipe.training.batch_size)),
            ("seconds of the demo", f"{seconds:.0f}"),
        ),
    )
