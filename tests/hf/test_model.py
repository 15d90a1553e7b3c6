"""Programs as models of `transformers`."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("transformers")

from huggingface_hub import ModelCard

from algoformer.hf import AlgoformerConfig, AlgoformerForCausalLM, depth_curve, model_card, to_hf
from algoformer.language import generate
from algoformer.language.token_model import TokenModel
from algoformer.model import Layers, Loop, Parallel, Program, presets
from algoformer.trace import Unroll
from tests.hf.families import transformers

PROGRAMS = {
    "plain": Program(Layers(2, heads=2)),
    "algoformer": presets.algoformer(heads=2, steps=3),
    "no injection": Program(Loop(Layers(2, heads=2), steps=3, inject="none")),
    "nested": Program(
        Loop([Layers(1, heads=2), Loop(Layers(1, heads=2), steps=2)], steps=2), Layers(1, heads=2)
    ),
    "two loops": presets.two_loops(heads=2, steps=3),
    "parallel": Program(Parallel(Loop(Layers(1, heads=2), steps=3), Layers(1, heads=2)), Layers(1, heads=2)),
}
EVERY = pytest.mark.parametrize("name", PROGRAMS)


def token_model(program: Program, *, shaken: bool = True, **options: Any) -> TokenModel:
    torch.manual_seed(0)
    model = TokenModel(program, vocabulary=32, context=40, width=16, **options).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * shaken * torch.randn_like(weight))
    return model


def prompts() -> dict[str, Tensor]:
    """A batch of three prompts, the first one shorter and padded on the left."""
    ids = torch.randint(3, 32, (3, 8), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def decoded(model: Any, **options: Any) -> Tensor:
    return model.generate(**prompts(), max_new_tokens=7, do_sample=False, eos_token_id=None, **options)


@EVERY
def test_logits_are_those_of_the_token_model(name: str) -> None:
    model = token_model(PROGRAMS[name])
    mask = prompts()["attention_mask"].bool()
    ours = model(prompts()["input_ids"], attention_mask=mask)[0]
    theirs = to_hf(model)(**prompts()).logits
    torch.testing.assert_close(theirs[mask], ours[mask], rtol=0, atol=1e-6)
    unpadded = prompts()["input_ids"][1:]
    assert torch.equal(to_hf(model)(unpadded, use_cache=False).logits, model(unpadded)[0])


@EVERY
def test_every_way_to_generate_gives_the_tokens_of_decoding_without_a_cache(name: str) -> None:
    model = to_hf(token_model(PROGRAMS[name]))
    greedy = decoded(model, use_cache=False)
    assert torch.equal(decoded(model), greedy)
    assert torch.equal(decoded(model, cache_implementation="static"), greedy)
    assert torch.equal(decoded(model, num_beams=3), decoded(model, num_beams=3, use_cache=False))
    mask = prompts()["attention_mask"].bool()
    ours = generate(model.model, prompts()["input_ids"], mask, eos_id=0, max_new_tokens=7).tokens[:, 0]
    for row, tokens in zip(greedy[:, 8:], ours, strict=True):
        ended = (row == 0).nonzero().flatten().tolist() or [7]
        assert torch.equal(row[: ended[0]], tokens[: ended[0]])


@EVERY
def test_another_number_of_steps_decodes_with_a_cache_of_its_own_size(name: str) -> None:
    model = to_hf(token_model(PROGRAMS[name]))
    expected = decoded(model, steps=5, use_cache=False)
    assert torch.equal(decoded(model, steps=5), expected)
    assert torch.equal(decoded(model, steps=5, cache_implementation="static"), expected)
    assert model.config.steps is None
    looped = name != "plain"
    assert torch.equal(model(**prompts(), steps=5).logits, model(**prompts()).logits) is not looped


@EVERY
def test_a_saved_model_is_opened_by_the_auto_classes(name: str, tmp_path: Path) -> None:
    model = to_hf(token_model(PROGRAMS[name], tied=name != "algoformer"))
    model.save_pretrained(tmp_path)
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(opened) is AlgoformerForCausalLM
    assert opened.model.program == PROGRAMS[name]
    assert torch.equal(opened(**prompts()).logits, model(**prompts()).logits)
    deeper = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, steps=5)
    assert torch.equal(deeper(**prompts()).logits, model(**prompts(), steps=5).logits)
    assert torch.equal(decoded(deeper), decoded(model, steps=5))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "8"),
        ("vocab_size", None),
        ("max_position_embeddings", 10**30),
        ("steps", [2]),
        ("steps", 0),
        ("word_dropout", "a"),
        ("attention_dropout", 1.5),
        ("dropout", {}),
        ("use_cache", "no"),
        ("tie_word_embeddings", "false"),
    ],
)
def test_a_field_of_another_type_in_the_configuration_is_named(
    tmp_path: Path, field: str, value: Any
) -> None:
    to_hf(token_model(PROGRAMS["algoformer"])).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    with pytest.raises(ValueError, match=f"{field} must be a"):
        AlgoformerForCausalLM.from_pretrained(tmp_path)


def test_a_configuration_cannot_replace_the_class_of_its_model(tmp_path: Path) -> None:
    to_hf(token_model(PROGRAMS["algoformer"])).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"__class__": None}))
    with pytest.raises(ValueError, match="'__class__', which is not a setting"):
        AlgoformerForCausalLM.from_pretrained(tmp_path)


def test_sampling_with_a_cache_draws_the_tokens_of_sampling_without() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    drawn = []
    for cached in (True, False):
        torch.manual_seed(4)
        options = {"do_sample": True, "top_k": 20, "max_new_tokens": 12, "eos_token_id": None}
        drawn.append(model.generate(**prompts(), **options, use_cache=cached))
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], model.generate(**prompts(), **{**options, "do_sample": False}))


def test_a_push_to_the_hub_sends_the_files_of_a_saved_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    class Api:
        def __init__(self, *args: Any, **options: Any) -> None: ...

        def create_repo(self, repository: str, **options: Any) -> Any:
            return SimpleNamespace(repo_id=repository)

        def create_commit(self, **options: Any) -> None:
            sent.extend(one.path_in_repo for one in options["operations"])

    hub = pytest.importorskip("transformers.utils.hub")
    if not hasattr(hub, "hf_api"):
        pytest.skip("this version of transformers calls the hub in another way")
    monkeypatch.setattr(hub, "hf_api", Api)
    monkeypatch.setattr(hub, "create_and_tag_model_card", lambda *args, **options: ModelCard("a card"))
    to_hf(token_model(PROGRAMS["algoformer"])).push_to_hub("somebody/program")
    assert {"config.json", "generation_config.json", "model.safetensors"} <= set(sent)


def test_a_card_states_the_loss_of_every_depth() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    rows = torch.randint(3, 32, (5, 8), generator=torch.Generator().manual_seed(2))
    curve = depth_curve(model, rows, (1, 3, 6), batch=2)
    for steps, loss in curve.items():
        scores = model.model(rows, Unroll(steps=steps, window=1))[0, :, :-1]
        expected = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        assert loss == pytest.approx(float(expected.detach()), abs=1e-5)
    card = model_card(model, curve=curve, measured_on="five sequences", license="apache-2.0")
    assert card.data.to_dict()["license"] == "apache-2.0"
    assert card.data.library_name == "algoformer"
    assert f"| 3 (default) | {curve[3]:.4f} |\n| 6 | {curve[6]:.4f} |" in card.text
    assert str(PROGRAMS["algoformer"]) in card.text


def test_the_loss_is_the_mean_cross_entropy_of_the_next_token() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    labels = prompts()["input_ids"].masked_fill(prompts()["attention_mask"] == 0, -100)
    output = model(**prompts(), labels=labels)
    told = labels[:, 1:] != -100
    expected = F.cross_entropy(output.logits[:, :-1][told], labels[:, 1:][told])
    torch.testing.assert_close(output.loss, expected, rtol=0, atol=1e-6)


def test_gradient_checkpointing_changes_no_gradient() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]).double()).train()
    found = []
    for checkpointed in (False, True):
        model.zero_grad()
        model.gradient_checkpointing = checkpointed
        model(**prompts(), labels=prompts()["input_ids"]).loss.backward()
        found.append([weight.grad.clone() for weight in model.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=0, atol=1e-12)


def test_the_last_logits_alone_are_the_last_of_all() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    whole = model(**prompts()).logits
    for asked, rows in ((1, [7]), (3, [5, 6, 7]), (torch.tensor([2, 5]), [2, 5])):
        found = model(**prompts(), logits_to_keep=asked).logits
        torch.testing.assert_close(found, whole[:, rows], rtol=0, atol=1e-6)


def test_a_run_of_the_trainer_resumes_bit_for_bit(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    rows = torch.randint(3, 32, (64, 8), generator=torch.Generator().manual_seed(2))
    data = [{"input_ids": row, "labels": row} for row in rows]
    start = to_hf(token_model(PROGRAMS["algoformer"])).state_dict()
    ends = {}
    for name, resume in (("whole", None), ("resumed", str(tmp_path / "whole" / "checkpoint-3"))):
        model = to_hf(token_model(PROGRAMS["algoformer"]))
        options = transformers.TrainingArguments(
            output_dir=str(tmp_path / name),
            max_steps=6,
            per_device_train_batch_size=4,
            save_steps=3,
            learning_rate=1e-3,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = transformers.Trainer(model=model, args=options, train_dataset=data)
        trainer.train(resume_from_checkpoint=resume)
        ends[name] = trainer.model.state_dict()
    for key, weight in ends["whole"].items():
        assert torch.equal(weight, ends["resumed"][key])
    assert not torch.equal(
        start["model.trunk.embedding.weight"], ends["whole"]["model.trunk.embedding.weight"]
    )


def test_what_cannot_be_run_is_refused_in_one_line() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    cache = model(**prompts()).past_key_values
    with pytest.raises(ValueError, match=r"filled by 5 layers and the model now runs 7; start from an empty"):
        model(torch.ones(3, 1, dtype=torch.long), past_key_values=cache, steps=5)
    with pytest.raises(ValueError, match=r"41 tokens is longer than max_position_embeddings=40"):
        model(torch.ones(1, 41, dtype=torch.long))
    with pytest.raises(ValueError, match="cannot generate from a model with prefix_lm=True"):
        to_hf(token_model(PROGRAMS["algoformer"], prefix_lm=True))
    with pytest.raises(ValueError, match="a program is a list of parts, got NoneType"):
        AlgoformerForCausalLM(AlgoformerConfig())


def test_the_weights_are_shared_and_deepcopy_separates_them() -> None:
    model = token_model(PROGRAMS["algoformer"])
    wrapped = to_hf(model)
    assert wrapped.model is model
    twin = copy.deepcopy(wrapped)
    with torch.no_grad():
        model.trunk.embedding.weight.zero_()
    assert not wrapped(**prompts()).logits.any()  # the embedding is also the map to scores
    assert twin(**prompts()).logits.any()


def test_without_return_dict_the_output_is_a_tuple() -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    found = model(**prompts(), return_dict=False, use_cache=False, labels=prompts()["input_ids"])
    expected = model(**prompts(), use_cache=False, labels=prompts()["input_ids"])
    assert isinstance(found, tuple)
    assert torch.equal(found[0], expected.loss)
    assert torch.equal(found[1], expected.logits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_hidden_states": True}, "output_hidden_states=True is not supported; model.model.trace"),
        ({"output_attentions": True}, "output_attentions=True is not supported; model.model.trace"),
        ({"input_ids": None, "inputs_embeds": torch.zeros(3, 8, 16)}, "inputs_embeds is not supported"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
def test_what_a_call_cannot_give_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"]))
    with pytest.raises(ValueError, match=message):
        model(**prompts() | options)
    if "steps" in options:
        with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
            decoded(model, steps=0)
        assert model.config.steps is None
