"""The page of a text model: what is typed, and what it shows."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import programs
from algoformer.cli.explore_text import page_of_text
from algoformer.language import TextClassifier, Tokenizer, TokenModel
from algoformer.language.lines import prepared
from algoformer.language.sampling import Sampling, Writer
from algoformer.language.search import generate
from algoformer.language.tokenizer import EOS, TRANSLATE
from algoformer.language.translate import Decoding, Translator
from algoformer.model.stopping import parse_stopping
from algoformer.report.explorer.text import NEW_TOKENS
from algoformer.shipped import load
from algoformer.trace import Unroll
from report.explorer.models import relative_error
from report.explorer.reader import set_value, settled
from report.explorer.test_page import SHIFTS
from report.explorer.text_models import EVIL, language_model, page_text, reference, small, tokenizer
from scripts.browser import Browser, Page

SINGLE = 1e-4


def opened(browser: Browser, folder: Path, checkpoint: Any, *lines: str, **options: Any) -> Page:
    file = folder / "page.html"
    name = "dbpedia" if isinstance(checkpoint.model, TextClassifier) else "tatoeba_de_en"
    file.write_text(page_of_text(checkpoint, name, lines)[0], encoding="utf-8")
    page = browser.page(file, **options)
    settled(page)
    return page


def closed(page: Page) -> None:
    assert page.problems() == []
    assert page.requests() == []
    page.close()


def test_the_shipped_classifier_votes_as_in_pytorch(browser: Browser, tmp_path: Path) -> None:
    checkpoint = load("dbpedia")
    model: Any = checkpoint.model
    page = opened(browser, tmp_path, checkpoint)
    line = "Abbey Road (1969) is an album by the Beatles!"
    type_line(page, line)
    ids = Tokenizer.from_json(checkpoint.tokenizer).encode(prepared(line, lowercase=True, only_words=True))
    given = torch.tensor([ids])
    with torch.no_grad():
        states = model.trunk(given, Unroll(steps=4))
        wanted = model(given, torch.ones_like(given, dtype=torch.bool), Unroll(steps=4))[:, 0]
    found = page.run("explorer.answers.map((numbers) => [...numbers])")
    assert relative_error(found, model.head(states)[:, 0].flatten(1).detach()) < SINGLE
    chance, best = wanted[-1].softmax(dim=-1).max(dim=-1)
    assert page.run("document.querySelector('.cell b').textContent") == model.labels[int(best)]
    assert f"{model.labels[int(best)]}, probability {chance:.2f}" in page.run(
        "document.getElementById('now').textContent"
    )
    closed(page)


def type_line(page: Page, line: str) -> None:
    set_value(page, "line", line)
    settled(page)


def tokens_of(page: Page) -> list[int]:
    return page.run("explorer.written.map(({best}) => best.at(-1))")


def test_the_shipped_translator_translates_as_in_pytorch(browser: Browser, tmp_path: Path) -> None:
    checkpoint = load("tatoeba_de_en")
    model: Any = checkpoint.model.eval()
    page = opened(browser, tmp_path, checkpoint)
    line = "Wo ist der Bahnhof?"
    type_line(page, line)
    given = [*Tokenizer.from_json(checkpoint.tokenizer).encode(line), TRANSLATE]
    (text,) = Translator(checkpoint, Decoding(beam=1)).translate([line])
    assert f"After 4 iterations: {text} (" in page.run("document.getElementById('now').textContent")
    for rule in ("", "kl:0.001"):
        set_value(page, "rule", rule, "change")
        settled(page)
        early = parse_stopping(rule) if rule else None
        wanted = generate(model, torch.tensor([given]), eos_id=EOS, max_new_tokens=20, early_exit=early)
        assert tokens_of(page) == wanted.tokens[0, 0, : int(wanted.lengths)].tolist()
        spent = page.run("explorer.written.map(({best}) => best.length)")
        assert sum(spent) / len(spent) == pytest.approx(wanted.iterations)
    asked = {"ids": given, "prefix": len(given), "most": 9, "steps": 4, "rule": "", "withScores": True}
    found = page.run(f"algoformer.write(explorer.pack, {json.dumps(asked)})")
    for one, scores in zip(found, reference(model, given, len(found), 4), strict=True):
        assert relative_error(one["scores"], scores) < SINGLE
    closed(page)


def test_a_trained_language_model_continues_what_is_typed(browser: Browser, tmp_path: Path) -> None:
    checkpoint = language_model()
    page = opened(browser, tmp_path, checkpoint, "the dog")
    for line in ("a dog", "", "the cat  sees"):
        type_line(page, line)
        text = Writer(checkpoint).write(line, Sampling(temperature=0, max_new_tokens=NEW_TOKENS))
        shown = page.run("explorer.tokenizer.decode(explorer.written.map(({best}) => best.at(-1)))")
        room = page.run("explorer.source.most")
        assert text.startswith(shown)
        assert shown == text or len(tokens_of(page)) == room
    assert page.run("document.querySelectorAll('.cell').length") == len(tokens_of(page))
    closed(page)


def test_the_shipped_language_model_continues_as_in_pytorch(browser: Browser, tmp_path: Path) -> None:
    checkpoint = load("books")
    page = opened(browser, tmp_path, checkpoint, "Once upon a time there was")
    assert "After 4 iterations" in page.run("document.getElementById('now').textContent")
    text = Writer(checkpoint).write("Once upon a time there was", Sampling(temperature=0, max_new_tokens=24))
    shown = page.run("explorer.tokenizer.decode(explorer.written.map(({best}) => best.at(-1)))")
    assert shown.startswith(text)
    given = Tokenizer.from_json(checkpoint.tokenizer).encode("Once upon a time there was")
    asked = {"ids": given, "prefix": 0, "most": 9, "steps": 4, "rule": "", "withScores": True}
    found = page.run(f"algoformer.write(explorer.pack, {json.dumps(asked)})")
    model: Any = checkpoint.model.eval()
    for one, scores in zip(found, reference(model, given, len(found), 4), strict=True):
        assert relative_error(one["scores"], scores) < SINGLE
    closed(page)


def test_cells_show_each_iteration_and_the_exit_of_each_token(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, language_model(), "the dog")
    shown = "Array.from(document.querySelectorAll('.cell b'), (cell) => cell.textContent)"
    for iteration in (1, 2, 4):
        set_value(page, "iteration", iteration)
        wanted = page.run(
            f"explorer.written.map(({{best}}) => explorer.tokenizer.show(best[{iteration - 1}]))"
        )
        assert page.run(shown) == wanted
    set_value(page, "rule", "same:1", "change")
    settled(page)
    exits = page.run("Array.from(document.querySelectorAll('.cell .exit'), (cell) => cell.textContent)")
    assert exits == [str(count) for count in page.run("explorer.written.map(({best}) => best.length)")]
    assert "have left the loop" in page.run("document.getElementById('now').textContent")
    page.click(".cell:nth-child(2)")
    settled(page)
    assert page.run("document.getElementById('chosen').textContent") == "Token 2"
    last = page.run("document.querySelector('#answers tr:last-child th').textContent").split()[-1]
    assert last == exits[1], "nothing is said about iterations that the token did not run"
    assert page.run("explorer.inside.message.focus") == page.run("explorer.source.ids.length")
    closed(page)


def test_lines_that_cannot_be_read_are_said_in_one_line(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, load("dbpedia"))
    before = page.run("document.querySelectorAll('.cell').length")
    for line, words in {"?!": "at least one word", "word " * 200: "takes at most 128; shorten it"}.items():
        type_line(page, line)
        problem = page.run("document.getElementById('problem').textContent")
        assert words in problem
        assert page.run("document.querySelectorAll('.cell').length") == before
    type_line(page, "A river.")
    assert page.run("document.getElementById('problem').textContent") == ""
    assert page.run("document.querySelectorAll('.cell').length") == 3
    closed(page)


@pytest.mark.parametrize("width", [375, 1100])
@pytest.mark.parametrize("name", ["dbpedia", "tatoeba_de_en"])
def test_nothing_moves_while_a_page_of_text_starts(
    name: str, width: int, browser: Browser, tmp_path: Path
) -> None:
    page = opened(browser, tmp_path, load(name), width=width)
    assert page.run(SHIFTS) < 0.003
    closed(page)


def test_every_control_of_a_page_of_text_has_a_name(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, language_model(), "the dog")
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "slider", "combobox", "textbox", "image", "img", "progressbar"}
    controls = [node for node in nodes if node.get("role", {}).get("value") in roles and not node["ignored"]]
    assert {node["role"]["value"] for node in controls} >= {"button", "slider", "combobox", "textbox"}
    assert all(node["name"]["value"].strip() for node in controls)
    page.run("document.querySelector('#line').focus()")
    reached = set()
    for _ in range(8):
        page.key("Tab")
        reached.add(page.run("document.activeElement.id || document.activeElement.className.split(' ')[0]"))
    assert {"new", "rule", "play", "iteration", "depth", "cell"} <= reached
    closed(page)


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_of_text_fits_a_phone_and_runs_no_text(dark: bool, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_text(language_model(), lines=(EVIL[:9],), stops=True), encoding="utf-8")
    page = browser.page(file, width=375, dark=dark)
    settled(page)
    type_line(page, EVIL[-16:])
    assert page.run("document.documentElement.scrollWidth") == 375
    assert page.run("window.broken") is None
    assert page.run("document.querySelector('h1').textContent") == EVIL
    closed(page)


def test_labels_are_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(0)
    program = programs.looped(heads=2, steps=2, causal=False)
    model = TextClassifier(
        program, labels=(EVIL, EVIL + "2"), vocabulary=len(tokenizer()), context=16, width=8
    )
    file = tmp_path / "page.html"
    file.write_text(page_text(small(model), labels=model.labels), encoding="utf-8")
    page = browser.page(file)
    settled(page)
    assert page.run("window.broken") is None
    assert page.run("document.querySelector('.cell b').textContent").startswith(EVIL)
    closed(page)


@pytest.mark.parametrize("kind", ["language model", "classifier"])
def test_a_text_model_without_a_loop_runs_once(kind: str, browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": len(tokenizer()), "context": 24, "width": 8}
    model: Any = TokenModel(programs.standard(2, heads=2), **sizes)
    if kind == "classifier":
        model = TextClassifier(programs.standard(2, heads=2, causal=False), labels=("a", "b"), **sizes)
    page = opened(browser, tmp_path, small(model), "the dog")
    assert page.run("document.getElementById('time').hidden")
    assert page.run("explorer.answers.length") == 1
    said = page.run("document.getElementById('conclusion').textContent")
    assert "in one pass" in said or "token by token" in said
    closed(page)


def test_a_tokenizer_of_another_model_is_refused() -> None:
    model = TokenModel(programs.looped(heads=2), vocabulary=len(tokenizer()) + 1, context=24, width=8)
    with pytest.raises(ValueError, match=rf"the tokenizer has {len(tokenizer())} tokens, the model"):
        page_of_text(small(model), "a model", ["the dog"])
