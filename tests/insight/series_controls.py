"""Solvers on series whose algorithm is known: the controls of identification in answer space.

The textbook methods are those of `tests.insight.controls`; they read the examples inside a series, with
features divided by √unit so that the same step sizes suit them. True parameters are scaled back. Run this
file to write the confusion table to results/insight/series-controls.json, after every row.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer import AlgoFormer, Prompt, Trace, Unroll, algorithms, programs, theory
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import Identification, filters, identify
from algoformer.insight.families import FAMILIES
from algoformer.problems import Problems
from algoformer.tasks import AutoregressiveWithRepresentation
from algoformer.theory.network import network_of
from algoformer.trace import Solver
from tests.insight import controls
from tests.insight.controls import NULLS, TEXTBOOK, FromWeights, outcome

Answers = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Answers (batch, out) from features (batch, sample, feature), labels (batch, sample, out) and a query."""


@dataclass(frozen=True)
class Setting:
    """A task of series, the unit of its features, and how many series are drawn."""

    task: AutoregressiveWithRepresentation
    unit: float
    prompts: int

    @property
    def examples(self) -> int:
        """The number of examples before the last question."""
        return self.task.points - 1 - self.task.order

    def view(self, prompt: Prompt) -> Problems:
        """Return the problems of a prompt with scaled features."""
        found = self.task.problems(prompt)
        return replace(found, features=found.features / self.unit**0.5)


SETTINGS: dict[str, Setting] = {
    "linear": Setting(
        AutoregressiveWithRepresentation(dim=3, points=14, order=1, slope=1.0, bound=4.0), 0.08, 384
    ),
    "window": Setting(AutoregressiveWithRepresentation(dim=8, points=27, order=2, bound=4.0), 0.2, 96),
    "large": Setting(AutoregressiveWithRepresentation(bound=4.0), 0.2, 96),
}
"""Series with linear features of one state, with features of two states, and of three states as in the paper.

In bounds of 4 the step sizes of all methods suit all series.
"""

NOISES = (0.5, 1.0)


@dataclass(frozen=True)
class Disturbed:
    """A solver with noise of relative `size` in its distance to ridge regression."""

    solver: Solver
    setting: Setting
    size: float

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        exact = self.solver(prompt, unroll)
        reference = algorithms.Ridge(strength=self.setting.task.noise**2, view=self.setting.task.problems)
        left = reference(prompt, unroll).predictions - exact.predictions
        noise = hashed(prompt, exact.predictions)
        return replace(exact, predictions=exact.predictions + self.size * left * noise)


@dataclass(frozen=True)
class Closed:
    """A solver that does not iterate, from a formula for the answer to the last question."""

    answers: Answers
    setting: Setting

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        problems = self.setting.view(prompt)
        problem, samples = problems.questions[-1]
        features, labels = problems.features[:, problem], problems.labels[:, problem, :samples]
        found = self.answers(features[:, :samples], labels, features[:, samples])
        return Trace(predictions=found[None, :, None].expand(unroll.length, -1, -1, -1))


def hashed(prompt: Prompt, like: Tensor) -> Tensor:
    """Return numbers of mean square 1 that depend on a series in a way no method could."""
    rows = prompt.rows.double().flatten(1)
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(rows.shape[1], len(like) * like.shape[-1], generator=generator).double()
    noise = 2**0.5 * torch.sin(1e3 * (rows @ mix)).unflatten(1, (len(like), like.shape[-1]))
    return noise.transpose(0, 1)[:, :, None].to(like)


def noise_only(prompt: Prompt, unroll: Unroll) -> Trace:
    """Answers of the right size and no meaning."""
    like = prompt.rows.new_zeros(unroll.length, prompt.batch, 1, prompt.out)
    return Trace(predictions=0.5 * hashed(prompt, like), first_step=unroll.first_step)


def nearest_neighbor(features: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """The label of the example whose features are nearest to the query."""
    nearest = (features - query[:, None]).square().sum(-1).argmin(1)
    return labels[torch.arange(len(labels)), nearest]


def softmax_attention(features: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """The labels weighted by the softmax of their features' products with the query."""
    scores = (features @ query[..., None])[..., 0]
    return (scores.softmax(1)[..., None] * labels).sum(1)


def last_state(prompt: Prompt, unroll: Unroll) -> Trace:
    """The last state again."""
    answer = prompt.rows[:, list(prompt.reads)]
    return Trace(predictions=answer.expand(unroll.length, *answer.shape), first_step=unroll.first_step)


def random_model(setting: Setting, seed: int) -> AlgoFormer:
    """A looped transformer with random weights."""
    task = setting.task
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AlgoFormer(
            programs.algoformer(heads=4), dim=task.dim, out=task.out, context=task.context, width=64
        )
    return model.eval()


def built(setting: Setting, *, step_size: float) -> Solver:
    """Gradient descent on a series as the weights of a transformer."""
    task = setting.task
    return theory.autoregressive(
        network=network_of(task.phi),
        order=task.order,
        length=task.context,
        step_size=step_size / setting.unit,
    )


@dataclass(frozen=True)
class SeriesControl:
    """A solver for a setting, and what must be said of it."""

    build: Callable[[Setting], Solver]
    truth: controls.Control
    null: bool = False
    exact: bool = True


def _textbook(name: str) -> SeriesControl:
    control = TEXTBOOK[name]

    def build(setting: Setting) -> Solver:
        solver: Any = control.build(setting.task.dim, setting.examples)
        return replace(solver, view=setting.view)

    return SeriesControl(build, control)


def _null(build: Callable[[Setting], Solver]) -> SeriesControl:
    return SeriesControl(build, controls.Control(lambda dim, examples: noise_only, None), null=True)


def _disturbed(name: str, size: float) -> SeriesControl:
    clean, named = _textbook(name), size < 0.3
    nearest = clean.truth.name
    return SeriesControl(
        lambda setting: Disturbed(clean.build(setting), setting, size),
        clean.truth if named else replace(clean.truth, name=None, resembles=nearest),
        exact=False,
    )


def _of_weights(weights: controls.Weights) -> Callable[[Setting], Solver]:
    return lambda setting: FromWeights(weights, setting.view)


CONTROLS: dict[str, SeriesControl] = {
    **{name: _textbook(name) for name in TEXTBOOK if "noise" not in name},
    "GD 0.2 + 10 % noise": _disturbed("GD 0.2", 0.1),
    "Newton from αI + 50 % noise": _disturbed("Newton from αI", 0.5),
    "built GD": SeriesControl(partial(built, step_size=0.2), TEXTBOOK["GD 0.2"]),
    "Adam": _null(_of_weights(controls.adam)),
    "noise": _null(lambda setting: noise_only),
    "GD on tanh of residuals": _null(_of_weights(controls.descent(0.3, residual=torch.tanh))),
    **{name: _null(_of_weights(weights)) for name, weights in controls.SLOW.items()},
    "conjugate gradients + 100 % noise": _null(
        lambda setting: Disturbed(_of_weights(filters.conjugate_gradients)(setting), setting, 1.0)
    ),
    "nearest neighbor": _null(partial(Closed, nearest_neighbor)),
    "softmax attention": _null(partial(Closed, softmax_attention)),
    "last state": _null(lambda setting: last_state),
    "random weights, seed 0": _null(partial(random_model, seed=0)),
    "random weights, seed 1": _null(partial(random_model, seed=1)),
}
"""Solvers on series by name."""

assert {name for name in CONTROLS if CONTROLS[name].null} >= NULLS.keys()


def truth_of(control: SeriesControl, setting: Setting) -> controls.Control:
    """Return what must be found, with parameters in the units of the task's own features."""
    family = next((one for one in FAMILIES if one.name == control.truth.name), None)
    powers = {one.name: one.power for one in family.parameters} if family else {}
    known = control.truth.parameters(setting.examples) if family else {}
    scaled = {name: value * setting.unit ** powers[name] for name, value in known.items()}
    return replace(control.truth, parameters=lambda examples: scaled)


def identified(label: str, setting: Setting, *, steps: int = 8) -> Identification:
    """Identify one control."""
    return identify(CONTROLS[label].build(setting), setting.task, steps=steps, prompts=setting.prompts)


def row_of(label: str, name: str, noise: float) -> dict[str, Any]:
    """Identify one control in one setting at one noise."""
    setting = replace(SETTINGS[name], task=replace(SETTINGS[name].task, noise=noise))
    start = time.process_time()
    found = identified(label, setting)
    truth = truth_of(CONTROLS[label], setting)
    right, off = outcome(truth, found, setting.examples)
    nearest = found.nearest
    return (
        {"control": label, "true": truth.name, "named": found.name, "status": found.status}
        | {"nearest": nearest.name, "share": round(nearest.share, 5), "right": right}
        | {"parameters": nearest.parameters, "off": off, "series": name, "noise": noise}
        | {"dim": setting.task.dim, "examples": setting.examples, "prompts": setting.prompts}
        | {"null": CONTROLS[label].null, "exact": CONTROLS[label].exact}
        | {"seconds": round(time.process_time() - start, 2), "commit": source_commit()}
    )


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the table with its counts."""
    nulls = [row for row in rows if row["null"]]
    return {
        "right": sum(row["right"] for row in rows),
        "controls": len(rows),
        "nulls_named": sum(row["named"] is not None for row in nulls),
        "nulls": len(nulls),
        "largest_parameter_error": max((row["off"] for row in rows if row["exact"]), default=0.0),
        "rows": rows,
        "setting": {
            "command": "python -m tests.insight.series_controls",
            "torch": torch.__version__,
            "device": "cpu",
        },
    }


def main() -> None:
    """Write the confusion table after every row; rows that the file has already are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/insight/series-controls.json"))
    out = parser.parse_args().out
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else []
    rows = [row for row in rows if row["commit"] == source_commit()]
    known = {(row["control"], row["series"], row["noise"]) for row in rows}
    for case in itertools.product(CONTROLS, SETTINGS, NOISES):
        if case not in known:
            rows.append(row_of(*case))
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
            write_json(out, summary(rows))
    print({key: value for key, value in summary(rows).items() if key not in ("rows", "setting")})


if __name__ == "__main__":
    main()
