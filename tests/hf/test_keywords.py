"""Every keyword of a call works as in `transformers`, or is refused in one line."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("transformers")

from algoformer.hf import to_hf
from algoformer.model import Layers, Program
from algoformer.model.formats import MODERN
from tests.hf.test_inputs import classifier, looped
from tests.hf.test_model import PROGRAMS, prompts, token_model

pytestmark = pytest.mark.usefixtures("as_a_user")
IDS = prompts()["input_ids"]
ORDER = torch.arange(8)[None]
ROPE = Program(Layers(2, **{**MODERN, "heads": 2}))
LEARNED = Program(Layers(1, **{**MODERN, "heads": 2}), Layers(1, heads=2))


@pytest.mark.parametrize(
    ("positions", "found"),
    [
        (ORDER + 33, "40"),
        (ORDER.expand(3, 8) * 100, "700"),
        (ORDER - 1, "-1"),
        (torch.full((1, 8), 99), "99"),
    ],
)
@pytest.mark.parametrize("program", [*PROGRAMS.values(), LEARNED, Program(Layers(0))], ids=str)
def test_positions_that_were_not_learned_are_refused(program: Program, positions: Tensor, found: str) -> None:
    model = to_hf(token_model(program))
    message = f"position_ids must be from 0 to 39, .* learned positions, got {found}; "
    for options in ({}, {"use_cache": False}, {"attention_mask": torch.ones(3, 8)}):
        with pytest.raises(ValueError, match=message):
            model(IDS, position_ids=positions, **options)
    model(IDS, position_ids=ORDER + 32)  # the last 8 that were


def test_a_generated_sequence_that_is_too_long_is_told_its_length() -> None:
    for options in ({}, {"use_cache": False}, {"cache_implementation": "static"}):
        with pytest.raises(
            ValueError, match="41 tokens is longer than max_position_embeddings=40; shorten it"
        ):
            looped().generate(IDS, max_new_tokens=40, do_sample=False, **options)


@torch.no_grad()
@pytest.mark.parametrize("positions", [ORDER + 1000, ORDER - 3, ORDER * 7, ORDER.flip(1) + 50])
def test_positions_that_rotate_have_no_limit_as_in_llama(positions: Tensor) -> None:
    ours = token_model(ROPE).double()
    mask = torch.ones(3, 8, dtype=torch.long)  # without one, positions with gaps are documents
    expected = to_hf(ours, format="llama")(IDS, position_ids=positions, attention_mask=mask).logits
    found = to_hf(ours)(IDS, position_ids=positions, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)  # theirs are in fp32
    assert (ours(IDS)[0] - found).abs().max() < 1e-9 or not torch.equal(positions.diff(), ORDER.diff())


@pytest.mark.parametrize(
    ("positions", "got"),
    [
        (ORDER[0], r"got shape \(8,\)"),
        (ORDER[:, :5], r"got shape \(1, 5\)"),
        (ORDER[:, :1], r"got shape \(1, 1\)"),
        (ORDER.expand(2, 8), r"got shape \(2, 8\)"),
        (ORDER[None], r"got shape \(1, 1, 8\)"),
        (ORDER.tolist(), "got list"),
        (ORDER.float(), r"got torch.float32"),
        (ORDER > 3, r"got torch.bool"),
    ],
    ids=str,
)
@pytest.mark.parametrize("program", [PROGRAMS["algoformer"], ROPE], ids=["learned", "rope"])
def test_positions_of_another_shape_or_type_are_refused(program: Program, positions: Any, got: str) -> None:
    with pytest.raises(ValueError, match=rf"position_ids must .*{got}"):
        to_hf(token_model(program))(IDS, position_ids=positions)


def test_more_rows_than_sequences_do_not_make_more_sequences() -> None:
    model = looped()
    with pytest.raises(ValueError, match=r"position_ids must have shape \(1, 8\), got shape \(3, 8\)"):
        model(IDS[:1], position_ids=ORDER.expand(3, 8))
    for one in (model, classifier()):
        with pytest.raises(ValueError, match=r"attention_mask must .* got shape \(3, 8\)"):
            one(IDS[:1], attention_mask=torch.ones(3, 8))
        with pytest.raises(ValueError, match=r"attention_mask must .* got shape \(2, 8\)"):
            one(IDS, attention_mask=torch.ones(2, 8))
        with pytest.raises(ValueError, match=r"attention_mask must be a tensor, got list"):
            one(IDS, attention_mask=[[1] * 8] * 3)
        every = one(IDS, attention_mask=torch.ones(1, 8)).logits
        assert torch.equal(every, one(IDS, attention_mask=torch.ones(3, 8)).logits)


@pytest.mark.parametrize("shape", [(2, 1, 8, 8), (3, 1, 5, 8), (3, 1, 8, 5), (3, 1, 8, 9)], ids=str)
def test_a_mask_of_four_dimensions_covers_tokens_and_keys(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"attention_mask must have shape \(3, 1, 8, 8\), got shape"):
        looped()(IDS, attention_mask=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="attention_mask must have"):
        classifier()(IDS, attention_mask=torch.ones(shape, dtype=torch.bool))


IGNORED = {
    "token_type_ids": torch.ones(3, 8, dtype=torch.long),
    "cache_position": ORDER[0],
    "head_mask": torch.zeros(1, 2),
    "encoder_hidden_states": torch.zeros(3, 4, 16),
    "cu_seq_lens_q": torch.tensor([0, 4, 8]),
    "seq_idx": ORDER,
    "is_causal": False,
    "output_router_logits": True,
    "anything": 0,
}


@pytest.mark.parametrize("name", IGNORED)
def test_a_keyword_that_would_be_ignored_is_refused(name: str) -> None:
    for model in (looped(), classifier()):
        for labels in ({}, {"labels": IDS}):
            with pytest.raises(ValueError, match=f"{name} is not supported; leave it out"):
                model(IDS, **labels, **{name: IGNORED[name]})
            if labels:
                continue
            assert torch.equal(model(IDS, **{name: None}).logits, model(IDS).logits)


def test_a_misspelled_keyword_is_told_the_right_one() -> None:
    with pytest.raises(
        ValueError, match=r"atention_mask is not supported; .* \(did you mean 'attention_mask'\?\)"
    ):
        looped()(IDS, atention_mask=torch.ones(3, 8))
    for options in ({"use_cache": True}, {"logits_to_keep": 1}, {"past_key_values": ()}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} is not supported; leave it out"):
            classifier()(IDS, **options)


def test_a_keyword_with_another_way_is_told_it() -> None:
    for name, hint in {"inputs_embeds": " and give input_ids", "cache_position": ": it follows from"}.items():
        with pytest.raises(ValueError, match=f"{name} is not supported; leave it out{hint}[^(]*$"):
            looped()(IDS, **{name: torch.zeros(3, 8, 16)})


def test_what_asks_for_nothing_is_accepted() -> None:
    nothing = {
        "token_type_ids": torch.zeros(3, 8),
        "output_hidden_states": False,
        "output_router_logits": False,
    }
    for model in (looped(), classifier()):
        assert torch.equal(model(IDS, **nothing).logits, model(IDS).logits)
    assert torch.equal(model(IDS, use_cache=False).logits, model(IDS).logits)


def test_a_loss_function_of_the_user_gets_its_keywords() -> None:
    model = looped()
    model.loss_function = lambda logits, labels, *, heat, **options: (
        heat * F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    )
    one, two = (model(IDS, labels=IDS, heat=heat).loss for heat in (1.0, 2.0))
    assert torch.equal(2 * one, two)
    assert torch.equal(model(IDS, labels=IDS[:, :, None], heat=0.0).loss, 0 * one)  # of any shape
    with pytest.raises(ValueError, match="heat is not supported"):
        model(IDS, heat=1.0)  # no loss is computed


def test_the_loss_of_several_batches_is_divided_by_their_tokens() -> None:
    model = looped()
    whole = model(IDS, labels=IDS).loss
    parts = [model(rows, labels=rows, num_items_in_batch=torch.tensor(21)).loss for rows in IDS.split(1)]
    torch.testing.assert_close(sum(parts), whole)


@pytest.mark.parametrize("asked", [-3, 2.0, True, torch.tensor([[1, 2]]), torch.tensor([1.0]), "3"], ids=str)
def test_logits_to_keep_is_a_number_or_a_vector(asked: Any) -> None:
    with pytest.raises(ValueError, match="logits_to_keep must be "):
        looped()(IDS, logits_to_keep=asked)


@pytest.mark.parametrize("options", [{"logits_to_keep": 3}, {"labels": IDS[:, :5]}, {"labels": IDS[:1]}])
def test_labels_are_those_of_all_logits(options: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"labels must have the shape of the logits, \(3, [38]\), got \([31], [58]\)"
    ):
        looped()(IDS, **{"labels": IDS, **options})


@pytest.mark.parametrize("cache", [(), [], ((torch.zeros(3, 2, 4, 8),) * 2,) * 5], ids=["(", "[", "((("])
def test_a_cache_is_one_of_transformers(cache: Any) -> None:
    with pytest.raises(
        ValueError, match=r"past_key_values must be a Cache of transformers, got (tuple|list); "
    ):
        looped()(IDS, past_key_values=cache)


@pytest.mark.parametrize(
    "tokens", [IDS[0], IDS[None], IDS.tolist(), IDS.float()], ids=["1", "3", "list", "float"]
)
def test_tokens_are_a_batch_of_whole_numbers(tokens: Any) -> None:
    for model in (looped(), classifier()):
        for options in ({}, {"attention_mask": torch.ones(3, 8)}):
            with pytest.raises(
                ValueError, match=r"input_ids must be whole numbers of shape \(batch, token\)"
            ):
                model(tokens, **options)


def _kept_numbers(model: Any) -> int:
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(IDS)
    return sum(kept)


def _checkpointing(model: Any, *, enable: bool = True, **options: Any) -> None:
    name = "enable" if enable else "disable"
    newest = getattr(model, f"activation_checkpointing_{name}", None)  # its new name
    (newest or getattr(model, f"gradient_checkpointing_{name}"))(**options)


def test_gradient_checkpointing_keeps_less_or_is_refused() -> None:
    model = looped().train()
    before = _kept_numbers(model)
    _checkpointing(model)
    assert _kept_numbers(model) < before / 2
    _checkpointing(model, enable=False)
    assert _kept_numbers(model) == before
    plain = to_hf(token_model(PROGRAMS["plain"]))
    with pytest.raises(ValueError, match="runs the iterations of a loop again, and the program has none"):
        _checkpointing(plain)
    _checkpointing(plain, enable=False)


@pytest.mark.parametrize("options", [{"every_n_layers": 2}, {"offload": True}], ids=str)
def test_other_ways_to_checkpoint_are_refused(options: dict[str, Any]) -> None:
    model = looped()
    if not hasattr(model, "activation_checkpointing_enable"):
        pytest.skip("this version of transformers has no other ways")
    with pytest.raises(
        ValueError, match=r"runs every iteration of a loop again, .* leave out every_n_layers="
    ):
        _checkpointing(model, **options)
    assert not model.gradient_checkpointing
