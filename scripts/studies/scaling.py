"""How much is a repetition worth: losses over parameters, repetitions and data, and the law that fits them.

All models apply the same number of layers to a token: some before and after the loop, and `depth` layers in
it as depth / r layers that run r times. Widths and budgets span a grid. A budget, in training FLOPs of the
model with r = 1 or in steps, decides how much data a width is trained on, the same for all r and recipes.
The learning rate of every r is the best of a few on validation data, at the middle width and the smallest
budget, and is kept for all widths. A recipe changes how loops with r > 1 are built or trained.

    python -m scripts.studies.scaling --out results/scaling                          tiny regression, CPU
    python -m scripts.studies.scaling --out results/scaling --size text-full --text FOLDER --device cuda
    python -m scripts.studies.scaling --out results/scaling --recipes truncated gate     Δφ of two recipes
"""

from __future__ import annotations

import argparse
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from algoformer.common.files import write_atomically, write_json
from algoformer.data import PromptData, TextData
from algoformer.data.prompts import VALIDATION_SEED
from algoformer.evaluation import evaluation_prompts
from algoformer.evaluation.solvers import full_precision
from algoformer.language.tokenizer import Tokenizer
from algoformer.model.program import default_steps
from algoformer.report import save
from algoformer.tasks import LinearRegression
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig
from scripts.studies.runs import StudyRun, add_options, make
from scripts.studies.scaling_models import (
    PLAIN,
    SIZES,
    Size,
    bill_of,
    parameters_of,
    program_of,
    recipe_of,
    steps_of,
)
from scripts.studies.scaling_report import law_of, picture_of, report_of

EPOCHS = 4
"""Text is repeated at most this often; with more, the law of the data no longer holds."""

RATE_SEED = 1000
"""The seed of runs that choose a learning rate, which the grid does not use."""


def data_of(size: Size, text: Path | None, runs: Path) -> Any:
    """Return prompts of the task, or the text of a folder with train, valid and test as .txt or .txt.xz."""
    if size.task:
        return PromptData(LinearRegression(**size.task))
    if text is None:
        raise ValueError("--text must name a folder with train, valid and test text, as .txt or .txt.xz")
    words = dict(size.text)
    most = words.pop("megabytes", None)
    paths = [str(unpacked(text, split, runs / "text", most)) for split in ("train", "valid", "test")]
    tokenizer = None
    if words["tokenize"] == "bytes":
        # English has few characters of more than one byte, and those fall back to bytes
        words["tokenize"], tokenizer = "char", Tokenizer({})
    return TextData(files=paths[0], validation=paths[1], test=paths[2], tokenizer=tokenizer, **words)


def unpacked(folder: Path, split: str, target: Path, megabytes: int | None) -> Path:
    """Return the file of a split, whole or its first megabytes; a packed one is unpacked into `target`."""
    plain, packed = folder / f"{split}.txt", folder / f"{split}.txt.xz"
    if plain.exists() and megabytes is None:
        return plain
    if not (plain.exists() or packed.exists()):
        raise ValueError(f"--text: {folder} has neither {plain.name} nor {packed.name}")
    file = target / f"{split}{megabytes or ''}.txt"
    if not file.exists():
        with plain.open("rb") if plain.exists() else lzma.open(packed) as source:
            content = source.read(-1 if megabytes is None else megabytes * 10**6)
        # the cut may lie inside a character
        whole = content.decode(errors="ignore").encode()
        write_atomically(file, lambda path: path.write_bytes(whole))
    return file


def experiment_of(size: Size, data: Any, recipe: str, r: int, width: int, budget: float) -> Experiment:
    """Return the experiment of a cell of the grid, without its learning rate and seed."""
    inject, words = recipe_of(recipe, r)
    steps = steps_of(size, width, budget, _vocabulary(data))
    training = TrainConfig(**size.training | words | {"steps": steps})
    if isinstance(data, TextData) and steps * training.batch_size * data.context > EPOCHS * len(
        data.splits["train"]
    ):
        raise ValueError(
            f"a run of {steps * training.batch_size * data.context:,} tokens would read the text, "
            f"{len(data.splits['train']):,} tokens, more than {EPOCHS} times; give more text"
        )
    return Experiment(program_of(size, r, inject), data, width=width, training=training)


def _vocabulary(data: Any) -> int:
    return len(data.known_tokenizer) if isinstance(data, TextData) else 0


def kinds(size: Size, recipes: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield recipe and repetitions; r = 1 is the same for all recipes and belongs to the plain one."""
    for recipe in dict.fromkeys((PLAIN, *recipes)):
        for r in size.repetitions:
            if recipe == PLAIN or r > 1:
                yield recipe, r


def rate_runs(size: Size, data: Any, recipes: Sequence[str]) -> Iterator[StudyRun]:
    """Yield the runs that choose the learning rate of each recipe and number of repetitions."""
    for recipe, r in kinds(size, recipes):
        plan = experiment_of(size, data, recipe, r, size.middle, size.budgets[0])
        for lr in size.rates:
            training = replace(plan.training, lr=lr, seed=RATE_SEED)
            yield StudyRun(name=f"rates/{recipe}/r{r}/{lr:g}", experiment=replace(plan, training=training))


def best_rates(found: Mapping[str, Any]) -> dict[tuple[str, int], float]:
    """Return the learning rate with the lowest validation loss for each recipe and repetitions."""
    best: dict[tuple[str, int], tuple[float, float]] = {}
    for name, run in found.items():
        if name.startswith("rates/"):
            _, recipe, r, lr = name.split("/")
            key, entry = (recipe, int(r[1:])), (run["summary"]["validation"], float(lr))
            best[key] = min(best.get(key, entry), entry)
    return {key: lr for key, (_, lr) in best.items()}


def grid_runs(
    size: Size, data: Any, recipes: Sequence[str], rates: Mapping[tuple[str, int], float], seeds: list[int]
) -> Iterator[StudyRun]:
    """Yield the runs of the grid, small budgets first; a rate that was not chosen is the middle one."""
    usual = size.rates[len(size.rates) // 2]
    for seed in seeds:
        for number, budget in enumerate(size.budgets):
            for width in size.widths:
                for recipe, r in kinds(size, recipes):
                    plan = experiment_of(size, data, recipe, r, width, budget)
                    training = replace(plan.training, lr=rates.get((recipe, r), usual), seed=seed)
                    yield StudyRun(
                        name=f"{recipe}/r{r}/width{width}/budget{number}/seed{seed}",
                        experiment=replace(plan, training=training),
                    )


def measure(run: StudyRun, model: Any, size: Size) -> dict[str, Any]:
    """Return the loss on held-out data, that on validation data, parameters, repetitions and data."""
    plan = run.experiment
    once, loop = parameters_of(size, plan.program, plan.width)
    seen = plan.training.steps * plan.training.batch_size
    tokens = plan.data.context if isinstance(plan.data, TextData) else 1
    return {
        "summary": {
            "loss": loss_of(plan.data, model, "test", size.held_out),
            "validation": loss_of(plan.data, model, "valid", size.held_out),
        },
        "once": once,
        "loop": loop,
        "repetitions": default_steps(plan.program),
        "data": seen * tokens,
        "flops": seen * bill_of(size, program_of(size, 1), plan.width, _vocabulary(plan.data)).training,
    }


def loss_of(data: Any, model: Any, split: str, count: int) -> float:
    """Return nats per token, or the squared error in units of the labels' variance.

    Only questions after as many examples as dimensions count: the error of earlier ones cannot be zero.
    """
    if isinstance(data, TextData):
        return float(data.evaluate(model, split=split, limit=count).cross_entropy[-1])
    prompt = evaluation_prompts(data.task, count=count, seed=VALIDATION_SEED if split == "valid" else 0)
    device = next(model.parameters()).device
    with full_precision(model, device):
        unroll = Unroll(steps=default_steps(model.program), window=1)
        answers = model(prompt.to(device), unroll).final.cpu()
    squares = (answers - prompt.targets).double().square()[:, data.task.dim :]
    return float(squares.mean() / data.task.scale)


def main() -> None:
    """Choose learning rates, train the grid, fit, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, help="Folder with train, valid and test text.")
    parser.add_argument("--recipes", nargs="*", default=[], help="Recipes besides 'full', which always runs.")
    chosen = add_options(parser, tuple(SIZES), seeds=(0,))
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    size, file = SIZES[chosen.size], chosen.out / f"{chosen.size}.json"
    size = replace(size, budgets=(chosen.steps,)) if chosen.steps else size
    data, measured = data_of(size, chosen.text, chosen.runs), partial(measure, size=size)
    found = make(list(rate_runs(size, data, chosen.recipes)), measured, chosen, file)["runs"]
    runs = list(grid_runs(size, data, chosen.recipes, best_rates(found), chosen.seeds))
    found = make(runs, measured, chosen, file)["runs"]
    if not (chosen.list or chosen.steps):
        law = law_of(found, chosen.recipes)
        write_json(file.with_name(f"{file.stem}-law.json"), law)
        save(picture_of(found, law, PLAIN), file.with_suffix(""))
        print(report_of(law))


if __name__ == "__main__":
    main()
