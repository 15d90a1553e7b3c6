import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.nn import AttentionContext, Layer, initialize
from algoformer.nn.layers import Layers


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scramble(module: nn.Module) -> None:
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed)


@pytest.mark.parametrize("causal", [True, False])
def test_the_trained_layer_is_pytorchs_pre_norm_layer_with_tanh_gelu(causal: bool) -> None:
    layer = Layer(Layers(1, heads=2, causal=causal).sizes(8)).double()
    scramble(layer)
    reference = nn.TransformerEncoderLayer(
        d_model=8,
        nhead=2,
        dim_feedforward=32,
        dropout=0,
        activation=lambda values: F.gelu(values, approximate="tanh"),
        batch_first=True,
        norm_first=True,
        dtype=torch.float64,
    )
    copies = {
        "self_attn.in_proj_": layer.attention.qkv,
        "self_attn.out_proj.": layer.attention.output,
        "linear1.": layer.feedforward.up,
        "linear2.": layer.feedforward.down,
        "norm1.": layer.attention_norm,
        "norm2.": layer.feedforward_norm,
    }
    weights = {
        place + name: parameter
        for place, module in copies.items()
        for name, parameter in module.named_parameters()
    }
    reference.load_state_dict(weights)
    stream = numbers(3, 5, 8, seed=99)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64) if causal else None
    expected = reference(stream, src_mask=mask, is_causal=causal)
    torch.testing.assert_close(layer(stream), expected, rtol=0, atol=1e-12)


def equation_one_layer(*, width: int, heads: int, head_width: int, hidden: int) -> Layer:
    plain = {"causal": False, "norm": "none", "scaled": False, "activation": "relu"}
    return Layer(Layers(1, heads=heads, head_width=head_width, hidden=hidden, **plain).sizes(width)).double()


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_without_norm_and_scale_it_is_the_papers_equation_one_to_the_letter(heads: int) -> None:
    """Attn(X) = X + Σ W_V X softmax(Xᵀ W_Kᵀ W_Q X), softmax down the columns.

    Then FFN(X) = X + W_2 ReLU(W_1 X + b_1) + b_2.
    """
    width = 4
    layer = equation_one_layer(width=width, heads=heads, head_width=width, hidden=7)
    scramble(layer)
    queries, keys, values = (
        numbers(heads, width, width, seed=seed) for seed in (11, 12, 13)
    )  # W_Q, W_K, W_V of every head
    stacked = torch.cat([matrix.reshape(heads * width, width) for matrix in (queries, keys, values)])
    layer.attention.qkv.weight.data = stacked
    layer.attention.output.weight.data = torch.eye(width, dtype=torch.float64).repeat(1, heads)
    for projection in (layer.attention.qkv, layer.attention.output):
        nn.init.zeros_(projection.bias)
    columns = numbers(width, 6, seed=14)

    attended = columns.clone()
    for query, key, value in zip(queries, keys, values, strict=True):
        weights = (columns.T @ key.T @ query @ columns).softmax(dim=0)
        attended += value @ columns @ weights
    up, down = layer.feedforward.up, layer.feedforward.down
    expected = attended + down.weight @ (up.weight @ attended + up.bias[:, None]).relu() + down.bias[:, None]

    torch.testing.assert_close(layer(columns.T[None])[0].T, expected, rtol=0, atol=1e-11)


def test_heads_need_not_divide_the_stream() -> None:
    layer = equation_one_layer(width=5, heads=3, head_width=7, hidden=2)
    assert layer(numbers(2, 4, 5)).shape == (2, 4, 5)
    assert layer.attention.qkv.weight.shape == (3 * 3 * 7, 5)


def test_scores_are_divided_by_the_root_of_the_head_width() -> None:
    for scaled, scale in ((True, 1 / math.sqrt(3)), (False, 1)):
        layers = Layers(1, heads=2, head_width=3, hidden=4, scaled=scaled)
        assert Layer(layers.sizes(8)).attention.scale == pytest.approx(scale)


def test_a_block_of_width_256_has_as_many_parameters_as_the_protocol_says() -> None:
    layer = Layer(Layers(1, heads=8).sizes(256))
    assert sum(parameter.numel() for parameter in layer.parameters()) == 789_760


@pytest.mark.parametrize("depth", [1, 12])
def test_initialization_has_gpt2s_scales(depth: int) -> None:
    layer = Layer(Layers(1, heads=4).sizes(128))
    torch.manual_seed(0)
    initialize(layer, depth=depth)
    small = 0.02 / math.sqrt(2 * depth)
    expected = {
        layer.attention.qkv: 0.02,
        layer.feedforward.up: 0.02,
        layer.attention.output: small,
        layer.feedforward.down: small,
    }
    for linear, scale in expected.items():
        assert linear.weight.std().item() == pytest.approx(scale, rel=0.03)
        assert abs(linear.weight.mean().item()) < scale / 20
        assert not linear.bias.any()
    assert (layer.attention_norm.weight == 1).all()


def test_initialization_takes_layers_without_bias() -> None:
    layer = Layer(Layers(1, heads=2, hidden=8, bias=False).sizes(8))
    initialize(layer, depth=1)
    assert {name for name, _ in layer.named_parameters() if name.endswith("bias")} == {
        "attention_norm.bias",
        "feedforward_norm.bias",
    }


def test_an_attention_module_of_ones_own_need_not_know_about_query_rows() -> None:
    class Mean(nn.Module):
        def forward(self, stream: torch.Tensor) -> torch.Tensor:
            return stream.mean(dim=1, keepdim=True).expand_as(stream)

    layer = Layer(Layers(1, heads=2, hidden=16).sizes(8)).double()
    layer.attention = Mean()
    stream = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = torch.tensor([1, 4])
    torch.testing.assert_close(
        layer(stream, AttentionContext(query_rows=rows)), layer(stream)[:, rows], rtol=0, atol=1e-14
    )
