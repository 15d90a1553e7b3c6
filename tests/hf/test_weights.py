"""Weights of models of `transformers` that a folder does not hold, and vocabularies that grow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from algoformer.hf import AlgoformerConfig, AlgoformerForCausalLM, to_hf
from algoformer.language.token_model import TokenModel
from algoformer.model import Layers, Loop, Program
from algoformer.model.program import to_data
from tests.hf.families import transformers
from tests.hf.test_model import PROGRAMS, prompts, token_model


@pytest.fixture
def nothing_is_zero_by_chance() -> Iterator[None]:
    """Fill memory that nobody has written to with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


LEARNED_PARTS = {
    "decay": {"inject": "decay", "start": "vector", "halt": "gate"},
    "gate": {"inject": "gate", "halt": "act"},
    "concat": {"inject": "concat"},
}


@pytest.mark.usefixtures("nothing_is_zero_by_chance")
@pytest.mark.parametrize("name", LEARNED_PARTS)
def test_weights_that_a_folder_does_not_hold_are_those_of_a_new_model(name: str, tmp_path: Path) -> None:
    saved = to_hf(token_model(Program(Layers(1, heads=2), Loop(Layers(1, heads=2), steps=2, inject="none"))))
    saved.save_pretrained(tmp_path)
    program = Program(Layers(1, heads=2), Loop(Layers(1, heads=2), steps=2, **LEARNED_PARTS[name]))
    changes: dict[str, Any] = {"program": to_data(program), "max_position_embeddings": 600}
    opened = AlgoformerForCausalLM.from_pretrained(
        tmp_path, **changes, tie_word_embeddings=False, ignore_mismatched_sizes=True
    )
    new, held = token_model(program, tied=False, shaken=False), saved.model.state_dict()
    for key, weight in opened.model.state_dict().items():
        if key in held and not key.endswith("positions.table"):
            assert torch.equal(weight, held[key])
        elif key.endswith(("positions.table", "output.weight")):
            assert float(weight.std()) == pytest.approx(0.02, rel=0.1)
        else:
            drawn = new.state_dict()[key]
            assert float(weight.norm()) == pytest.approx(float(drawn.norm()), rel=0.5)


@pytest.mark.usefixtures("nothing_is_zero_by_chance")
def test_layers_that_a_folder_does_not_hold_are_drawn_for_the_depth_of_the_program(tmp_path: Path) -> None:
    saved = to_hf(token_model(Program(Layers(1, heads=2))))
    saved.save_pretrained(tmp_path)
    opened = AlgoformerForCausalLM.from_pretrained(tmp_path, program=to_data(Program(Layers(8, heads=2))))
    held = saved.model.state_dict()
    for key, weight in opened.model.state_dict().items():
        if key in held:
            assert torch.equal(weight, held[key])
        elif key.endswith(("output.weight", "down.weight")):
            assert float(weight.std()) == pytest.approx(0.02 / 4, rel=0.2)
        elif key.endswith(("qkv.weight", "up.weight")):
            assert float(weight.std()) == pytest.approx(0.02, rel=0.2)
        elif key.endswith("bias"):
            assert not weight.any()


@pytest.mark.usefixtures("nothing_is_zero_by_chance")
def test_a_classifier_opened_from_a_language_model_has_a_new_head(tmp_path: Path) -> None:
    saved = to_hf(token_model(PROGRAMS["algoformer"]))
    saved.save_pretrained(tmp_path)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=50)
    assert float(opened.model.head.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert not opened.model.head.bias.any()
    assert torch.equal(opened.model.trunk.embedding.weight, saved.model.trunk.embedding.weight)


def test_a_model_from_a_configuration_is_the_token_model_of_the_same_seed() -> None:
    torch.manual_seed(3)
    expected = TokenModel(PROGRAMS["algoformer"], vocabulary=32, context=40, width=16)
    torch.manual_seed(3)
    config = AlgoformerConfig.of(
        PROGRAMS["algoformer"], vocab_size=32, max_position_embeddings=40, hidden_size=16
    )
    model = transformers.AutoModelForCausalLM.from_config(config).model
    for key, weight in expected.state_dict().items():
        assert torch.equal(model.state_dict()[key], weight)


@pytest.mark.filterwarnings("ignore:The new")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("mean_resizing", [True, False])
def test_a_vocabulary_grows_and_keeps_the_scores_of_its_tokens(
    tied: bool, mean_resizing: bool, tmp_path: Path
) -> None:
    model = to_hf(token_model(PROGRAMS["algoformer"], tied=tied))
    before = model(**prompts()).logits
    model.resize_token_embeddings(37, mean_resizing=mean_resizing)
    grown = model(input_ids=torch.tensor([[36, 3, 4]])).logits
    assert grown.isfinite().all()
    assert model.model.vocabulary == model.config.vocab_size == grown.shape[-1] == 37
    torch.testing.assert_close(model(**prompts()).logits[..., :32], before, rtol=0, atol=1e-6)
    if not mean_resizing:
        assert float(model.get_input_embeddings().weight[32:].detach().std()) < 0.04
    assert model.model.rebuildable() is None
    model.save_pretrained(tmp_path)
    opened = AlgoformerForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(opened(**prompts()).logits, model(**prompts()).logits)
    model.resize_token_embeddings(32)
    torch.testing.assert_close(model(**prompts()).logits, before, rtol=0, atol=1e-6)
