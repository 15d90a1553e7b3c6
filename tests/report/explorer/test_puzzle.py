"""Boards and sequences that a model fills in the page, beside PyTorch on the same prompt."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from algoformer import programs
from algoformer.cli.explore_pages import explore
from algoformer.cli.explore_puzzles import puzzle_of
from algoformer.cli.measure import Contender, load_contender
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.report.explorer import Exploration, Puzzle
from algoformer.tasks import Addition, Copy, Hops, LinearSystem, Parity, Sudoku, Task
from algoformer.tasks.sudoku_boards import unit_cells
from algoformer.trace import Unroll
from report.explorer.conftest import Open
from report.explorer.models import random_model, relative_error
from report.explorer.reader import rows_of, set_value, settled
from report.explorer.test_page import SHIFTS
from scripts.browser import Page
from tasks.test_sudoku import EASY


def model_for(task: Task, *, causal: bool = False) -> AlgoFormer:
    program = programs.algoformer(heads=2, steps=4, causal=causal)
    return random_model(program, dim=task.dim, out=task.out, context=task.context, std=0.3)


def shown_by(task: Task, model: AlgoFormer) -> Exploration:
    return explore(Contender(label="a model", model=model, task=task, card={}))


@torch.no_grad()
def scores(model: AlgoFormer, page: Page, reads: list[int], steps: int) -> Tensor:
    """What PyTorch says to the prompt of the page, (step, question, class)."""
    prompt = Prompt(
        rows=torch.tensor([rows_of(page)]).float(),
        targets=torch.zeros(1, len(reads), model.out),
        reads=tuple(reads),
        classes=True,
        answers_in_rows=False,
    )
    return model(prompt, Unroll(steps=steps)).predictions[:, 0]


def text_of_cells(page: Page) -> list[str]:
    return page.run("Array.from(document.querySelectorAll('.cell b'), (cell) => cell.textContent)")


def press(page: Page, key: str) -> None:
    """Type a character into the element that has the focus."""
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")


def check_board(page: Page, model: AlgoFormer, iteration: int) -> None:
    """The cells show the givens, and PyTorch's answers everywhere else."""
    settled(page)
    set_value(page, "iteration", iteration)
    wanted = scores(model, page, list(range(model.context)), 20)
    found = page.run("explorer.answers.map((numbers) => [...numbers])")
    assert relative_error(found, wanted.flatten(1)) < 1e-4
    digits = torch.tensor(rows_of(page)).argmax(dim=1).tolist()
    answers = wanted[iteration - 1].argmax(dim=1).tolist()
    expected = [str(given or answer + 1) for given, answer in zip(digits, answers, strict=True)]
    assert text_of_cells(page) == expected
    chances = torch.tensor(page.run(f"explorer.input.probabilities[{iteration - 1}]"))
    assert torch.allclose(chances, wanted[iteration - 1].softmax(dim=1).amax(dim=1), atol=1e-4)


def large_board(folder: Path) -> Sudoku:
    """Boards of nine by nine cells: a puzzle, and what it becomes when it is turned and mirrored."""
    mirrored = "".join(EASY[9 * column + row] for row in range(9) for column in range(9))
    (folder / "puzzles.txt").write_text("\n".join([EASY, EASY[::-1], mirrored]))
    return Sudoku(size=9, puzzles=str(folder / "puzzles.txt"))


@pytest.mark.parametrize("size", [4, 9])
def test_a_board_fills_itself_as_in_pytorch(size: int, tmp_path: Path, open_page: Open) -> None:
    task = Sudoku(size=4) if size == 4 else large_board(tmp_path)
    model = model_for(task)
    page = open_page(model, shown_by(task, model))
    for iteration in (1, 4, 20):
        check_board(page, model, iteration)
    given = page.run("document.querySelectorAll('.cell.given').length")
    assert given == sum(row[0] == 0 for row in rows_of(page))
    exits = page.run("explorer.input.exits")
    history = scores(model, page, list(range(task.context)), 20).argmax(dim=2)
    for place, exit in enumerate(exits):
        assert (history[exit - 1 :, place] == history[-1, place]).all()
        assert exit == 1 or history[exit - 2, place] != history[exit - 1, place]


def test_the_shipped_model_solves_a_board_in_the_page(open_page: Open) -> None:
    contender = load_contender(Path("sudoku"))
    page = open_page(contender.model, explore(contender))
    settled(page)
    for _ in range(11):  # the last of the twelve boards takes the fewest iterations
        page.click("#new")
        settled(page)
    wanted = scores(contender.model, page, list(range(81)), 32)
    found = page.run("explorer.answers.map((numbers) => [...numbers])")
    # digits, not logits: 32 passes through a trained loop enlarge the rounding
    digits = torch.tensor(found).unflatten(1, (81, 9)).argmax(dim=2)
    assert (digits == wanted.argmax(dim=2)).double().mean() > 0.999
    set_value(page, "iteration", 32)
    board = torch.tensor([int(cell) for cell in text_of_cells(page)])
    assert (board[torch.from_numpy(unit_cells(9))].sort(dim=1).values == torch.arange(1, 10)).all()
    assert page.run("document.querySelectorAll('.cell.wrong').length") == 0


def test_typing_into_a_cell_asks_the_model_about_the_new_board(open_page: Open) -> None:
    task = Sudoku(size=4)
    model = model_for(task)
    page = open_page(model, shown_by(task, model))
    settled(page)
    before = rows_of(page)
    page.click(".cell")
    page.key("ArrowRight")
    assert page.run("document.activeElement.getAttribute('aria-label')").startswith("Row 1, column 2")
    # the chosen cell gets a digit that another cell of its row holds, or the next one gets it too
    press(page, "3")
    page.key("ArrowRight")
    press(page, "3")
    check_board(page, model, 4)
    after = rows_of(page)
    assert after[1] == after[2] == [0, 0, 0, 1, 0]
    assert after[3:] == before[3:]
    wrong = page.run("Array.from(document.querySelectorAll('.cell'), (cell) => cell.matches('.wrong'))")
    assert wrong[1] and wrong[2]  # noqa: PT018
    assert "breaks no rule" in page.run("document.getElementById('now').textContent")
    set_value(page, "given", 0, "change")
    check_board(page, model, 4)
    assert rows_of(page)[2] == [1, 0, 0, 0, 0]


def test_answers_are_marked_against_the_solution_until_the_board_is_edited(open_page: Open) -> None:
    task = Sudoku(size=4)
    model = model_for(task)
    exploration = shown_by(task, model)
    page = open_page(model, exploration)
    settled(page)
    set_value(page, "iteration", 2)
    solution = exploration.prompts[0]["targets"]
    answers = scores(model, page, list(range(16)), 2)[-1].argmax(dim=1).tolist()
    empty = [place for place, row in enumerate(rows_of(page)) if row[0]]
    wrong = [place for place in empty if answers[place] != solution[place]]
    marked = page.run(
        "[...document.querySelectorAll('.cell')].flatMap((c, k) => c.matches('.wrong') ? [k] : [])"
    )
    assert marked == wrong
    sentence = page.run("document.getElementById('now').textContent")
    assert f"{len(empty) - len(wrong)} of {len(empty)} answers are right" in sentence
    page.click("#new")
    settled(page)
    symbols = torch.tensor(rows_of(page)).argmax(dim=1).tolist()
    assert symbols == exploration.prompts[1]["symbols"]


@pytest.mark.parametrize(
    ("task", "causal"),
    [
        (Addition(numbers=2, digits=2), False),
        (Parity(length=5), False),
        (Hops(length=6, symbols=3, hops=2), True),
        (Copy(length=3), True),
    ],
    ids=["addition", "parity", "hops", "copy"],
)
def test_sequences_are_answered_where_they_are_asked(task: Task, causal: bool, open_page: Open) -> None:
    model = model_for(task, causal=causal)
    exploration = shown_by(task, model)
    page = open_page(model, exploration)
    settled(page)
    reads = exploration.prompts[0]["reads"]
    wanted = scores(model, page, reads, 20)
    found = page.run("explorer.answers.map((numbers) => [...numbers])")
    assert relative_error(found, wanted.flatten(1)) < 1e-4
    assert exploration.puzzle is not None
    names = [exploration.puzzle.classes[answer] for answer in wanted[3].argmax(dim=1).tolist()]
    assert [text_of_cells(page)[row] for row in reads] == names
    silent = page.run("document.querySelectorAll('.cell.silent').length")
    assert silent == task.context - len(reads)


def test_the_path_is_that_of_the_chosen_token(open_page: Open) -> None:
    task = Addition(numbers=2, digits=2)
    model = model_for(task)
    page = open_page(model, shown_by(task, model))
    settled(page)
    page.run(f"explorer.cells.choose({task.context - 1})")  # the last digit of the sum, which is asked for
    settled(page)
    prompt = Prompt(
        rows=torch.tensor([rows_of(page)]).float(),
        targets=torch.zeros(1, 1, 10),
        reads=(task.context - 1,),
        answers_in_rows=False,
    )
    with torch.no_grad():
        states = model(prompt, Unroll(steps=3, keep=("loop[3]", "post"))).states
    for address, key in {"loop[3]": "1/end", "post": "2/end"}.items():
        found = page.run(f"[...explorer.paths[2].get('{key}')]")
        wanted = states[address].reshape(-1, task.context, model.width)[-1, -1]
        assert torch.allclose(torch.tensor(found), wanted, atol=1e-4), address


OVERLAPS = """[...document.querySelectorAll(".cell:not(.given)")].filter((cell) => {
  const box = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  };
  const digit = box(cell.querySelector("b")), exit = box(cell.querySelector(".exit"));
  const apart = exit.left >= digit.right || exit.bottom <= digit.top + digit.height / 4;
  return exit.width && !apart;
}).length"""
"""Cells whose small number covers the digit."""


@pytest.mark.parametrize("size", [4, 9])
@pytest.mark.parametrize("dark", [False, True])
def test_a_board_fits_a_phone(dark: bool, size: int, tmp_path: Path, open_page: Open) -> None:
    task = Sudoku(size=4) if size == 4 else large_board(tmp_path)
    model = model_for(task)
    page = open_page(model, shown_by(task, model), width=375, dark=dark)
    settled(page)
    assert page.run("document.documentElement.scrollWidth") == 375
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    cells = [node for node in nodes if node.get("role", {}).get("value") == "button" and not node["ignored"]]
    assert sum("column" in node["name"]["value"] for node in cells) == size * size
    boxes = page.run(
        "[...document.querySelectorAll('.cell')].map((cell) => cell.getBoundingClientRect().toJSON())"
    )
    assert all(box["width"] == pytest.approx(box["height"], abs=0.5) for box in boxes), "cells are squares"
    assert max(box["right"] for box in boxes) <= 375 - 14
    assert page.run(OVERLAPS) == 0
    assert page.run(SHIFTS) < 0.003


def test_names_of_symbols_are_shown_and_never_run(open_page: Open) -> None:
    evil = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
    task = Parity(length=3)
    model = model_for(task)
    puzzle = Puzzle(symbols=(evil, "1", "2", "3"), classes=(evil, evil))
    prompts = ({"symbols": [0, 0, 1, 3], "reads": [3], "targets": [1]},)
    page = open_page(model, Exploration(title=evil, pairs=False, puzzle=puzzle, prompts=prompts))
    settled(page)
    assert page.run("window.broken") is None
    assert text_of_cells(page)[-1] == evil
    assert page.run("document.querySelector('.cell .name').textContent") == evil


def test_full_attention_reads_all_rows_of_a_matrix(open_page: Open) -> None:
    task = LinearSystem(size=3)
    model = model_for(task)
    page = open_page(model, shown_by(task, model))
    settled(page)
    prompt = Prompt(
        rows=torch.tensor([rows_of(page)]),
        targets=torch.zeros(1, 3, 1),
        reads=(0, 1, 2),
        answers_in_rows=False,
    )
    with torch.no_grad():
        wanted = model(prompt, Unroll(steps=20)).predictions[:, 0].flatten(1)
    assert relative_error(page.run("explorer.answers.map((numbers) => [...numbers])"), wanted) < 1e-4


def test_units_of_a_sudoku_are_its_rows_columns_and_blocks() -> None:
    units = puzzle_of(Sudoku(size=4)).units
    assert len(units) == 12
    prompt = Sudoku(size=4).sample(1, generator=torch.Generator().manual_seed(0))
    solution = prompt.targets[0].argmax(dim=1)
    assert all(sorted(solution[list(unit)].tolist()) == [0, 1, 2, 3] for unit in units)
