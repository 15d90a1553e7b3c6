"""Text models in the browser have the tokens, scores and exits of PyTorch."""

import json
from typing import Any

import pytest
import torch

from algoformer.cli.explore_text import pack_text
from algoformer.language import Tokenizer, TokenModel
from algoformer.language.decode import CachedDecoder
from algoformer.language.lines import prepared
from algoformer.language.search import generate
from algoformer.language.tokenizer import EOS
from algoformer.model import Layers, Loop, Program
from algoformer.model.stopping import parse_stopping
from algoformer.shipped import load
from language.small_models import PROGRAMS, token_model
from report.explorer.models import relative_error
from report.explorer.text_models import language_model, page_text, reference, tokenizer
from scripts.browser import Browser, Page

SINGLE = 1e-4
LINES = (
    "Ich habe gestern einen Brief bekommen.",
    "don't  we'll\tTHEY'RE 3.14 and 1½ \u00a0x",
    " leading, trailing \n",
    "Zähne Za\u0308hne ﬁ Ⅻ 東京 नमस्ते 👩\u200d👩 _under_ İ Σίσυφος",
    "\ufeffmark \u0085 next \x1c four",
)


@pytest.fixture(scope="module")
def bare(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page whose functions are called with other models than its own."""
    file = tmp_path_factory.mktemp("text") / "page.html"
    file.write_text(page_text(language_model()), encoding="utf-8")
    return browser.page(file)


@pytest.mark.parametrize("name", ["dbpedia", "tatoeba_de_en", "books", ""])
def test_tokens_are_those_of_the_library(name: str, bare: Page) -> None:
    text = load(name).tokenizer if name else tokenizer().to_json()
    library = Tokenizer.from_json(text)
    lines = [*LINES, "the dog sees", "", "x" * 50]
    found = bare.run(
        f"((tokenizer) => {json.dumps(lines)}.map((line) => [tokenizer.encode(line), "
        f"tokenizer.decode(tokenizer.encode(line)), tokenizer.encode(line).map((id) => tokenizer.show(id))]))"
        f"(new algoformer.Tokenizer({text}))"
    )
    for line, (ids, back, shown) in zip(lines, found, strict=True):
        assert ids == library.encode(line)
        assert back == (f" {line}" if line else "")
        assert len(shown) == len(ids)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("only_words", [False, True])
def test_lines_are_spelled_as_in_python(lowercase: bool, only_words: bool, bare: Page) -> None:
    spelling = {"lowercase": lowercase, "only_words": only_words}
    how = json.dumps(spelling | {"plain": True})
    for line in LINES:
        assert bare.run(f"algoformer.spell({json.dumps(line)}, {how})") == prepared(line, **spelling)
    assert bare.run("algoformer.spell('  as it is', {plain: false, lowercase: true})") == "  as it is"


def test_another_kind_of_tokenizer_is_refused_in_one_line(bare: Page) -> None:
    with pytest.raises(
        RuntimeError, match='does not know tokenizers of the kind "unigram", format 2; make it'
    ):
        bare.run("new algoformer.Tokenizer({format: 2, kind: 'unigram', specials: [], merges: []})")


def written(page: Page, model: TokenModel, given: list[int], most: int, steps: int, rule: str = "") -> Any:
    prefix = len(given) if model.prefix_lm else 0
    asked = {"ids": given, "prefix": prefix, "most": most, "steps": steps, "rule": rule, "withScores": True}
    return page.run(f"algoformer.write({json.dumps(pack_text(model))}, {json.dumps(asked)})")


ACT = Program(Loop(Layers(1, heads=2), steps=4, halt="act"), Layers(1, heads=2))
LOOPS = ("looped", "algoformer", "algoformer_gate", "nested", "two_loops", "step_signal", "plain_branches")


@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_scores_after_every_iteration_are_those_of_the_cached_decoder(
    name: str, prefix_lm: bool, bare: Page
) -> None:
    model = token_model(PROGRAMS[name], prefix_lm=prefix_lm, tied=prefix_lm)
    given = [4, 7, 5, 9]
    found = written(bare, model, given, 5, 3)
    wanted = reference(model, given, len(found), 3)
    for one, scores in zip(found, wanted, strict=True):
        assert relative_error(one["scores"], scores) < SINGLE
        assert one["best"] == scores.argmax(dim=-1).tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_writes_the_tokens_of_pytorch(name: str, bare: Page) -> None:
    model = token_model(PROGRAMS[name])
    given = [4, 7, 5, 9]
    found = written(bare, model, given, 6, 4)
    wanted = generate(model, torch.tensor([given]), eos_id=EOS, max_new_tokens=6, steps=4)
    assert [one["best"][-1] for one in found] == wanted.tokens[0, 0, : int(wanted.lengths)].tolist()


@pytest.mark.parametrize("rule", ["same:1", "same:2", "shift:0.02", "kl:0.001", "state:0.1"])
@pytest.mark.parametrize("name", ["looped", "algoformer", "nested", "act"])
def test_tokens_leave_the_loop_where_they_do_in_pytorch(name: str, rule: str, bare: Page) -> None:
    model = token_model(ACT if name == "act" else PROGRAMS[name])
    given, steps = [4, 7, 5, 9], 9
    found = written(bare, model, given, 8, steps, rule)
    decoder = CachedDecoder(model, batch=1, length=20, steps=steps, early_exit=parse_stopping(rule))
    scores = decoder.prefill(torch.tensor([given]))
    assert len(found[0]["best"]) == steps, "what is given is read with all iterations"
    exits = []
    for one in found[:-1]:
        scores = decoder.step(torch.tensor([one["best"][-1]]))
        exits.append((int(decoder.iterations), scores[0]))
    for one, (iterations, wanted) in zip(found[1:], exits, strict=True):
        assert len(one["best"]) == iterations
        assert relative_error([one["scores"][-1]], wanted[None]) < SINGLE
    assert min(iterations for iterations, _ in exits) < steps, "some token leaves early"


def test_a_rule_that_the_page_does_not_know_is_refused(bare: Page) -> None:
    with pytest.raises(RuntimeError, match=r"stopping rule gate:0\.9; it knows same, shift, kl, state"):
        written(bare, token_model(PROGRAMS["looped"]), [4], 3, 2, "gate:0.9")
