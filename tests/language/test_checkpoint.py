"""A model of text comes back from its file as it was, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from algoformer import programs
from algoformer.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from algoformer.common.files import checksum
from algoformer.language import TextClassifier, TokenModel
from tests.language.small_models import PROGRAMS, padded, token_model


def classifier() -> TextClassifier:
    program = programs.algoformer(heads=1, steps=3, causal=False)
    return TextClassifier(program, labels=("a", "b", "c"), vocabulary=11, context=9, width=8).eval()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_token_model_comes_back_as_it_was(tmp_path: Path, name: str, tied: bool) -> None:
    model = token_model(PROGRAMS[name], tied=tied, prefix_lm=True, dropout=0.1, attention_dropout=0.2)
    saved = Checkpoint(model=model, card={"bleu": 20.5}, state={"average": torch.ones(2)})
    save_checkpoint(tmp_path / "model.safetensors", saved)
    loaded = load_checkpoint(tmp_path / "model.safetensors")
    assert isinstance(loaded.model, TokenModel)
    assert loaded.model.program == model.program
    assert (loaded.model.tied, loaded.model.prefix_lm) == (tied, True)
    assert (loaded.model.trunk.dropout, loaded.model.trunk.attention_dropout) == (0.1, 0.2)
    assert (loaded.tokenizer, loaded.card) == ("", saved.card)
    assert torch.equal(loaded.state["average"], torch.ones(2))
    ids, prefix = padded((5, 5), "right")[0], torch.tensor([2, 3])
    assert torch.equal(loaded.model(ids, prefix=prefix), model(ids, prefix=prefix))


def test_a_classifier_comes_back_with_its_labels(tmp_path: Path) -> None:
    model = classifier()
    save_checkpoint(tmp_path / "model.safetensors", Checkpoint(model=model))
    loaded = load_checkpoint(tmp_path / "model.safetensors").model
    assert isinstance(loaded, TextClassifier)
    assert loaded.labels == ("a", "b", "c")
    ids = torch.tensor([[1, 2, 3]])
    real = torch.ones_like(ids, dtype=torch.bool)
    assert torch.equal(loaded(ids, real), model(ids, real))


def test_half_precision_takes_half_the_space_and_comes_back_in_single(tmp_path: Path) -> None:
    model = token_model(PROGRAMS["algoformer"])
    sizes = []
    for half in (False, True):
        path = tmp_path / f"{half}.safetensors"
        save_checkpoint(path, Checkpoint(model=model), half=half)
        with safe_open(path, framework="pt") as file:
            sizes.append(sum(file.get_tensor(name).nbytes for name in file.keys()))  # noqa: SIM118
        loaded = load_checkpoint(path).model
        assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
        ids = torch.tensor([[1, 2, 3]])
        torch.testing.assert_close(loaded(ids), model(ids), rtol=0, atol=0.05 * half)
    assert sizes[0] == 2 * sizes[1] == 4 * sum(parameter.numel() for parameter in model.parameters())


def changed(path: Path, **entries: Any) -> Path:
    """The same file with other entries in its header, and a checksum that fits."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(json.loads(file.metadata()["algoformer"])["content"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    options = {**header["model"]["options"], **entries.pop("options", {})}
    model = {**header["model"], "options": options, **entries.pop("model", {})}
    text = json.dumps({**header, "model": model, **entries})
    other = path.with_name("changed.safetensors")
    outer = {"format": 3, "sha256": checksum(text, tensors), "content": text}
    save_file(tensors, other, metadata={"algoformer": json.dumps(outer)})
    return other


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"options": {"vocabulary": 10**9}}, "'trunk.embedding.weight' has shape"),
        ({"options": {"vocabulary": 12}}, "'trunk.embedding.weight' has shape"),
        ({"options": {"width": "8"}}, "width must be a whole number"),
        ({"options": {"labels": ["a", "b", 3]}}, "labels must be a list of names"),
        ({"options": {"labels": "abc"}}, "labels must be a list of names"),
        ({"options": {"dropout": 2.0}}, r"dropout must be a number in \[0, 1\), got 2.0"),
        ({"options": {"more": 1}}, "exactly the options"),
        (
            {"model": {"program": [{"part": "layers", "count": 10**6}]}},
            "more layers than the file has",
        ),
        ({"model": {"kind": "poem"}}, "a model of unknown kind 'poem'"),
        ({"model": {"kind": []}}, "a model of unknown kind"),
        ({"card": []}, "card must be an object"),
        ({"data": {"name": "labels", "settings": {}, "tokenizer": 3}}, "give either files"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, entries: dict[str, Any], words: str) -> None:
    save_checkpoint(tmp_path / "model.safetensors", Checkpoint(model=classifier()))
    with pytest.raises(ValueError, match=words):
        load_checkpoint(changed(tmp_path / "model.safetensors", **entries))


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, number: float, half: bool) -> None:
    model = classifier()
    model.head.bias.data[1] = number
    save_checkpoint(tmp_path / "model.safetensors", Checkpoint(model=model), half=half)
    with pytest.raises(ValueError, match=r"weight 'head.bias' has numbers that are not finite"):
        load_checkpoint(tmp_path / "model.safetensors")


def test_files_that_are_no_checkpoint_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        load_checkpoint(tmp_path / "nothing")
    whole = tmp_path / "model.safetensors"
    save_checkpoint(whole, Checkpoint(model=classifier()))
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-10])
    with pytest.raises(ValueError, match="not a checkpoint, or is cut off"):
        load_checkpoint(tmp_path / "cut")
