"""The scaling law is recovered from made-up runs, and the study's models are what the law assumes."""

import argparse
import json
import lzma
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algoformer.data import TextData
from algoformer.evaluation import evaluation_prompts
from algoformer.model.cost import cost
from algoformer.tasks import LinearRegression
from algoformer.training import build_model
from scripts.studies import deployment, scaling
from scripts.studies.runs import StudyRun, make
from scripts.studies.scaling_law import Fit, Runs, _Problem, fit
from scripts.studies.scaling_models import SIZES, Size, bill_of, parameters_of, program_of, steps_of
from scripts.studies.scaling_report import law_of, main, picture_of, report_of

TRUE = {"E": 1.7, "A": 240.0, "B": 400.0, "alpha": 0.35, "beta": 0.3}

TINY = Size(
    widths=(8, 16),
    budgets=(2, 4),
    heads=2,
    depth=2,
    repetitions=(1, 2),
    task={"dim": 1, "points": 3},
    rates=(1e-2,),
    training={"batch_size": 4},
    held_out=16,
)


def made_up(
    generator: np.random.Generator,
    noise: float,
    phi: dict[str, float] | None = None,
    repetitions: Sequence[int] = (1, 2, 4, 8),
    budgets: Sequence[float] = (1e15, 3e15, 1e16),
) -> Runs:
    """Runs of a known law on the grid of the study: 2 + 8 + 2 layers of three widths."""
    rows = []
    for recipe, value in (phi or {"full": 0.46}).items():
        for r in repetitions:
            for width in (128, 192, 320):
                for budget in budgets:
                    layer = 12 * width**2
                    data = budget / (6 * 12 * layer)
                    size = 4 * layer + r**value * 8 / r * layer
                    loss = TRUE["E"] + TRUE["A"] * size ** -TRUE["alpha"] + TRUE["B"] * data ** -TRUE["beta"]
                    loss *= np.exp(noise * generator.normal())
                    row = {"once": 4 * layer, "loop": 8 / r * layer, "repetitions": r}
                    rows.append({**row, "data": data, "loss": loss, "recipe": recipe})
    return Runs.of(rows)


def test_a_law_without_noise_is_recovered_exactly() -> None:
    law = fit(made_up(np.random.default_rng(0), 0.0), resamples=1).law
    for name, value in TRUE.items():
        assert getattr(law, name) == pytest.approx(value, rel=1e-4), name
    assert law.phi["full"] == pytest.approx(0.46, abs=1e-4)
    assert law.at_bounds == []


def test_a_law_with_noise_lies_within_its_own_bands() -> None:
    found = fit(made_up(np.random.default_rng(0), 0.003), resamples=300)
    for name, value in {**TRUE, "full": 0.46}.items():
        low, high = found.band(name, share=0.99)
        assert low < value < high, name
    low, high = found.band("full")
    assert high - low < 0.1


def test_bands_have_about_their_nominal_coverage() -> None:
    generator = np.random.default_rng(1)
    count = 40
    fits: list[Fit] = [fit(made_up(generator, 0.004), resamples=100, seed=number) for number in range(count)]
    bands = np.array([one.band("full") for one in fits])
    covered = ((bands[:, 0] < 0.46) & (bands[:, 1] > 0.46)).mean()
    # 40 draws of a probability of 0.9 have a standard deviation of 0.05
    assert 0.8 <= covered < 1
    spread = np.quantile([one.law.phi["full"] for one in fits], [0.05, 0.95])
    assert 0.6 < np.diff(bands).mean() / np.diff(spread)[0] < 1.6


def test_the_difference_of_two_recipes_is_recovered() -> None:
    phi = {"full": 0.46, "gate": 0.6}
    found = fit(made_up(np.random.default_rng(2), 0.003, phi), resamples=200)
    low, high = found.band("gate", "full", share=0.99)
    assert 0 < low < 0.14 < high


def test_the_linear_part_is_the_best_without_negative_numbers() -> None:
    runs = made_up(np.random.default_rng(3), 0.3)
    problem, generator = _Problem(runs), np.random.default_rng(4)
    exponents = generator.uniform([0.1, 0.1, 0.0], [2.0, 2.0, 1.0], size=(200, 3))
    weights = generator.integers(0, 3, size=(200, len(runs.loss))).astype(float)
    linear, residuals = problem.project(exponents, weights)
    columns = problem.columns(exponents) * np.sqrt(weights)[:, :, None]
    # Karush, Kuhn and Tucker: no gradient where a number is positive, none that points down where it is zero
    slopes = np.einsum("bni,bn->bi", columns, residuals)
    assert (linear >= 0).all()
    assert (linear == 0).any()
    assert np.abs(slopes[linear > 0]).max() < 1e-6
    assert slopes[linear == 0].min() > -1e-6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"repetitions": [4]}, r"'full' have only r = 4; φ needs at least two"),
        ({"budgets": []}, "0 runs cannot determine 6 parameters"),
        ({"phi": {"full": 0.4}, "repetitions": [1, 2], "budgets": [1e15]}, "cannot determine 6 parameters"),
    ],
)
def test_a_grid_that_determines_no_law_is_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made_up(np.random.default_rng(0), 0.0, **words)


def test_runs_with_one_amount_of_data_are_refused() -> None:
    runs = made_up(np.random.default_rng(0), 0.0)
    with pytest.raises(ValueError, match="β needs at least two amounts"):
        Runs(**{**vars(runs), "data": np.ones_like(runs.data)})


@pytest.mark.parametrize("size", SIZES)
def test_all_repetitions_have_the_same_flops_and_fewer_parameters(size: str) -> None:
    sizes = SIZES[size]
    for width in sizes.widths:
        programs = [program_of(sizes, r) for r in sizes.repetitions]
        assert len({bill_of(sizes, program, width, 256).forward for program in programs}) == 1
        found = [parameters_of(sizes, program, width) for program in programs]
        assert len({once for once, _ in found}) == 1
        # the norm at the end of the loop is there once, whatever r
        norm = 2 * width
        loops = {(loop - norm) * r for (_, loop), r in zip(found, sizes.repetitions, strict=True)}
        assert len(loops) == 1


def test_budgets_of_flops_are_spent() -> None:
    size = SIZES["regression-full"]
    for width in size.widths:
        for budget in size.budgets:
            steps = steps_of(size, width, budget)
            spent = steps * size.training["batch_size"] * bill_of(size, program_of(size, 1), width).training
            assert spent == pytest.approx(budget, rel=0.01)


def test_recipes_differ_for_loops_alone() -> None:
    data = scaling.data_of(TINY, None, Path())
    recipes = ("truncated", "window", "burn-in", "none", "gate", "concat", "decay")
    cells = {name: scaling.experiment_of(TINY, data, name, 1, 8, 2) for name in ("full", *recipes)}
    assert all(cell == cells["full"] for cell in cells.values())
    names = [run.name for run in scaling.grid_runs(TINY, data, recipes, {}, [0])]
    assert len(names) == len(set(names)) == 4 * (2 + len(recipes))
    with pytest.raises(ValueError, match="--recipes knows full, truncated"):
        scaling.experiment_of(TINY, data, "unknown", 2, 8, 2)


def test_the_learning_rate_of_each_r_is_the_best_on_validation_data() -> None:
    losses = {
        "rates/full/r1/0.01": 2.0,
        "rates/full/r1/0.1": 1.0,
        "rates/gate/r2/0.01": 1.0,
        "full/r1/x": 0.0,
    }
    found = {name: {"summary": {"validation": loss, "loss": -loss}} for name, loss in losses.items()}
    assert scaling.best_rates(found) == {("full", 1): 0.1, ("gate", 2): 0.01}


def test_the_loss_of_regression_is_that_of_questions_after_dim_examples() -> None:
    task = LinearRegression(dim=2, points=4)
    prompt = evaluation_prompts(task, count=512)
    expected = float(prompt.targets[:, 2:].double().square().mean()) / 2  # the model answers zero
    data = scaling.PromptData(task)
    model: Any = build_model(scaling.experiment_of(TINY, data, "full", 2, 8, 2))
    for weight in model.read_out.parameters():
        weight.data.zero_()
    assert scaling.loss_of(data, model, "test", 512) == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(only=["*"], list=False, steps=None, runs=tmp_path / "runs", device="cpu")


def test_the_study_runs_from_rates_to_law_and_picture(options: argparse.Namespace, tmp_path: Path) -> None:
    data = scaling.data_of(TINY, None, tmp_path)
    measure = partial(scaling.measure, size=TINY)
    file = tmp_path / "found.json"
    found = make(list(scaling.rate_runs(TINY, data, [])), measure, options, file)["runs"]
    rates = scaling.best_rates(found)
    found = make(list(scaling.grid_runs(TINY, data, [], rates, [0])), measure, options, file)["runs"]
    assert len(found) == 2 + 8
    one = found["full/r2/width16/budget1/seed0"]
    assert one["data"] == 4 * 4
    assert one["experiment"]["training"]["lr"] == 1e-2
    law = law_of(found, [], resamples=5)
    assert law["runs"] == 8
    assert "φ full" in str(report_of(law))
    assert len(picture_of(found, law, "full").axes) == 2


def test_the_published_law_comes_out_of_the_published_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "results" / "scaling" / "text-full.json"
    stored = json.loads(file.with_name("text-full-law.json").read_text())
    law = law_of(json.loads(file.read_text())["runs"], [], resamples=1)
    assert law["runs"] == stored["runs"] == 36
    assert law["law"]["phi"]["full"] == pytest.approx(stored["law"]["phi"]["full"], rel=1e-3)
    wrong = ([str(file), "--recipes", "gaate"], ["nofile"])
    for words, found in zip(wrong, ("burn-in, full, gate, got 'gaate'", "no file nofile"), strict=True):
        monkeypatch.setattr("sys.argv", ["scaling_report", *words])
        with pytest.raises(SystemExit):
            main()
        assert found in capsys.readouterr().err


def test_text_is_read_from_packed_files_and_repeated_little(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt.xz").write_bytes(
            lzma.compress(f"a line of {split}, naïve\n".encode() * 400)
        )
    size = Size(**{**vars(TINY), "task": {}, "text": {"tokenize": "bytes", "context": 8, "megabytes": 1}})
    data = scaling.data_of(size, tmp_path, tmp_path / "runs")
    assert isinstance(data, TextData)
    assert "of train, naïve" in Path(data.files[0]).read_text()  # type: ignore[arg-type]
    plan = scaling.experiment_of(size, data, "full", 2, 8, 2)
    run = StudyRun(name="full/r2/width8/budget0/seed0", experiment=plan)
    found = scaling.measure(run, build_model(plan), size)
    assert found["data"] == 2 * 4 * 8
    assert 4 < found["summary"]["loss"] < 8
    with pytest.raises(ValueError, match="more than 4 times; give more text"):
        scaling.experiment_of(size, data, "full", 2, 8, 10_000)
    with pytest.raises(ValueError, match="--text must name a folder"):
        scaling.data_of(size, None, tmp_path)
    with pytest.raises(ValueError, match=r"neither train.txt nor train.txt.xz"):
        scaling.data_of(size, tmp_path / "runs", tmp_path)


def test_deployment_compares_with_the_plain_model_of_equal_loss() -> None:
    width = deployment.WIDTHS["100 M"]
    assert deployment.equal_layers(width, 1, 0.46) == 12
    assert deployment.equal_layers(width, 8, 1.0) == 4 + 64
    assert deployment.equal_layers(width, 8, 0.0) == 12
    once, again = (deployment.bill_of(deployment.looped(width, r), width) for r in (1, 4))
    assert once.parameters == again.parameters
    # 36 layer calls in place of 12
    assert again.cache == 3 * once.cache == 36 * 2 * 4096 * width * 2
    assert again.flops == 3 * once.flops
    for name, target in {"10 M": 1e7, "100 M": 1e8, "1 B": 1e9, "10 B": 1e10}.items():
        width = deployment.WIDTHS[name]
        bill = cost(deployment.looped(width, 1), dim=1, out=1, context=1, width=width)
        assert bill.core_parameters == pytest.approx(target, rel=0.06)
    marks = [row[0] for row in deployment.rows(deployment.PUBLISHED, (4,))]
    assert marks == ["10 M*", "100 M", "1 B*", "10 B*"]
