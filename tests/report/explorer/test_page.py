"""What a reader can do with the page, in a real browser."""

import json
from pathlib import Path

import pytest
import torch

from algoformer import programs
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.report.explorer import Exploration, Puzzle, explorer_page
from algoformer.trace import Unroll
from report.explorer.conftest import Open
from report.explorer.models import answers, random_model, relative_error
from report.explorer.reader import rows_of, set_value, settled, shown
from report.explorer.text_models import language_model, page_text
from scripts.browser import Browser, Page


def small() -> AlgoFormer:
    return random_model(programs.algoformer(heads=2, steps=4), std=0.3)


def expected(model: AlgoFormer, page: Page, steps: int) -> torch.Tensor:
    rows = rows_of(page)
    return answers(model, rows, [len(rows) - 1], steps)


def check_answers(model: AlgoFormer, page: Page, steps: int) -> None:
    settled(page)
    found = [[value] for value in shown(page)]
    assert relative_error(found, expected(model, page, steps)) < 1e-4


def test_dragging_an_example_changes_the_answer_to_that_of_the_new_prompt(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    before, rows = shown(page), rows_of(page)
    page.drag('.point[data-index="1"]', 40, -60)
    check_answers(model, page, 20)
    after = rows_of(page)
    assert after[2][0] > rows[2][0] and after[3][0] > rows[3][0]  # noqa: PT018
    assert after[:2] == rows[:2]
    assert shown(page) != before


def test_arrow_keys_move_an_example_and_the_question(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    rows = rows_of(page)
    page.run("document.querySelector('.point[data-index=\"0\"]').focus()")
    page.key("ArrowLeft")
    page.key("ArrowUp")
    page.run("document.querySelector('.question').focus()")
    page.key("ArrowRight")
    check_answers(model, page, 20)
    moved = rows_of(page)
    range_of_y = page.run("explorer.prompt.range")
    assert moved[0][0] == pytest.approx(rows[0][0] - 0.1)
    assert moved[1][0] == pytest.approx(rows[1][0] + 0.1 * range_of_y / 3.2)
    assert moved[-1][0] == pytest.approx(rows[-1][0] + 0.1)


def test_examples_noise_and_new_prompts_are_run(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    rows = rows_of(page)
    set_value(page, "examples", 2)
    check_answers(model, page, 20)
    assert rows_of(page) == [*rows[:4], rows[-1]]
    set_value(page, "noise", 0.5)
    check_answers(model, page, 20)
    noisy = rows_of(page)
    assert noisy[0] == rows[0]
    assert noisy[1] != rows[1]
    page.click("#new")
    check_answers(model, page, 20)
    assert rows_of(page)[0] != rows[0]


def test_the_slider_shows_the_answers_of_its_iteration(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    wanted = expected(model, page, 20)
    for iteration in (1, 3, 20):
        set_value(page, "iteration", iteration)
        text = page.run("document.querySelector('#answers td').textContent").replace("−", "-")
        assert float(text) == pytest.approx(wanted[iteration - 1].item(), rel=6e-3, abs=1e-9)
        assert f"{iteration} of 20" in page.run("document.getElementById('iteration-value').textContent")
    assert "5 × the trained depth" in page.run("document.getElementById('iteration-value').textContent")


def test_the_loop_runs_far_beyond_its_trained_depth(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    set_value(page, "depth", 200, "change")
    page.wait("explorer.answers.length === 200")
    check_answers(model, page, 200)


def test_no_number_of_an_axis_is_cut_off(open_page: Open) -> None:
    page = open_page(random_model(programs.algoformer(heads=2, steps=20), std=0.3))
    settled(page)
    set_value(page, "depth", 1000, "change")
    page.wait("explorer.answers.length === 1000")
    cut = """[...document.querySelectorAll('svg .axes text')].filter((text) => {
        const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
        return box.width && (box.left < frame.left - 0.5 || box.right > frame.right + 0.5);
    }).map((text) => text.textContent)"""
    shown = page.run("[...document.querySelectorAll('svg .axes text')].map((text) => text.textContent)")
    assert "1000" in shown
    assert page.run(cut) == []


def test_play_walks_through_the_iterations_and_stops(open_page: Open) -> None:
    page = open_page(small())
    settled(page)
    assert page.run("explorer.iteration") == 4
    page.click("#play")
    assert page.run("document.getElementById('play').textContent") == "Pause"
    page.wait("explorer.iteration === 3")
    page.click("#play")
    assert page.run("explorer.timer") is None
    assert page.run("document.getElementById('play').textContent") == "Play"
    page.click("#play")
    page.wait("explorer.iteration === explorer.depth && !explorer.timer")


def test_a_click_on_a_part_shows_the_attention_of_its_heads_and_the_path_of_its_state(
    open_page: Open,
) -> None:
    model = small()
    page = open_page(model)
    settled(page)
    paths = page.run("Array.from(document.querySelectorAll('.part'), (part) => part.dataset.path)")
    assert paths == ["0", "1", "1.body.0", "2"]
    set_value(page, "iteration", 3)
    page.wait("explorer.inside.message.step === 3")
    page.click('.part[data-path="2"]')
    assert page.run("document.querySelector('.part[aria-pressed=\"true\"]').dataset.path") == "2"
    assert page.run("document.querySelectorAll('#maps canvas').length") == 2
    assert page.run("document.querySelectorAll('#path circle.stop').length") == 20
    found = torch.tensor(page.run("Array.from(explorer.inside.message.maps.get('2/0'), (map) => [...map])"))
    rows = rows_of(page)
    assert relative_error(found.tolist(), attention_of_post(model, rows, 3).flatten(1)) < 1e-4


@torch.no_grad()
def attention_of_post(model: AlgoFormer, rows: list[list[float]], step: int) -> torch.Tensor:
    """The attention weights of the module after the loop, (head, query, key), by definition."""
    prompt = Prompt(rows=torch.tensor([rows]), targets=torch.zeros(1, 1, 1), reads=(len(rows) - 1,))
    state = model(prompt, Unroll(steps=step, keep=(f"loop[{step}]",))).states[f"loop[{step}]"][0]
    post = model.body.parts[2]
    layer = post.layers[0]
    normed = layer.attention_norm(state + post.positions.table[: len(rows)])
    query, key, _ = layer.attention.qkv(normed).view(len(rows), 3, 2, 4).permute(1, 2, 0, 3)
    scores = query @ key.mT / 2  # heads of width 4
    hidden = torch.ones(len(rows), len(rows)).triu(1).bool()
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)


CUT = """[...document.querySelectorAll("svg .axes text")].filter((text) => {
  const own = text.getBoundingClientRect(), all = text.closest("svg").getBoundingClientRect();
  return own.left < all.left - 1 || own.right > all.right + 1;
}).map((text) => text.textContent)"""
"""Labels of axes that are not drawn as a whole."""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [375, 700, 1200])
def test_nothing_overflows_from_phone_to_desktop(width: int, dark: bool, open_page: Open) -> None:
    model = random_model(programs.nested(heads=4, inner_steps=2, steps=3), dim=20, width=16, context=81)
    page = open_page(model, Exploration(title="A" * 70), width=width, dark=dark)
    settled(page)
    assert page.run("document.documentElement.scrollWidth") == width
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert (max(int(part) for part in background[4:-1].split(",")) < 60) == dark
    assert page.run(CUT) == []
    assert page.screenshot(whole=False)[:4] == b"\x89PNG"


SHIFTS = """new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) sum += entry.value; })
    .observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum))));
})"""


@pytest.mark.parametrize("width", [375, 1100])
def test_nothing_moves_while_the_page_starts(width: int, open_page: Open) -> None:
    page = open_page(random_model(programs.algoformer(heads=2), dim=3), width=width)
    settled(page)
    assert page.run(SHIFTS) < 0.003  # browsers call anything below 0.1 good; no block may move


def test_every_control_has_a_name_and_can_be_reached(open_page: Open) -> None:
    page = open_page(small())
    settled(page)
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "slider", "combobox", "spinbutton", "image", "img"}
    controls = [node for node in nodes if node.get("role", {}).get("value") in roles and not node["ignored"]]
    assert len(controls) > 10
    assert all(node["name"]["value"].strip() for node in controls)
    page.run("document.querySelector('#new').focus()")
    reached = set()
    for _ in range(14):
        page.key("Tab")
        reached.add(page.run("document.activeElement.id || document.activeElement.getAttribute('class')"))
    assert {"examples", "noise", "play", "iteration", "depth", "point", "question", "part"} <= reached


def test_text_from_files_is_shown_and_never_run(open_page: Open) -> None:
    evil = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>&amp;"
    exploration = Exploration(
        title=evil,
        lead=evil,
        facts=((evil, evil),),
        identification={
            "sentence": evil,
            "curves": {"eigenvalues": [1, 2], "measured": [[1.0, 0.5]], "candidates": {evil: [[0.2, 0.1]]}},
        },
    )
    page = open_page(small(), exploration)
    settled(page)
    assert page.run("window.broken") is None
    for selector in (
        "h1",
        "#conclusion",
        "#facts dt",
        "#facts dd",
        "#verdict-text",
        "#filters-legend li + li",
    ):
        assert page.run(f"document.querySelector({json.dumps(selector)}).textContent") == evil
    assert page.run("document.querySelectorAll('#filters .curve').length") == 2


@pytest.mark.parametrize("kind", ["regression", "board", "text"])
def test_without_javascript_the_page_says_so_and_hides_what_would_not_work(
    kind: str, browser: Browser, tmp_path: Path
) -> None:
    """A page that never starts: the conclusion is there, the controls are not."""
    shown = {"title": "a model", "lead": "The conclusion."}
    if kind == "text":
        text = page_text(language_model(), lead=shown["lead"])
    elif kind == "board":
        prompts = ({"symbols": [0, 1], "reads": [0, 1], "targets": [0, 0]},)
        puzzle = Puzzle(symbols=("", "1"), classes=("1",), grid=(1, 2))
        exploration = Exploration(pairs=False, puzzle=puzzle, prompts=prompts, **shown)
        text = explorer_page(random_model(programs.looped(heads=2), dim=2), exploration)
    else:
        text = explorer_page(small(), Exploration(**shown))
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page = browser.page(tmp_path / "page.html", ready="document.readyState == 'complete'", scripts=False)
    seen = page.run("document.body.innerText")
    assert "The conclusion." in seen
    assert "JavaScript, which is switched off in this browser; switch it on" in seen
    assert "Play" not in seen
    page.close()


def test_a_page_that_cannot_run_its_model_says_why_in_one_line(open_page: Open) -> None:
    page = open_page(small())
    reason = page.run(
        "(() => { const pack = structuredClone(explorer.pack); delete pack.tensors['read_out.weight']; "
        "return algoformer.predict(pack, [[1]], [0], 1).then(() => '', (error) => error.message); })()"
    )
    assert "no weights named read_out.weight" in reason
    assert "algoformer" in reason


def test_a_page_of_two_versions_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    text = explorer_page(small(), Exploration(title="a model"))
    assert text.count('"format": 1') == 1
    (tmp_path / "old.html").write_text(text.replace('"format": 1', '"format": 0'), encoding="utf-8")
    page = browser.page(tmp_path / "old.html")
    said = page.run("document.getElementById('conclusion').textContent")
    assert said.endswith("from two versions of algoformer; make it again with algoformer explore")
    assert page.run("document.documentElement.dataset.state") == "failed"
    page.close()


def test_the_model_runs_without_workers_too(open_page: Open) -> None:
    model = small()
    page = open_page(model)
    found = page.run(
        "(() => { self.Worker = undefined; "
        "return algoformer.predict(explorer.pack, [[0.5], [1.0], [0.2]], [2], 3); })()"
    )
    wanted = answers(model, [[0.5], [1.0], [0.2]], [2], 3)
    assert relative_error(found["answers"], wanted) < 1e-4


def test_a_prompt_of_another_task_can_be_edited_number_by_number(open_page: Open) -> None:
    model = random_model(programs.looped(heads=2, steps=3), dim=2, out=2)
    prompt = {"rows": [[0.1, 0.2], [0.3, -0.4], [1.0, 0.5]], "reads": [0, 2], "parts": 1}
    other = {**prompt, "rows": [[0.6, 0.2], [0.8, -0.4], [1.0, 0.5]]}
    prompts = tuple({**each, "targets": [[0, 0], [1, 1]]} for each in (other, prompt))
    exploration = Exploration(title="m", pairs=False, prompts=prompts)
    page = open_page(model, exploration)
    settled(page)
    for name, value in {"row": 2, "column": 1, "value": -0.7}.items():
        set_value(page, name, value)
    settled(page)
    rows = [[0.1, 0.2], [-0.7, -0.4], [1.0, 0.5]]
    assert rows_of(page) == rows
    wanted = answers(model, rows, [0, 2], 15)
    found = page.run("explorer.answers.map((numbers) => [...numbers])")
    assert relative_error(found, wanted) < 1e-4
    targets = torch.tensor([0.0, 0.0, 1.0, 1.0])
    error = page.run("explorer.distance(explorer.answers[14])")
    assert error == pytest.approx((wanted[14] - targets).square().mean().item(), rel=1e-4)
    page.click("#new")
    settled(page)
    assert rows_of(page) == other["rows"]
    assert page.run("document.getElementById('value').valueAsNumber") == 0.8
