"""The trained models that come with the repository are what their cards say."""

from pathlib import Path

import pytest

from algoformer.common.files import read_header
from algoformer.evaluation import errors_at, evaluate, evaluation_prompts
from algoformer.shipped import CHECKOUT_ONLY
from algoformer.tasks import Sudoku
from algoformer.training import Experiment, load_checkpoint, presets

FOLDER = Path(__file__).parents[1] / "checkpoints"
ALL = sorted(FOLDER.glob("*.safetensors"))
TEXT = {"tatoeba_de_en", "dbpedia", "books"}
"""Models of text, which have a test of their own."""
FILES = [file for file in ALL if file.stem not in TEXT]
REGRESSION = [file for file in FILES if file.stem != "sudoku"]


def test_there_are_trained_models_and_they_stay_small() -> None:
    assert {file.stem for file in FILES} >= {"linear", "representation", "sudoku"}
    sizes = {file.stem: file.stat().st_size for file in ALL}
    assert sum(size for name, size in sizes.items() if name not in CHECKOUT_ONLY) < 24e6
    assert sum(sizes.values()) < 32e6


def test_models_of_text_are_told_from_models_of_prompts() -> None:
    assert {file.stem for file in ALL if read_header(file)["model"]["kind"] != "algoformer"} == TEXT


@pytest.mark.parametrize("file", REGRESSION, ids=lambda file: file.stem)
def test_a_shipped_model_reproduces_its_card(file: Path) -> None:
    checkpoint = load_checkpoint(file)
    card, task = checkpoint.card, checkpoint.task
    assert {"step", "seconds", "device", "commit", "command", "error_by_sample", "error_by_depth"} <= set(
        card
    )
    # 96 of the card's 1280 prompts, to save time: the card's mean must lie in the band of the few
    prompt = evaluation_prompts(task, count=card["prompts"]).select(slice(96))
    few = evaluate(checkpoint.model, prompt, window=1).by_sample
    missed = [
        place
        for place, mean in enumerate(card["error_by_sample"])
        if not 0.9 * few.low[place] <= mean <= 1.1 * few.high[place]
    ]
    # a 90 % band misses about one place in ten, and neighboring places together
    assert len(missed) <= len(card["error_by_sample"]) // 4, missed
    assert card["error_by_sample"][-1] < 3e-3
    assert card["error_by_depth"]["1000"] <= 1.1 * card["error_by_depth"]["20"]


def test_the_model_of_sudoku_reproduces_its_card() -> None:
    checkpoint = load_checkpoint(FOLDER / "sudoku.safetensors")
    card = checkpoint.card
    assert checkpoint.task == Sudoku(size=9)
    assert (card["step"], card["weights"], card["device"]) == (24_000, "average", "NVIDIA H200")
    assert card["commit"].startswith("2ffe8a3")
    # what it was trained on is another task than the one that it is measured on
    stored = card["experiment"]["data"]["task"]
    assert (stored["boards"], stored["most"]) == (180_000, 17)
    solved = card["solved_by_depth"]
    assert set(solved) == {"32", "64", "128"}
    assert solved["32"][0] < solved["64"][0] < solved["128"][0]
    # 128 of the card's 1280 boards, to save time: the card's share must lie in the band of the few
    prompt = evaluation_prompts(checkpoint.task, count=card["prompts"]).select(slice(128))
    few = errors_at(checkpoint.model, prompt, depths=(32, 64))["clean"].unsolved
    assert few is not None
    for place, depth in enumerate(("32", "64")):
        assert 1 - few.high[place] <= solved[depth][0] <= 1 - few.low[place]


def test_the_model_of_sudoku_was_given_boards_with_more_cells_too() -> None:
    # as it was trained: hardly a board is left unsolved where half of a puzzle is revealed besides
    checkpoint = load_checkpoint(FOLDER / "sudoku.safetensors")
    prompt = evaluation_prompts(Sudoku(size=9, least=8, most=10), count=64)
    found = evaluate(checkpoint.model, prompt, window=1).unsolved
    assert found is not None
    assert found.final < 0.1


def test_the_model_of_linear_regression_is_the_recipe_that_is_recommended() -> None:
    """What `algoformer train --data linear --scale short` trains."""
    card = load_checkpoint(FOLDER / "linear.safetensors").card
    assert Experiment.from_data(card["experiment"]) == presets.experiment("linear", "algoformer", "short")
    assert (card["step"], card["precision"], card["device"]) == (40_000, "tf32", "NVIDIA H200")
    assert card["commit"].startswith("60b15a1")
    assert max(card["error_by_depth"].values()) < 1e-5
