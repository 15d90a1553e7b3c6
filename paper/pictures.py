"""Results to pictures: which curves stand in which panel. No weights are needed, only results."""

from __future__ import annotations

from collections.abc import Iterator

from paper.archive import Results, seeds_so_far
from paper.dots import Dot, Rows, dot_figure
from paper.figures import Sweep, sweep_figure
from paper.panels import (
    Drawn,
    figure_of,
    groups_of,
    other_steps,
    sample_panel,
    series_of,
    step_panel,
    usual_steps,
)
from paper.result import Result
from paper.runs import FIXED_STEP, LOG, RECOMMENDED, SIZES, SLOW, TF32, Scale, Sizes

TASKS = {
    "representation": "regression with representation",
    "autoregressive": "AR(3), noise included",
    "chain": "chain of thought",
}

MODELS = {"algoformer": "AlgoFormer", "standard": "standard", "looped": "looped"}
EVERY_MODEL = {
    "algoformer": "AlgoFormer",
    f"algoformer{SLOW}": "AlgoFormer, a third of the rate",
    f"algoformer{LOG}": "AlgoFormer, log loss",
    "no-pre": "AlgoFormer without pre",
    "no-post": "AlgoFormer without post",
    "looped": "looped",
    f"looped{SLOW}": "looped, a third of the rate",
    f"looped{LOG}": "looped, log loss",
    "looped-3": "looped, 3 layers",
    "standard": "standard",
    f"standard{SLOW}": "standard, a third of the rate",
    f"standard{LOG}": "standard, log loss",
    "standard-3": "standard, 3 layers",
}
"""All that is compared on the tasks of figure 2, family by family."""


NEAR = 10
"""An oracle whose error is not within this factor of a model's would squeeze all dots to one side."""


def draw_figure_2(results: Results, scale: Scale) -> Iterator[Drawn]:
    """Error per in-context sample on three tasks and with noise; every model and control as a dot plot."""
    sizes = SIZES[scale]
    ending = (
        f"solid: after {sizes.depth} iterations, dotted: after {sizes.far}; thin: other seeds; "
        "bands: 5–95 % of bootstrap means over prompts"
    )
    references = ("oracle", "linear-in-x", "zero")
    main = [
        sample_panel(results, group, MODELS, sizes, references=references, title=title)
        for group, title in TASKS.items()
    ]
    yield from figure_of("fig2", main, title="Three models on three tasks", note=ending)
    yield from _models_at_a_glance(results, sizes)
    noises = {group: float(group.rpartition("-")[2]) for group in groups_of(results, "representation-noise-")}
    noisy = [
        sample_panel(results, group, MODELS, sizes, references=references, title=f"σ = {noise:g}")
        for group, noise in sorted(noises.items(), key=lambda pair: pair[1])
    ]
    title = "Regression with representation and noise"
    yield from figure_of("fig2-noise", noisy, title=title, note=ending)


def _models_at_a_glance(results: Results, sizes: Sizes) -> Iterator[Drawn]:
    shown = [row_panel(results, group, sizes, title) for group, title in TASKS.items()]
    # the three models alone are in the figure itself
    if {label for panel in shown for label in panel.dots} - set(MODELS.values()):
        title = "Every model, with all samples"
        note = (
            f"dot: after {sizes.depth} iterations, with its 5–95 % band; ring: after {sizes.far}; several in "
            "a row: other seeds; dashed: the oracle. All answer the same prompts."
        )
        yield "fig2-models", dot_figure([panel for panel in shown if panel.dots], title=title, note=note)


def row_panel(results: Results, group: str, sizes: Sizes, title: str) -> Rows:
    """The error with all samples of every model of a group, and the oracle's where it is not far below."""
    found = {label: seeds_so_far(results, f"{group}/{name}") for name, label in EVERY_MODEL.items()}
    usual = usual_steps(run for runs in found.values() for run in runs)
    dots = {
        label + other_steps(runs[0], usual): [_dot(run, sizes.far) for run in runs]
        for label, runs in found.items()
        if runs
    }
    least = min((dot.error for several in dots.values() for dot in several), default=0.0)
    oracle = results.get(f"{group}/oracle")
    level = oracle.error if oracle is not None and least < NEAR * oracle.error else None
    words = f"{title}, {usual:,} steps" if usual else title
    return Rows(title=words, dots=dots, level=level)


def _dot(result: Result, far: int) -> Dot:
    low, high = result.band
    growth = result.growth(far)
    return Dot(error=result.error, low=low, high=high, beyond=growth and growth * result.error)


def draw_figure_3(results: Results, scale: Scale) -> Iterator[Drawn]:
    """Error per iteration for each window, trained at a fixed depth and with the recommended recipe."""
    runs = {name: _numbers(name) for name in results if name.startswith("loops/")}
    windows = sorted({window for _, _, window in runs.values()})
    shown = []
    for kind, words in {"fixed": "fixed depth", "holding": "random burn-in"}.items():
        for window in windows:
            chosen = sorted(
                (depth, name) for name, (own, depth, other) in runs.items() if (own, other) == (kind, window)
            )
            labels = {name: f"T = {depth}" for depth, name in chosen}
            references = [f"representation/{name}" for name in (FIXED_STEP, "gd")]
            shown.append(step_panel(results, labels, references=references, title=f"ΔT = {window}, {words}"))
    title = "AlgoFormer on regression with representation, trained to T and run far beyond it"
    rows = len({kind for kind, _, _ in runs.values()})
    yield from figure_of("fig3", shown, title=title, rows=rows, log_x=True, same_scale=True)


def draw_figure_4(results: Results, scale: Scale) -> Iterator[Drawn]:
    """Error over layers and heads."""
    heads = {count: f"heads/algoformer-{count}" for count in (1, 2, 4, 8, 16)}
    heads[SIZES[scale].heads] = "layers/algoformer-1"
    used = [results[name] for name in results if name.startswith(("layers/", "heads/"))]
    usual = usual_steps(used)
    sweeps = (
        _layers(results, "", "layers", usual),
        _layers(results, SLOW, "layers, a third of the rate", usual),
        Sweep(
            title="heads",
            over="heads",
            series=tuple(series_of(results, "AlgoFormer, 1 + 1 + 1 layers", heads, usual)),
        ),
    )
    # one size alone is no sweep
    shown = [sweep for sweep in sweeps if len({x for one in sweep.series for x in one.x}) > 1]
    if shown:
        title = f"Layers and heads: regression with representation, {usual:,} steps"
        yield "fig4", sweep_figure(shown, title=title)


def _layers(results: Results, ending: str, title: str, usual: int | None) -> Sweep:
    names = {
        "AlgoFormer, L + L + L layers": {n: f"layers/algoformer-{n}{ending}" for n in (1, 2, 3, 4)},
        "standard, L layers": {n: f"layers/standard-{n}{ending}" for n in (1, 2, 3, 4)},
        "standard, 3 L layers": {n: f"layers/standard-{3 * n}{ending}" for n in (1, 2, 3, 4)},
    }
    series = (one for label, runs in names.items() for one in series_of(results, label, runs, usual))
    return Sweep(title=title, over="layers L", series=tuple(series))


def draw_figure_5(results: Results, scale: Scale) -> Iterator[Drawn]:
    """Error per iteration on linear regression, beside gradient descent and Newton."""
    sizes = SIZES[scale]
    half = sizes.depth // 2
    shown = []
    for group, noise in {"linear": 0.0, "linear-noise-0.1": 0.1, "linear-noise-1": 1.0}.items():
        usual = f"AlgoFormer ({sizes.depth}, {sizes.window})"
        labels = {
            f"{group}/algoformer": usual,
            f"{group}/algoformer{LOG}": f"{usual}, log loss",
            f"{group}/algoformer{RECOMMENDED}": f"{usual}, last quarter in fp32",
            f"{group}/algoformer{TF32}": f"{usual}, TF32",
            f"{group}/algoformer-{half}-{half}": f"AlgoFormer ({half}, {half})",
        }
        references = [f"{group}/{name}" for name in (FIXED_STEP, "gd", "newton", "oracle")]
        marks = (half, sizes.depth)
        shown.append(step_panel(results, labels, references=references, title=f"σ = {noise:g}", marks=marks))
    title = "Linear regression: AlgoFormer (T, ΔT) beside gradient descent and Newton"
    yield from figure_of("fig5", shown, title=title, log_x=True)


def draw_depth(results: Results, scale: Scale) -> Iterator[Drawn]:
    """Error of each variant of the recipe for depth, at the trained depth and far beyond it."""
    sizes = SIZES[scale]
    shown = []
    plain = {name: words for name, words in VARIANTS.items() if name not in WAITING}
    for title, group, variants in (
        ("linear regression", "depth-linear", plain),
        ("with a delayed curriculum", "depth-linear", WAITING),
        (TASKS["representation"], "depth-representation", plain),
    ):
        runs = {words: seeds_so_far(results, f"{group}/{name}") for name, words in variants.items()}
        usual = usual_steps(seeds[0] for seeds in runs.values() if seeds)
        # one thing is changed at a time: a run over more steps would change two
        dots = {
            words: [_dot(run, sizes.farthest) for run in seeds]
            for words, seeds in runs.items()
            if seeds and seeds[0].steps == usual
        }
        if dots:
            shown.append(Rows(title=f"{title}, {usual:,} steps", dots=dots))
    if shown:
        note = (
            f"dot: after {sizes.depth} iterations, with its 5–95 % band; ring: after {sizes.farthest:,}; "
            "several in a row: other seeds"
        )
        yield "depth", dot_figure(shown, title="What makes depth hold", note=note)


VARIANTS = {
    "holding": "random burn-in",
    "fixed": "fixed depth",
    "burn-in": "the other task's burn-in",
    "window": "loss on all iterations",
    "short-gradient": "truncated backpropagation",
    "ramp": "growing iterations",
    "gate": "gated injection",
    "fp32": "fp32",
    "late": "delayed curriculum",
    "late-fixed": "delayed curriculum, fixed depth",
}
"""The rows of the ablation: the recommended recipe, and what is changed in it."""

WAITING = {"late": VARIANTS["holding"], "late-fixed": VARIANTS["fixed"]}
"""Two of them differ in one thing from each other, in two from most of the rest."""


def _numbers(name: str) -> tuple[str, int, int]:
    kind, depth, window = name.split("/")[1].rsplit("-", 2)
    return kind, int(depth), int(window)
