"""Rotary positions: the formula, relative distances, and decoding with a cache."""

import cmath

import pytest
import torch

from algoformer.language import CachedDecoder, TokenModel, UncachedDecoder
from algoformer.model import AlgoFormer, Layers, Loop, Program, presets
from algoformer.nn import Attention, AttentionContext
from algoformer.nn.tables import RotaryPositions
from tests.language.small_models import padded, token_model
from tests.model.test_cost import SIZES


def test_a_pair_of_coordinates_is_a_complex_number_times_a_phase() -> None:
    rope = RotaryPositions(head_width=6, base=100)
    heads = torch.randn(2, 1, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3], [5, 0, 7, 7]])
    found = rope(heads, positions)
    for row in range(2):
        for token in range(4):
            for pair in range(3):
                number = complex(heads[row, 0, token, pair], heads[row, 0, token, pair + 3])
                turned = number * cmath.exp(1j * int(positions[row, token]) * 100 ** (-2 * pair / 6))
                assert complex(found[row, 0, token, pair], found[row, 0, token, pair + 3]) == pytest.approx(
                    turned
                )


def test_attention_depends_on_distances_alone() -> None:
    torch.manual_seed(0)
    attention = Attention(Layers(1, heads=2, positions="rope").sizes(8)).double()
    stream = torch.randn(2, 5, 8, dtype=torch.float64)
    shifted = AttentionContext(positions=torch.arange(5)[None] + 1000)
    torch.testing.assert_close(attention(stream, shifted), attention(stream), rtol=0, atol=1e-10)
    stretched = AttentionContext(positions=2 * torch.arange(5)[None])
    assert not torch.allclose(attention(stream, stretched), attention(stream))


def check_a_cache_changes_no_score(model: TokenModel, side: str) -> None:
    ids, mask = padded((5, 2, 4), side)
    cached, uncached = CachedDecoder(model, batch=3, length=9), UncachedDecoder(model)
    close = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(cached.prefill(ids, mask), uncached.prefill(ids, mask), **close)
    for tokens in torch.randint(13, (4, 3), generator=torch.Generator().manual_seed(1)):
        torch.testing.assert_close(cached.step(tokens), uncached.step(tokens), **close)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("name", ["looped", "algoformer", "nested"])
def test_a_cache_changes_no_score(name: str, side: str, prefix_lm: bool) -> None:
    program = presets.PRESETS[name](heads=2, steps=3, positions="rope", norm="rms")
    model = token_model(program, double=True, prefix_lm=prefix_lm)
    check_a_cache_changes_no_score(model, side)


class OwnPositions(Attention):
    """Attention of one's own that adds a wave of the position, which only its context can tell."""

    def forward(self, stream: torch.Tensor, context: AttentionContext | None = None) -> torch.Tensor:
        given = None if context is None else context.positions
        places = torch.arange(stream.shape[1])[None] if given is None else given
        wave = torch.sin(places[..., None] * torch.arange(1, stream.shape[-1] + 1)).to(stream.dtype)
        return super().forward(stream + wave, context)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["looped", "algoformer", "nested"])
def test_attention_of_ones_own_is_told_the_positions_while_a_cache_grows(name: str, side: str) -> None:
    model = token_model(presets.PRESETS[name](heads=2, steps=3, positions="none"), double=True)
    for module in model.modules():
        if type(module) is Attention:
            module.__class__ = OwnPositions
    check_a_cache_changes_no_score(model, side)


def test_it_has_no_parameters_and_nothing_in_a_checkpoint() -> None:
    program = Program(Loop(Layers(1, heads=2, positions="rope", rope_base=50_000), 3))
    model = AlgoFormer(program, **SIZES)
    plain = AlgoFormer(Program(Loop(Layers(1, heads=2, positions="none"), 3)), **SIZES)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert model.body.parts[0].body.parts[0].layers[0].attention.rotation.base == 50_000
    assert str(program).endswith("1 layer × 2 heads, RoPE")
    assert Program.from_json(program.to_json()) == program


def test_odd_heads_and_strange_bases_are_refused() -> None:
    with pytest.raises(ValueError, match="head_width must be even, got 3"):
        AlgoFormer(Layers(1, heads=2, head_width=3, positions="rope"), **SIZES)
    with pytest.raises(ValueError, match="rope_base must be a number between 1 and 1e12, got 1"):
        Layers(1, rope_base=1)
    with pytest.raises(ValueError, match="does nothing"):
        Layers(0, positions="rope", final_norm=False)
