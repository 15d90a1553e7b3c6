"""Programs in formats of `transformers` itself, which servers run without this library."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from algoformer.hf import from_hf, to_hf
from algoformer.language.token_model import TokenModel
from algoformer.model import Layers, Loop, Parallel, Program, TwoStates, presets
from algoformer.model.formats import FORMATS, MODERN, SHARED, servable
from tests.hf.test_importers import TOKENS, exact

LLAMA: dict[str, Any] = {
    **MODERN,
    "heads": 4,
    "kv_heads": 2,
    "hidden": 24,
    "norm_eps": 1e-6,
    "rope_base": 500,
}
LOW = {"heads": 4, "head_width": 8, "hidden": 24}
UNLOOPED = {
    name: Program(Layers(3, **{**LLAMA, **words})) for name, words in FORMATS.items() if name != "hrm_text"
}
PROGRAMS = {
    **UNLOOPED,
    "gpt2": presets.standard(3, heads=4, hidden=24),
    "hrm_text": presets.hrm_text(2, steps=2, low_steps=3, **LOW),
    "one high cycle": presets.hrm_text(1, steps=1, low_steps=4, **LOW),
    "one step": Program(
        Layers(1, **LLAMA, final_norm=False, name="prelude"),
        Loop(Layers(2, **LLAMA, final_norm=False), steps=1, inject="none"),
        Layers(1, **LLAMA, name="coda"),
    ),
}
FORMAT_OF = {name: name for name in FORMATS} | {"one high cycle": "hrm_text", "one step": "llama"}
EVERY = pytest.mark.parametrize("name", PROGRAMS)


def token_model(program: Program, *, tied: bool = True) -> TokenModel:
    torch.manual_seed(0)
    model = TokenModel(program, vocabulary=64, context=32, width=32, tied=tied).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@EVERY
@pytest.mark.parametrize("tied", [True, False])
def test_an_exported_model_gives_the_logits_and_tokens_of_the_program(name: str, tied: bool) -> None:
    model = token_model(PROGRAMS[name], tied=tied)
    plain = to_hf(model, format=FORMAT_OF[name])
    assert plain.config.model_type == FORMAT_OF[name]
    torch.testing.assert_close(plain(TOKENS).logits, model(TOKENS)[0], rtol=0, atol=1e-5)
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    assert torch.equal(plain.generate(TOKENS, **options), to_hf(model).generate(TOKENS, **options))


@EVERY
def test_in_float64_the_difference_is_rounding(name: str) -> None:
    model = token_model(PROGRAMS[name]).double()
    plain = exact(to_hf(model, format=FORMAT_OF[name]))
    torch.testing.assert_close(plain(TOKENS).logits, model(TOKENS)[0], rtol=0, atol=1e-10)


@EVERY
def test_the_exported_model_is_imported_as_the_same_weights(name: str) -> None:
    model = token_model(PROGRAMS[name])
    back = from_hf(to_hf(model, format=FORMAT_OF[name]))
    for one, other in zip(model.parameters(), back.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(back(TOKENS), model(TOKENS))
    assert servable(back.program).format == FORMAT_OF[name]


def test_a_saved_export_is_opened_by_transformers_alone(tmp_path: Path) -> None:
    model = token_model(PROGRAMS["hrm_text"])
    to_hf(model, format="hrm_text").save_pretrained(tmp_path)
    code = f"""
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({str(tmp_path)!r})
assert not any(name.split(".")[0] == "algoformer" for name in sys.modules)
print(type(model).__name__, model(torch.tensor({TOKENS[:1].tolist()})).logits[0, -1].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    name, _, logits = done.stdout.partition(" ")
    assert name == "HrmTextForCausalLM"
    found = torch.tensor(json.loads(logits))
    torch.testing.assert_close(found, model(TOKENS[:1])[0, 0, -1], rtol=0, atol=1e-5)


def test_the_export_is_a_copy_and_receives_the_gradients_of_the_program() -> None:
    model = token_model(PROGRAMS["hrm_text"])
    plain = to_hf(model, format="hrm_text").train()
    plain(TOKENS).logits.square().mean().backward()
    model(TOKENS)[0].square().mean().backward()
    ours, theirs = model.trunk.embedding.weight, plain.get_input_embeddings().weight
    torch.testing.assert_close(theirs.grad, ours.grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        ours.zero_()
    assert theirs.any()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (presets.ouro(2, heads=4), "a loop of 4 steps has no format; only TwoStates.* has one, hrm_text"),
        (Program(Parallel(Layers(1), Layers(2))), "parallel branches have no format"),
        (Program(Layers(2, **{**LLAMA, "norm": "layer"})), "the nearest format, llama, has norm='rms'$"),
        (Program(Layers(2, **LLAMA), Layers(1, **LLAMA)), "one final norm, behind the last layer"),
        (Program(Layers(1, final_norm=False), Layers(1)), "add positions before the first layer only"),
        (
            Program(Layers(1, **LLAMA, final_norm=False), Layers(1, **{**LLAMA, "rope_base": 9})),
            "all layers of a format have one rope_base",
        ),
        (presets.hrm(2), "the loop of hrm_text has inject='none'"),
        (presets.hrm_text(2, norm="rms"), "the nearest format, hrm_text, has norm='plain'$"),
        (presets.hrm_text(2, final_norm=False), "two stacks of equally many layers, each with a final norm"),
        (presets.standard(2, activation="relu"), "the nearest format, gpt2, has activation='gelu'$"),
        (
            presets.looped(steps=1, inject="gate"),
            "a loop of 1 step has no format with inject='gate', start='zer",
        ),
        (
            Program(Loop(Layers(1), steps=1, halt="gate")),
            "a loop of 1 step has no format with halt='gate'; without it",
        ),
        (
            Program(Loop(Layers(1), steps=1, halt="act")),
            "a loop of 1 step has no format with halt='act'; without it",
        ),
        (
            Program(Loop(Layers(1), steps=1, damp=0.5)),
            "a loop of 1 step has no format with damp=0.5; without it",
        ),
        (
            Program(TwoStates((Loop(Layers(1), steps=2, damp=0.5), Layers(1)), steps=2, inject="none")),
            "the low network of hrm_text has no damp, got damp=0.5",
        ),
    ],
)
def test_a_program_without_a_format_is_told_why(program: Program, reason: str) -> None:
    found = servable(program)
    assert found.format is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)


@EVERY
@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "word_dropout"])
def test_a_dropout_rate_is_that_of_the_exported_model_or_refused(name: str, rate: str) -> None:
    model, format = token_model(PROGRAMS[name]), FORMAT_OF[name]
    model.trunk.set_dropout(**{rate: 0.3})
    if rate == "attention_dropout" or (rate == "dropout" and format == "gpt2"):
        plain = to_hf(model, format=format).train()
        rates = {module.p for module in plain.modules() if isinstance(module, torch.nn.Dropout)}
        rates |= {getattr(module, "attention_dropout", 0.0) for module in plain.modules()}
        assert 0.3 in rates
        assert not torch.equal(plain(TOKENS).logits, plain(TOKENS).logits)  # drawn anew
        torch.testing.assert_close(plain.eval()(TOKENS).logits, model(TOKENS)[0], rtol=0, atol=1e-5)
    else:
        with pytest.raises(
            ValueError, match=rf"'{format}' holds no {rate}, got 0.3; .*trunk.set_dropout\(\)"
        ):
            to_hf(model, format=format)


def test_the_dropout_that_a_format_holds_stays_in_the_remedy() -> None:
    model = token_model(PROGRAMS["llama"])
    model.trunk.set_dropout(dropout=0.1, attention_dropout=0.2)
    with pytest.raises(
        ValueError, match=r"holds no dropout, got 0.1; .*set_dropout\(attention_dropout=0.2\)"
    ):
        to_hf(model, format="llama")
    model.trunk.set_dropout(attention_dropout=0.2)
    assert to_hf(model, format="llama").config.attention_dropout == 0.2


def test_every_word_of_layers_is_fixed_by_a_format_or_stored_by_it() -> None:
    assert {field.name for field in fields(Layers)} == {*MODERN, *SHARED, "count", "final_norm", "name"}


def test_an_export_that_would_not_be_exact_is_refused_in_one_line() -> None:
    model = token_model(presets.ouro(1, heads=4, steps=2))
    with pytest.raises(ValueError, match="cannot be exported as 'llama': a loop of 2 steps has no format"):
        to_hf(model, format="llama")
    with pytest.raises(ValueError, match="cannot be exported as 'llama': it is one of the format 'gpt2'"):
        to_hf(token_model(PROGRAMS["gpt2"]), format="llama")
    with pytest.raises(ValueError, match=r"unknown format 'lama' \(did you mean 'llama'\?\)"):
        to_hf(token_model(PROGRAMS["gpt2"]), format="lama")
    swapped = token_model(PROGRAMS["llama"])
    swapped.body.get_submodule("parts.0.layers.1").feedforward = torch.nn.Identity()
    with pytest.raises(
        ValueError, match=r"as 'llama': .*feedforward is a Identity, where the program builds"
    ):
        to_hf(swapped, format="llama")
    odd = Program(replace(PROGRAMS["llama"].parts[0], heads=5, kv_heads=5, head_width=8))  # type: ignore[type-var]
    with pytest.raises(ValueError, match="width that the heads divide, got width=32 and heads=5"):
        to_hf(token_model(odd), format="llama")
