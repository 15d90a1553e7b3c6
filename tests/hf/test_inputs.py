"""Masks, caches and options of a call: understood as `transformers` does, or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from algoformer.hf import AlgoformerForCausalLM, from_hf, to_hf
from algoformer.language.classifier import TextClassifier
from algoformer.model import presets
from tests.hf.families import transformers
from tests.hf.test_model import PROGRAMS, prompts, token_model


def looped(**options: Any) -> AlgoformerForCausalLM:
    model: AlgoformerForCausalLM = to_hf(token_model(PROGRAMS["algoformer"], **options))
    return model


def classifier() -> Any:
    program = presets.algoformer(heads=2, steps=3, causal=False)
    model = TextClassifier(program, labels=("one", "other"), vocabulary=32, context=40, width=16)
    return to_hf(model.eval())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@torch.no_grad()
def test_numbers_of_a_mask_are_added_to_the_scores_as_gpt2_does(dtype: torch.dtype) -> None:
    ours = token_model(PROGRAMS["plain"]).to(dtype)
    tokens = prompts()["input_ids"]
    nearer = -(torch.arange(8)[:, None] - torch.arange(8)).abs() / 2
    least = torch.finfo(torch.float32).min
    mask = torch.where(torch.ones(8, 8).tril() > 0, nearer, least)[None, None].expand(3, 1, -1, -1)
    expected = to_hf(ours, format="gpt2")(tokens, attention_mask=mask.to(dtype)).logits
    found = to_hf(ours)(tokens, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert (found - to_hf(ours)(tokens).logits).abs().max() > 1e-3


@torch.no_grad()
def test_a_row_of_a_mask_in_half_precision_may_see_nothing() -> None:
    mask = torch.full((3, 1, 8, 8), torch.finfo(torch.float32).min).triu(1)
    mask[0, :, :, :3] = torch.finfo(torch.float32).min  # padding on the left
    tokens, half = prompts()["input_ids"], looped().to(torch.bfloat16)
    found = half(tokens, attention_mask=mask).logits
    assert found.isfinite().all()
    alone = half(tokens[:1, 3:], position_ids=torch.arange(3, 8)[None]).logits
    torch.testing.assert_close(found[:1, 3:], alone, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(1, 1, 8, 8, dtype=torch.long).tril(), r"got torch.int64; use attention_mask.bool\(\)"),
        (torch.ones(3, 8, 8), r"2 or 4 dimensions, got shape \(3, 8, 8\)"),
        (torch.ones(3, 5), "cover all 8 tokens, those in the KV cache included, got 5"),
        (torch.ones(3, 9), "cover all 8 tokens, those in the KV cache included, got 9"),
    ],
    ids=["whole numbers", "three dimensions", "short", "long"],
)
def test_a_mask_with_two_meanings_is_refused_in_one_line(mask: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        looped()(prompts()["input_ids"], attention_mask=mask)


def test_a_mask_for_new_tokens_alone_is_refused() -> None:
    model = looped()
    cache = model(**prompts()).past_key_values
    with pytest.raises(ValueError, match="cover all 9 tokens, those in the KV cache included, got 1"):
        model(torch.ones(3, 1).long(), attention_mask=torch.ones(3, 1), past_key_values=cache)


@pytest.mark.parametrize("steps", [1, 7])
def test_a_cache_that_was_made_for_another_depth_is_refused(steps: int) -> None:
    model = looped()
    cache = transformers.DynamicCache(config=model.config)
    with pytest.raises(ValueError, match=rf"made for 5 layers and the model now runs {steps + 2}; start"):
        model(**prompts(), past_key_values=cache, steps=steps)


def test_gradient_checkpointing_fills_no_cache() -> None:
    model = looped().train()
    model.gradient_checkpointing = True
    for options in ({"use_cache": True}, {"past_key_values": transformers.DynamicCache()}):
        with pytest.raises(ValueError, match="cannot fill a KV cache; leave out past_key_values"):
            model(**prompts(), **options)
    model(**prompts(), labels=prompts()["input_ids"]).loss.backward()
    options = {**prompts(), "max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    assert torch.equal(model.generate(**options), model.generate(**options, use_cache=False))


def test_embeddings_and_positions_are_not_left_out_without_a_word() -> None:
    tokens, positions = prompts()["input_ids"], torch.arange(8)[None]
    for model in (looped(), classifier()):
        with pytest.raises(ValueError, match="inputs_embeds is not supported; leave it out"):
            model(tokens, inputs_embeds=torch.zeros(3, 8, 16))
        with pytest.raises(ValueError, match="input_ids must be given"):
            model()
    with pytest.raises(ValueError, match="position_ids is not supported; leave it out"):
        classifier()(tokens, position_ids=positions)


@torch.no_grad()
@pytest.mark.parametrize("name", ["plain", "algoformer"])
def test_documents_packed_in_a_row_do_not_see_each_other(name: str) -> None:
    model = to_hf(token_model(PROGRAMS[name]).train())
    tokens, positions = prompts()["input_ids"], torch.tensor([[0, 1, 2, 0, 0, 1, 2, 3]])
    found = model(tokens, position_ids=positions).logits
    each = [model(tokens[:, first:last]).logits for first, last in ((0, 3), (3, 4), (4, 8))]
    torch.testing.assert_close(found, torch.cat(each, dim=1), rtol=0, atol=1e-5)
    one = model(tokens, position_ids=torch.arange(2, 10)[None]).logits
    seen = model(tokens, position_ids=torch.arange(2, 10)[None], attention_mask=torch.ones(3, 8)).logits
    assert torch.equal(one, seen)


def test_a_plain_decoder_reads_packed_documents_alike() -> None:
    ours, positions = token_model(PROGRAMS["plain"]), torch.tensor([[0, 1, 2, 0, 0, 1, 2, 3]])
    options = {"input_ids": prompts()["input_ids"], "position_ids": positions, "use_cache": False}
    expected = to_hf(ours, format="gpt2")(**options).logits
    torch.testing.assert_close(to_hf(ours)(**options).logits, expected, rtol=0, atol=1e-5)


def test_the_trainer_smooths_labels_of_the_next_token(tmp_path: Path) -> None:
    model, tokens = looped(), prompts()["input_ids"]
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path), label_smoothing_factor=0.2, report_to=[], use_cpu=True
    )
    trainer = transformers.Trainer(model=model, args=settings)
    found = trainer.compute_loss(model, {"input_ids": tokens, "labels": tokens.clone()})
    scores = model(tokens).logits[:, :-1].flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(scores, tokens[:, 1:].flatten(), label_smoothing=0.2)
    torch.testing.assert_close(found, expected)


def test_a_draft_model_changes_no_token_and_layers_cannot_be_left_out() -> None:
    model, draft = looped(), to_hf(token_model(presets.looped(heads=2, steps=2)))
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    tokens = prompts()["input_ids"][1:2]
    for steps in (None, 5):
        plain = model.generate(tokens, **options, steps=steps)
        assert torch.equal(model.generate(tokens, **options, steps=steps, assistant_model=draft), plain)
        assert torch.equal(model.generate(tokens, **options, steps=steps, prompt_lookup_num_tokens=3), plain)
    with pytest.raises(ValueError, match="give assistant_model"):
        model.generate(tokens, **options, assistant_early_exit=2)


def test_the_number_of_layers_that_run_cannot_be_set(tmp_path: Path) -> None:
    looped().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="follows from the program, got 3; give steps, or another program"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, num_hidden_layers=3)


def test_a_depth_that_was_configured_is_not_lost_on_the_way_back(tmp_path: Path) -> None:
    looped().save_pretrained(tmp_path)
    model, tokens = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, steps=5),
        prompts()["input_ids"],
    )
    with pytest.raises(ValueError, match=r"configured for steps=5 .* program for 3; set .* and give Unroll"):
        from_hf(model)
    for steps in (3, None):
        model.config.steps = steps
        assert torch.equal(from_hf(model)(tokens)[0], model(tokens, use_cache=False).logits)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_classifier_is_opened_as_other_models_are(implementation: str, tmp_path: Path) -> None:
    model = classifier()
    model.save_pretrained(tmp_path)
    kind = transformers.AutoModelForSequenceClassification
    for options in ({"attn_implementation": implementation}, {"device_map": "auto"}):
        opened = kind.from_pretrained(tmp_path, **options)
        assert torch.equal(opened(**prompts()).logits, model(**prompts()).logits)


@torch.no_grad()
def test_an_offloaded_map_to_scores_is_used_and_an_offloaded_embedding_refused(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    kind = transformers.AutoModelForCausalLM
    for tied in (False, True):
        model, folder = looped(tied=tied), tmp_path / str(tied)
        model.save_pretrained(folder)
        places = {"model.trunk.body": "cpu", "model.trunk.embedding": "disk" if tied else "cpu"}
        places |= {} if tied else {"model.output": "disk"}
        opened = kind.from_pretrained(folder, device_map=places, offload_folder=folder / "offloaded")
        if tied:
            with pytest.raises(ValueError, match="also gives the scores and cannot be offloaded"):
                opened(**prompts())
        else:
            assert torch.equal(opened(**prompts()).logits, model(**prompts()).logits)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the package peft
def test_an_adapter_of_the_map_to_scores_learns_and_counts() -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(looped(tied=False), peft.LoraConfig(target_modules=["output"]))
    before = adapted(**prompts()).logits
    adapted(**prompts(), labels=prompts()["input_ids"]).loss.backward()
    second = {name: weight for name, weight in adapted.named_parameters() if "model.output.lora_B" in name}
    assert second
    for weight in second.values():
        assert weight.grad is not None
        assert weight.grad.any()
        weight.data.fill_(1.0)
    assert (adapted(**prompts()).logits - before).abs().max() > 1e-3
