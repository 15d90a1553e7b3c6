import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from algoformer import programs
from algoformer.report.explorer import Exploration, check_program, explorer_page, known_words, pack_model
from algoformer.report.explorer import pack as pack_module
from report.explorer.models import random_model
from scripts.browser import find_browser


def test_weights_come_back_bit_for_bit() -> None:
    model = random_model(programs.looped(heads=2))
    packed = pack_model(model)
    numbers = np.frombuffer(base64.b64decode(packed["data"]), dtype="<f4")
    for name, value in model.state_dict().items():
        start, shape = packed["tensors"][name]
        found = numbers[start : start + value.numel()].reshape(shape)
        assert np.array_equal(found, value.numpy())


def test_weights_are_stored_in_the_smallest_precision_that_is_exact() -> None:
    model = random_model(programs.looped(heads=2))
    assert pack_model(model)["stored"] == "float32"
    assert pack_model(model.half().float())["stored"] == "float16"
    built = random_model(programs.looped(heads=2)).double()
    assert pack_model(built)["stored"] == "float32"
    assert pack_model(built)["dtype"] == "float64"
    with torch.no_grad():
        built.read_out.bias.fill_(1 / 3)
    assert pack_model(built)["stored"] == "float64"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ([{"part": "memory"}], "the part 'memory'; it knows layers, loop, twostates, parallel"),
        ([{"part": "loop", "body": [{"part": "layers", "norm": "batch"}]}], "norm='batch' of layers"),
        ([{"part": "loop", "inject": "cross", "body": []}], "inject='cross' of loop"),
        ([{"part": "parallel", "branches": [[{"part": "layers", "window": 3}]]}], "does not know window"),
        ([{"part": "layers", "norm_at": "in+between"}], "norm_at='in.between'"),
    ],
)
def test_a_program_that_the_page_cannot_run_is_refused_before_a_page_is_made(
    program: list[dict[str, object]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        check_program(program, known_words())


def test_an_unknown_field_that_is_off_changes_nothing() -> None:
    check_program([{"part": "layers", "count": 1, "window": None, "sparse": False}], known_words())


def test_a_model_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "LARGEST_PAGE", 4000)
    with pytest.raises(ValueError, match=r"more than 0; in float32 a page takes at most .* evaluate"):
        pack_model(random_model(programs.looped(heads=2)))


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    model = random_model(programs.looped(heads=2))
    with pytest.raises(ValueError, match="finite numbers only"):
        explorer_page(model, Exploration(title="t", rivals={"alpha": float("nan")}))


def test_a_page_of_stored_prompts_needs_some() -> None:
    with pytest.raises(ValueError, match="at least one prompt"):
        Exploration(title="t", pairs=False)


def test_the_page_loads_nothing_and_holds_all_its_scripts() -> None:
    page = explorer_page(random_model(programs.looped(heads=2)), Exploration(title="t"))
    assert not re.search(r"https?://|//[a-z]+\.|@import|src=", page)
    assert "default-src 'none'" in page
    assert page.count("<script") == page.count("</script>") == 4
    assert not re.search(r"\{(title|style|engine|scripts|model|lead)\}", page)
    data = re.search(r'id="model">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["format"] == pack_module.FORMAT


def test_the_page_and_its_weights_have_one_format() -> None:
    script = (Path(pack_module.__file__).parent / "page" / "run.js").read_text()
    assert f"const FORMAT = {pack_module.FORMAT};" in script


def test_another_browser_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALGOFORMER_BROWSER", "/somewhere/chrome")
    assert find_browser() == "/somewhere/chrome"
    monkeypatch.delenv("ALGOFORMER_BROWSER")
    monkeypatch.setenv("PATH", "")
    assert find_browser() is None
