"""Tokenizers and classifiers as those of `transformers`."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from algoformer.hf import AlgoformerForSequenceClassification, model_card, to_hf, to_hf_tokenizer
from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.classifier import TextClassifier
from algoformer.language.lines import prepared
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.model import AlgoFormer, presets
from tests.hf.families import transformers

TEXTS = ["the dog", " the dog", "  two spaces", "", "Ünïcode ⟨pad⟩ ⟨eos⟩ 🎉", "a\nb ", " ", "\n", "don't."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["the dog sees the cat", "the cat sees the dog"] * 4, vocabulary=300)


def test_a_tokenizer_gives_the_same_numbers_and_texts_after_it_was_saved(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    made = to_hf_tokenizer(tokenizer)
    made.save_pretrained(tmp_path)
    for one in (made, transformers.AutoTokenizer.from_pretrained(tmp_path)):
        assert (one.pad_token_id, one.bos_token_id, one.eos_token_id) == (0, 1, 2)
        for text in TEXTS:
            assert one(text)["input_ids"] == tokenizer.encode(text)
            assert one.decode(tokenizer.encode(text)) == (f" {text}" if text else "")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tokenizer: Tokenizer) -> None:
    small = TokenModel(presets.standard(1, heads=2), vocabulary=len(tokenizer) - 1, context=32, width=16)
    with pytest.raises(ValueError, match=f"the tokenizer has {len(tokenizer)} tokens and the model "):
        to_hf_tokenizer(tokenizer, small)
    fitting = TokenModel(presets.standard(1, heads=2), vocabulary=len(tokenizer), context=32, width=16)
    assert len(to_hf_tokenizer(tokenizer, fitting)) == len(tokenizer)


def test_a_pipeline_continues_a_text_as_the_library_does(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    model = TokenModel(presets.algoformer(heads=2, steps=3), vocabulary=300, context=32, width=16).eval()
    wrapped = to_hf(model)
    pipeline = transformers.pipeline("text-generation", model=wrapped, tokenizer=to_hf_tokenizer(tokenizer))
    made = pipeline("the dog", max_new_tokens=6, do_sample=False, eos_token_id=None)[0]["generated_text"]
    prompt = torch.tensor([tokenizer.encode("the dog")])
    tokens = prompt
    for _ in range(6):
        tokens = torch.cat([tokens, model(tokens)[0, :, -1:].argmax(dim=-1)], dim=1)
    assert made == tokenizer.decode(tokens[0].tolist())


PROMPTS = ["the dog", "the cat sees the dog sees", "a"]


@pytest.mark.parametrize("format", ["algoformer", "gpt2"])
def test_prompts_in_a_batch_are_continued_as_each_alone(
    tokenizer: Tokenizer, tmp_path: Path, format: str
) -> None:
    torch.manual_seed(0)
    program = presets.standard(2, heads=2) if format == "gpt2" else presets.algoformer(heads=2, steps=3)
    model = TokenModel(program, vocabulary=len(tokenizer), context=32, width=16, tied=False).eval()
    for weight in model.parameters():
        if weight.ndim > 1:  # so that what is attended to decides
            torch.nn.init.normal_(weight)
    to_hf(model, format).save_pretrained(tmp_path)
    to_hf_tokenizer(tokenizer, model).save_pretrained(tmp_path)
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    made = transformers.AutoTokenizer.from_pretrained(tmp_path)
    greedy = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    alone = [opened.generate(**made(one, return_tensors="pt"), **greedy)[0, -6:].tolist() for one in PROMPTS]
    assert len(set(map(tuple, alone))) == len(PROMPTS)
    together = opened.generate(**made(PROMPTS, padding=True, return_tensors="pt"), **greedy)
    assert together[:, -6:].tolist() == alone
    pipeline = transformers.pipeline("text-generation", str(tmp_path))
    found = pipeline(PROMPTS, batch_size=3, return_full_text=False, **greedy)
    assert [one[0]["generated_text"] for one in found] == [made.decode(tokens) for tokens in alone]


def test_the_tokenizer_of_a_classifier_pads_on_the_right(tokenizer: Tokenizer) -> None:
    """As those of other classifiers; its scores do not depend on the side."""
    torch.manual_seed(0)
    model = TextClassifier(
        presets.looped(heads=2, steps=3, causal=False), labels="ab", vocabulary=300, context=32, width=16
    ).eval()
    wrapped, made = to_hf(model), to_hf_tokenizer(tokenizer, model)
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json())
    assert made.padding_side == to_hf_tokenizer(checkpoint).padding_side == "right"
    alone = torch.cat([wrapped(**made(one, return_tensors="pt")).logits for one in PROMPTS])
    for side in ("right", "left"):
        made.padding_side = side
        together = wrapped(**made(PROMPTS, padding=True, return_tensors="pt")).logits
        torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


def test_a_classifier_keeps_its_labels_and_scores(tmp_path: Path) -> None:
    torch.manual_seed(0)
    program = presets.algoformer(heads=2, steps=3, causal=False)
    model = TextClassifier(program, labels=("sport", "world", "music"), vocabulary=32, context=16, width=16)
    ids, mask = torch.randint(32, (4, 7)), torch.ones(4, 7, dtype=torch.bool)
    mask[0, 4:] = False
    expected = model.eval()(ids, mask)[0]
    to_hf(model).save_pretrained(tmp_path)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(opened) is AlgoformerForSequenceClassification
    assert opened.model.labels == model.labels
    output = opened(ids, mask, labels=torch.tensor([0, 2, 1, 1]))
    assert torch.equal(output.logits, expected)
    loss = F.cross_entropy(expected, torch.tensor([0, 2, 1, 1]))
    torch.testing.assert_close(output.loss, loss, rtol=0, atol=1e-6)
    assert not torch.equal(opened(ids, mask, steps=6).logits, expected)


SPELLED = [
    "Coquerel's coua (Coua coquereli).",
    "Za\u0308hne cafe\u0301 NA\u00cfVE, 3.14 and 1½",
    " leading, \u0085 trailing \x1c four \n",
    "東京 नमस्ते 👩\u200d👩 _under_ İ ΣΊΣΥΦΟΣ Σ.",
    "... !",
    "",
]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("only_words", [False, True])
def test_the_tokenizer_of_a_classifier_spells_a_text_as_classify_does(
    tokenizer: Tokenizer, lowercase: bool, only_words: bool, tmp_path: Path
) -> None:
    program = presets.algoformer(heads=2, steps=3, causal=False)
    model = TextClassifier(program, labels=("a", "b"), vocabulary=len(tokenizer), context=16, width=16)
    spelling = {"lowercase": lowercase, "only_words": only_words}
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json(), card=spelling)
    to_hf_tokenizer(checkpoint).save_pretrained(tmp_path)
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in SPELLED:
        assert opened(text)["input_ids"] == tokenizer.encode(prepared(text, **spelling))


def test_a_checkpoint_is_converted_with_its_tokenizer(tokenizer: Tokenizer) -> None:
    model = TokenModel(presets.standard(1, heads=2), vocabulary=len(tokenizer), context=32, width=16)
    checkpoint = TextCheckpoint(model=model, tokenizer=tokenizer.to_json(), card={"lowercase": True})
    assert to_hf(checkpoint).model is model
    # the prompt of a language model is read as it is
    assert to_hf_tokenizer(checkpoint)(" The\ndog ")["input_ids"] == tokenizer.encode(" The\ndog ")


def test_truncation_ends_at_the_context_of_the_model(tokenizer: Tokenizer) -> None:
    model = TokenModel(presets.standard(1, heads=2), vocabulary=len(tokenizer), context=5, width=16)
    text = "the dog sees the cat and the dog"
    assert to_hf_tokenizer(tokenizer, model)(text, truncation=True)["input_ids"] == tokenizer.encode(text)[:5]


@pytest.mark.usefixtures("as_a_user")
def test_what_is_neither_a_model_nor_a_tokenizer_is_named(tokenizer: Tokenizer) -> None:
    model = TokenModel(presets.standard(1, heads=2), vocabulary=len(tokenizer), context=5, width=16)
    with pytest.raises(ValueError, match="must be a Tokenizer or a checkpoint, got str; give the checkpoint"):
        to_hf_tokenizer(tokenizer.to_json(), model)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the checkpoint has no tokenizer"):
        to_hf_tokenizer(TextCheckpoint(model=model))
    with pytest.raises(ValueError, match="a TextClassifier or a checkpoint of one, got AlgoFormer"):
        to_hf(AlgoFormer(presets.standard(1, heads=2), dim=2, out=1, context=4, width=8))  # type: ignore[arg-type]


@pytest.mark.usefixtures("as_a_user")
def test_a_card_of_a_language_model_is_not_written_for_a_classifier() -> None:
    program = presets.algoformer(heads=2, causal=False)
    model = to_hf(TextClassifier(program, labels=("one", "other"), vocabulary=8, context=8, width=8))
    with pytest.raises(ValueError, match="describes language models, got AlgoformerForSequenceClass"):
        model_card(model, curve={1: 0.5}, measured_on="nothing")
