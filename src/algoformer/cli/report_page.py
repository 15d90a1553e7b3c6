"""The page of an evaluation, a training run or a demo: conclusion, explorer, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from algoformer import __version__
from algoformer.cli.explore_pages import concluded, explore, task_title
from algoformer.cli.measure import Contender
from algoformer.common.files import write_text
from algoformer.evaluation import Evaluation, Table, summary_table
from algoformer.report import Link, Page, Picture, Section, error_by_sample, error_by_step, inline_svg, render
from algoformer.report.explorer import explorer_page

INSIDE = 2 * 2**20
"""The most bytes of a page with its explorer; a larger explorer gets a file of its own beside the page."""

BESIDE = "explorer.html"


def conclude(results: Sequence[Evaluation], contender: Contender) -> str:
    """Return what the results say about the first model, beside textbook methods that iterate."""
    own, *others = results
    rivals = [one for one in others if one.parameters is None and len(set(one.by_step.error)) > 1]
    return concluded(own, rivals, contender)


def result_section(results: Sequence[Evaluation], trained: int, table: Table | None = None) -> Section:
    """Return the plots of an evaluation with a table, by default its summary."""
    error = "Error on the last question" if results[0].unsolved is None else "Share of wrong answers"
    pictures = [
        Picture(
            svg=inline_svg(error_by_step(results, trained=trained, log_x=True, compact=True)),
            caption=f"{error} by iteration. Bands: 5–95 % of bootstrap means over prompts.",
        )
    ]
    if len(results[0].by_sample.x) > 1:
        figure = error_by_sample(results, compact=True)
        caption = "Error by number of examples in the prompt, after the last iteration measured."
        pictures.append(Picture(svg=inline_svg(figure), caption=caption))
    tables = (table or summary_table(results),)
    return Section(title="How well it does", tables=tables, pictures=tuple(pictures))


def write_report(
    results: Sequence[Evaluation], contender: Contender, folder: Path, *, command: str
) -> list[Path]:
    """Write report.html for the first model of an evaluation and return the files written."""
    page = Page(
        title=f"{contender.label}: {task_title(contender.task)}",
        lead=conclude(results, contender),
        sections=(result_section(results, contender.steps),),
        commands=(command,) if command else (),
    )
    return write_page(page, contender, folder)


def write_page(page: Page, contender: Contender, folder: Path) -> list[Path]:
    """Write report.html with the explorer of a model inside, or beside it if it is large.

    A model that the explorer cannot run gets a page without it, which says why.
    """
    file = folder / "report.html"
    try:
        exploration = explore(contender)
        page = replace(page, facts=(*page.facts, *exploration.facts))
        text = explorer_page(contender.model, exploration, page)
    except ValueError as error:
        reason = Section(title="Explorer", text=(f"This model has no explorer: {error}.",))
        version = "made by", f"algoformer {__version__}"
        page = replace(page, sections=(*page.sections, reason), facts=(*page.facts, version))
        write_text(file, render(page))
        return [file]
    if len(text) <= INSIDE:
        write_text(file, text)
        return [file]
    beside = explorer_page(contender.model, replace(exploration, lead=page.lead))
    write_text(folder / BESIDE, beside)
    link = Link(words=f"Run the model in the browser ({len(beside) / 1e6:.0f} MB)", address=BESIDE)
    write_text(file, render(replace(page, links=(*page.links, link))))
    return [file, folder / BESIDE]
