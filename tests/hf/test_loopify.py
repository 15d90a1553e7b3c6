"""Looped decoders of `transformers` compute what their unrolled copies compute."""

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

from algoformer.hf import loopify, set_steps
from tests.hf.families import GROUPED, OPTIONS, SHAPE, tiny, transformers

SPLIT = {"prelude": 1, "core": 2, "coda": 1}
UNROLLED = [0, *[1, 2] * 3, 3]
FAMILIES = pytest.mark.parametrize("family", sorted(set(OPTIONS) - {"hrm_text"}))


def prompts() -> dict[str, Tensor]:
    """A batch of two prompts, the first one shorter and padded on the left."""
    ids = torch.randint(3, 64, (2, 10), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


@torch.no_grad()
def logits(model: Any) -> Tensor:
    return model(**prompts()).logits


def decoded(model: Any, **options: Any) -> Tensor:
    return model.generate(**prompts(), max_new_tokens=6, do_sample=False, eos_token_id=None, **options)


def unrolled(family: str, model: Any) -> Any:
    """A plain model of eight layers that repeats the weights of a plain model of four."""
    options = {}
    for name in ("layer_types", "no_rope_layers"):
        if getattr(model.config, name, None):
            options[name] = [getattr(model.config, name)[index] for index in UNROLLED]
    deep = tiny(family, layers=len(UNROLLED), seed=7, **options)
    weights = {}
    for key, weight in model.state_dict().items():
        numbered = re.fullmatch(r"(.*\.(?:layers|h)\.)(\d+)(\..*)", key)
        if numbered is None:
            weights[key] = weight
            continue
        before, index, after = numbered.groups()
        for place, stored in enumerate(UNROLLED):
            if stored == int(index):
                weights[f"{before}{place}{after}"] = weight
    deep.load_state_dict(weights)
    return deep


@FAMILIES
def test_one_step_is_the_original_bit_for_bit(family: str) -> None:
    model = tiny(family)
    looped = loopify(copy.deepcopy(model), **SPLIT, steps=1)
    assert torch.equal(logits(looped), logits(model))
    assert torch.equal(decoded(looped), decoded(model))


@FAMILIES
def test_three_steps_are_the_model_with_its_core_written_out_three_times(family: str) -> None:
    model = tiny(family)
    deep = unrolled(family, model)
    looped = loopify(model, **SPLIT, steps=3)
    assert torch.equal(logits(looped), logits(deep))
    assert torch.equal(decoded(looped), decoded(deep))
    assert torch.equal(decoded(looped), decoded(looped, use_cache=False))


@FAMILIES
def test_a_saved_loop_opens_in_plain_transformers_as_the_original(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    looped = loopify(copy.deepcopy(model), **SPLIT, steps=3)
    assert list(looped.state_dict()) == list(model.state_dict())
    written = {}
    for name, one in {"plain": model, "looped": looped}.items():
        one.save_pretrained(tmp_path / name)
        written[name] = json.loads((tmp_path / name / "config.json").read_text())
    assert written["looped"] == {**written["plain"], "loop": {**SPLIT, "steps": 3}}
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "looped").eval()
    assert torch.equal(logits(plain), logits(model))
    assert torch.equal(logits(loopify(plain, **plain.config.loop)), logits(looped))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_stock_caches_and_beams_give_the_tokens_of_decoding_without_a_cache(family: str) -> None:
    looped = loopify(tiny(family), **SPLIT, steps=3)
    greedy = decoded(looped, use_cache=False)
    assert torch.equal(decoded(looped, cache_implementation="static"), greedy)
    assert torch.equal(decoded(looped, past_key_values=transformers.DynamicCache()), greedy)
    assert torch.equal(decoded(looped, num_beams=3), decoded(looped, num_beams=3, use_cache=False))


def test_a_cache_has_one_layer_for_each_run_of_a_layer() -> None:
    looped = loopify(tiny("llama"), **SPLIT, steps=3)
    cache = looped(**prompts()).past_key_values
    assert [layer.keys.shape for layer in cache.layers] == [(2, 2, 10, 8)] * 8
    assert len(looped(**prompts(), output_hidden_states=True).hidden_states) == 8 + 1


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_another_number_of_steps_is_another_loop(family: str) -> None:
    model = tiny(family)
    looped = loopify(copy.deepcopy(model), **SPLIT, steps=2)
    for steps in (4, 1, 3):
        set_steps(looped, steps)
        expected = loopify(copy.deepcopy(model), **SPLIT, steps=steps)
        assert looped.config.to_dict() == expected.config.to_dict()
        assert torch.equal(decoded(looped), decoded(expected))


def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_copies() -> None:
    model = tiny("llama").double()
    deep, looped = unrolled("llama", model).double(), loopify(model, **SPLIT, steps=3)
    for one in (deep, looped):
        one(**prompts(), labels=prompts()["input_ids"]).loss.backward()
    for stored in range(4):
        places = [place for place, index in enumerate(UNROLLED) if index == stored]
        copies = [deep.model.layers[place].mlp.up_proj.weight.grad for place in places]
        shared = looped.get_parameter(f"model.layers.{stored}.mlp.up_proj.weight").grad
        torch.testing.assert_close(shared, torch.stack(copies).sum(0), rtol=0, atol=1e-12)


def test_gradient_checkpointing_changes_no_gradient() -> None:
    looped = loopify(tiny("llama").double(), **SPLIT, steps=3).train()
    found = []
    for checkpointed in (False, True):
        looped.zero_grad()
        if checkpointed:
            # the name of releases before 5.23 is deprecated since
            older = getattr(looped, "gradient_checkpointing_enable", None)
            getattr(looped, "activation_checkpointing_enable", older)()
        looped(**prompts(), labels=prompts()["input_ids"], use_cache=False).loss.backward()
        found.append([weight.grad.clone() for weight in looped.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=0, atol=1e-12)


def test_a_looped_model_survives_pickle_and_deepcopy() -> None:
    looped = loopify(tiny("gemma2"), **SPLIT, steps=3)
    for twin in (pickle.loads(pickle.dumps(looped)), copy.deepcopy(looped)):
        assert torch.equal(logits(twin), logits(looped))
        assert twin.config.to_dict() == looped.config.to_dict()
        set_steps(twin, 1)
        assert len(twin.config.layer_types) == 4


def test_layers_keep_their_own_number_after_a_pass_and_after_an_error() -> None:
    looped = loopify(tiny("llama"), **SPLIT, steps=3)
    logits(looped)
    with pytest.raises(Exception, match="must match"):
        looped.model.layers[6](torch.zeros(1, 3, 31), position_embeddings=(torch.ones(1), torch.ones(1)))
    kept = looped.model.layers
    assert [kept.stored(index).self_attn.layer_idx for index in range(4)] == [0, 1, 2, 3]


def test_a_cache_of_another_depth_is_refused() -> None:
    looped = loopify(tiny("llama"), **SPLIT, steps=3)
    cache = looped(**prompts()).past_key_values
    set_steps(looped, 2)
    with pytest.raises(ValueError, match=r"filled by 8 layers and the model now runs 6; start from an empty"):
        looped(torch.ones(2, 1, dtype=torch.long), past_key_values=cache)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"core": 3}, r"prelude \+ core \+ coda must be the model's 4 layers, got 1 \+ 3 \+ 1 = 5"),
        ({"prelude": 3, "core": 0}, "core must be at least 1, got 0"),
        ({"prelude": -1, "core": 4}, "prelude must be at least 0, got -1"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
def test_a_split_that_does_not_fit_is_one_clear_line(change: dict[str, int], message: str) -> None:
    model = tiny("llama")
    with pytest.raises(ValueError, match=message):
        loopify(model, **{**SPLIT, "steps": 3, **change})
    assert len(model.model.layers) == 4


@pytest.mark.parametrize("per_layer", [8, 0])
def test_a_decoder_whose_layers_read_inputs_of_their_own_is_refused(per_layer: int) -> None:
    if not hasattr(transformers, "Gemma4ForCausalLM"):
        pytest.skip("this version of transformers has no Gemma 4")
    config = transformers.Gemma4TextConfig(
        **GROUPED,
        vocab_size_per_layer_input=64,
        num_hidden_layers=4,
        head_dim=8,
        global_head_dim=8,
        hidden_size_per_layer_input=per_layer,
        num_kv_shared_layers=0,
    )
    model = transformers.Gemma4ForCausalLM(config)
    if not per_layer and not hasattr(model.model, "first_kv_shared_layer_idx"):
        pytest.skip("this version of transformers does not fix keys and values by the index of a layer")
    with pytest.raises(ValueError, match="the decoder of Gemma4ForCausalLM fixes what a layer reads"):
        loopify(model, **SPLIT, steps=2)


def test_models_that_cannot_be_looped_are_refused_by_name() -> None:
    mamba = transformers.MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, state_size=4)
    t5 = transformers.T5Config(vocab_size=64, d_model=16, d_kv=4, d_ff=16, num_layers=2, num_heads=4)
    bert = transformers.BertConfig(**SHAPE, num_hidden_layers=4)
    for model, message in (
        (transformers.MambaForCausalLM(mamba), "MambaForCausalLM has layers with a recurrent state"),
        (
            transformers.T5ForConditionalGeneration(t5),
            "T5ForConditionalGeneration has an encoder and a decoder",
        ),
        (transformers.BertModel(bert), "does not know the family of BertModel"),
        (torch.nn.Linear(2, 2), "needs a model of transformers, got Linear"),
        (loopify(tiny("llama"), **SPLIT, steps=2), "LlamaForCausalLM is looped already; call set_steps"),
    ):
        with pytest.raises(ValueError, match=message):
            loopify(model, **SPLIT, steps=2)
    with pytest.raises(ValueError, match="LlamaForCausalLM is not looped; call loopify"):
        set_steps(tiny("llama"), 2)
