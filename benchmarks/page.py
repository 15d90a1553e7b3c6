"""Section `page`: how fast a model runs in an explorer page, in Chromium on this machine."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

from algoformer.cli.demo_runs import RECIPE
from algoformer.cli.explore_pages import explore
from algoformer.cli.measure import Contender, load_contender
from algoformer.model import AlgoFormer
from algoformer.report.explorer import explorer_page
from algoformer.shipped import shipped_path
from algoformer.training.config import build_model
from benchmarks.setting import Row, Setting
from scripts.browser import Browser, find_browser

ROUNDS = 5

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"

WATCH = """(() => {
  const draw = explorer.draw;
  let began = null;
  addEventListener("pointermove", () => { began ??= performance.now(); }, {capture: true, once: true});
  self.answered = new Promise((resolve) => {
    explorer.draw = function (at) {
      draw.call(this, at);
      if (began === null || this.answers.length < this.trained) return;
      explorer.draw = draw;
      resolve(performance.now() - began);
    };
  });
})()"""
"""Watch for the time from the next movement of the pointer to the answer of the trained depth."""


def page_rows(setting: Setting) -> Iterator[Row]:
    """Time the first paint and a dragged point of a small model, and the shipped model in its worker.

    The small model has the demo's size, with random weights. Medians of several rounds count.
    """
    path = find_browser()
    if path is None:
        raise ValueError("section page needs Chromium or Chrome; install one, or set ALGOFORMER_BROWSER")
    rounds = ROUNDS if setting.size.batch > 8 else 1
    model = cast(AlgoFormer, build_model(RECIPE))
    small = Contender(label="small", model=model, task=RECIPE.task, card={})
    with tempfile.TemporaryDirectory(prefix="algoformer-bench-") as folder, closing(Browser(path)) as browser:
        file = _written(Path(folder) / "small.html", small)
        paints, drags = zip(*(_small(browser, file) for _ in range(rounds)), strict=True)
        yield {"what": "small model, first paint", "seconds": statistics.median(paints) / 1000}
        yield {"what": "small model, drag to answer", "seconds": statistics.median(drags) / 1000}
        large = load_contender(shipped_path("linear"))
        file = _written(Path(folder) / "linear.html", large)
        seconds = [_large(browser, file) for _ in range(rounds)]
        what = f"shipped model, {large.steps} iterations in the worker"
        yield {"what": what, "seconds": statistics.median(seconds)}


def _written(file: Path, contender: Contender) -> Path:
    file.write_text(explorer_page(contender.model, explore(contender)), encoding="utf-8")
    return file


def _small(browser: Browser, file: Path) -> tuple[float, float]:
    """Return the milliseconds to the first paint, and from a drag to the new answer."""
    page = browser.page(file)
    painted = float(page.wait(PAINT))
    page.run(WATCH)
    page.drag(".point", 0, -20)
    answered = float(page.run("self.answered"))
    page.close()
    return painted, answered


def _large(browser: Browser, file: Path) -> float:
    """Return the seconds that the worker took for the first prompt, with all questions that are drawn."""
    page = browser.page(file)
    seconds = float(page.run("explorer.seconds"))
    page.close()
    return seconds
