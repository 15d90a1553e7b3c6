"""Results in tables and as a page: verdicts, our errors beside those of others, everything that was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from algoformer.common.files import write_text
from algoformer.evaluation import Cell, Table
from algoformer.report import markdown_table, show
from paper.archive import Results, seeds_so_far
from paper.baselines import ITERATIONS
from paper.pictures import VARIANTS
from paper.recipes import NOISES, RECIPES
from paper.result import Result
from paper.runs import FAR, FARTHEST, LOG, RECOMMENDED, SMALL, TF32, Item, RunSpec, Scale
from paper.verdicts import CLAIMS

BEGIN = "<!-- from here on written by: python -m paper verdicts -->"
END = "<!-- up to here -->"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """An AlgoFormer whose error is shown beside those of the paper and of textbook methods.

    Attributes:
        name: the name of its run.
        words: the task and the question that the error is measured on.
        published: errors that the paper and others print for the task.
        textbook: results of textbook methods on the same prompts, with their labels; {depth} stands for the
            number of iterations.
        beyond: whether the run is not one of the paper's; then it has a row only if there is a result.
    """

    name: str
    words: str
    published: str = ""
    textbook: Mapping[str, str] = field(default_factory=dict)
    beyond: bool = False


_LINEAR = {"linear/oracle": "least squares", "linear/gd": "{depth} steps of gradient descent"}

HEADLINES = (
    Headline(
        name="linear/algoformer",
        words="linear regression, σ = 0, at 40 samples",
        published="the paper: around 1e-3; Yang et al., 500,000 steps: standard 4.8e-4, looped 7.8e-4",
        textbook=_LINEAR,
    ),
    Headline(
        name=f"linear/algoformer{LOG}",
        words="linear regression by log loss, σ = 0, at 40 samples",
        textbook=_LINEAR,
        beyond=True,
    ),
    Headline(
        name=f"linear/algoformer{RECOMMENDED}",
        words="linear regression by log loss, last quarter in fp32, σ = 0, at 40 samples",
        textbook=_LINEAR,
        beyond=True,
    ),
    Headline(
        name=f"linear/algoformer{TF32}",
        words="linear regression as recommended, in TF32, σ = 0, at 40 samples",
        textbook=_LINEAR,
        beyond=True,
    ),
    Headline(
        name="representation/algoformer",
        words="regression with representation, σ = 0, at 40 samples",
        textbook={
            "representation/oracle": "least squares on Φ*",
            "representation/gd": "{depth} steps of gradient descent on Φ*",
            "representation/linear-in-x": "best linear in x",
        },
    ),
    Headline(
        name="autoregressive/algoformer",
        words="AR(3), last target, one coordinate",
        textbook={"autoregressive/oracle": "ridge with Φ* known", "autoregressive/zero": "predict zero"},
    ),
    Headline(
        name="chain/algoformer",
        words="chain of thought, mean over layers, at 40 samples",
        textbook={"chain/oracle": "least squares layer by layer"},
    ),
)
"""The rows of `headline_table`."""


@cache
def all_items(scale: Scale) -> tuple[Item, ...]:
    """Every run and reference of every figure, each name once."""
    found = {item.name: item for recipe in RECIPES.values() for item in recipe.items(scale)}
    return tuple(found.values())


def verdict_table(results: Results) -> Table:
    """A row for each of the paper's claims."""
    rows = []
    for claim in CLAIMS:
        verdict = claim.verdict(results)
        rows.append((claim.number, verdict.claim, verdict.outcome, verdict.because))
    return Table(columns=("", "the paper says", "verdict", "because"), rows=tuple(rows))


def headline_table(results: Results) -> Table:
    """Return our errors, one number a seed, beside those of the paper and of textbook methods.

    The two columns on depth are the error after more iterations than in training, over the error at the
    trained depth T.
    """
    rows: list[tuple[Cell, ...]] = []
    for headline in HEADLINES:
        runs = seeds_so_far(results, headline.name)
        if headline.beyond and not runs:
            continue
        rows.append(
            (
                headline.words,
                _numbers([run.error for run in runs], show) or "not run",
                headline.published,
                "; ".join(_textbook(headline, results)),
                # with three digits, an error that grows by 1e-5 would look like one that does not
                *(
                    _numbers([run.growth(depth) for run in runs], "{:.5f}".format)
                    for depth in (FAR, FARTHEST)
                ),
                _how(next(iter(runs), None)),
            )
        )
    depths = (f"at {depth} ÷ at T" for depth in (FAR, FARTHEST))
    columns = ("task", "ours", "published", "textbook, on the same prompts", *depths, "trained")
    return Table(columns=columns, rows=tuple(rows))


def _textbook(headline: Headline, results: Results) -> Iterator[str]:
    for name, words in headline.textbook.items():
        if name in results:
            yield f"{words.format(depth=results[name].trained_depth)} {show(results[name].error)}"


def _numbers(values: Sequence[float | None], write: Callable[[float], str]) -> str | None:
    return ", ".join(write(value) for value in values if value is not None) or None


def _how(result: Result | None) -> str:
    if result is None or result.steps is None:
        return ""
    return f"{result.steps:,} steps on {result.provenance.get('device', 'an unknown device')}"


def run_table(results: Results) -> Table:
    """Everything that was trained, once, under the name that it was trained for."""
    rows: list[tuple[Cell, ...]] = []
    for name, result in sorted(results.items()):
        if result.steps is None or (name != result.name and result.name in results):
            continue
        low, high = result.band
        far = result.at(FAR) if result.growth(FAR) is not None else None
        band = f"{show(low)} – {show(high)}"
        farthest = result.growth(FARTHEST)
        rows.append((name, result.parameters, _how(result), result.error, band, far, farthest))
    columns = ("run", "parameters", "trained", "error", "5–95 %", "at 200", "at 1000 ÷ at T")
    return Table(columns=columns, rows=tuple(rows))


def ablation_table(results: Results) -> Table:
    """What mattered for depth: a row for each variant that was run, a number for each seed on both tasks."""
    tasks = ("linear", "representation")
    rows: list[tuple[Cell, ...]] = []
    for name, words in VARIANTS.items():
        found = [seeds_so_far(results, f"depth-{task}/{name}") for task in tasks]
        if any(found):
            rows.append((words, *(cell for runs in found for cell in _ablated_cells(runs))))
    columns = [f"{task}: {what}" for task in tasks for what in ("steps", "at T", "at 200", "1000 ÷ T")]
    return Table(columns=("recipe", *columns), rows=tuple(rows))


def _ablated_cells(runs: Sequence[Result]) -> Iterator[Cell]:
    yield f"{runs[0].steps:,}" if runs else None
    for values in (
        [run.error for run in runs],
        [_at(run, FAR) for run in runs],
        [run.growth(FARTHEST) for run in runs],
    ):
        yield ", ".join("–" if value is None else show(value) for value in values) or None


def textbook_table(results: Results) -> Table:
    """Textbook iterations, on linear regression and on the true features: how far they come."""
    depths = (5, 20, FAR)
    rows: list[tuple[Cell, ...]] = []
    for task in ("linear", "representation"):
        for noise in NOISES:
            group = f"{task}-noise-{noise:g}" if noise else task
            for name, label in ITERATIONS.items():
                result = results.get(f"{group}/{name}")
                if result is not None:
                    step = result.provenance.get("step size")
                    words = label if step is None else f"{label}, {show(float(step))}"
                    rows.append((task, f"{noise:g}", words, *(_at(result, depth) for depth in depths)))
            oracle = results.get(f"{group}/oracle")
            if oracle is not None:
                rows.append((task, f"{noise:g}", "oracle", *[oracle.error] * len(depths)))
    columns = ("task", "σ", "method", *(f"after {depth}" for depth in depths))
    return Table(columns=columns, rows=tuple(rows))


def _at(result: Result, depth: int) -> float | None:
    return result.at(depth) if depth in (*result.main.by_sample, *result.main.by_step.x) else None


def coverage_table(results: Results, scale: Scale) -> Table:
    """Which runs of each figure there are: as the scale has them, over other steps, or not at all."""
    rows: list[tuple[Cell, ...]] = []
    for recipe in RECIPES.values():
        runs = [item for item in recipe.items(scale) if isinstance(item, RunSpec)]
        other = []
        missing = []
        for run in runs:
            result = results.get(run.name)
            if result is None:
                missing.append(run.name)
            elif result.steps != run.experiment.training.steps:
                other.append(f"{run.name} ({result.steps:,} steps)")
        done = len(runs) - len(other) - len(missing)
        rows.append((recipe.name, f"{done} of {len(runs)}", ", ".join(other), _names(missing)))
    return Table(columns=("figure", "runs", "over other steps", "not run"), rows=tuple(rows))


def _names(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def page_lines(results: Results, scale: Scale, folder: Path) -> Iterator[str]:
    """The page as Markdown."""
    yield f"## Verdicts on the paper's claims (scale {scale})\n"
    if scale == "tiny":
        yield f"{SMALL}\n"
    yield markdown_table(verdict_table(results))
    yield "## Beside the paper and textbook methods\n"
    yield markdown_table(headline_table(results))
    if len(ablation_table(results).rows) > 1:
        yield "## What mattered for depth\n"
        yield "A number for each seed. Rows compare where their steps are the same.\n"
        yield markdown_table(ablation_table(results))
    for path in sorted(folder.glob("*.svg")):
        yield f"![{path.stem}]({path.name})\n"
    if textbook_table(results).rows:
        yield "## Textbook methods\n"
        yield markdown_table(textbook_table(results))
    yield "## What there is\n"
    yield markdown_table(coverage_table(results, scale))
    if run_table(results).rows:
        yield "## All runs\n"
        yield markdown_table(run_table(results))


def write_page(results: Results, scale: Scale, folder: Path) -> Path:
    """Put the page into the folder's README.md, between two marks; what stands around them is kept."""
    path = folder / "README.md"
    before, after = "# Results\n\n", ""
    if path.exists():
        text = path.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        if BEGIN in text and END not in rest:
            raise ValueError(f"{path} has lost the line {END!r}; put it back after what was written")
        before = before if before.endswith("\n\n") else before.rstrip("\n") + "\n\n"
    body = "\n".join(page_lines(results, scale, folder))
    write_text(path, f"{before}{BEGIN}\n\n{body}\n{END}{after or chr(10)}")
    return path
