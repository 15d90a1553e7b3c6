from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from algoformer.nn import Attention, AttentionContext, added_to_scores
from algoformer.nn.layers import Layers


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention(*, heads: int, head_width: int, causal: bool = True, scale: float = 0.7) -> Attention:
    module = Attention(Layers(1, heads=heads, head_width=head_width, causal=causal).sizes(6)).double()
    module.scale = scale
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed)
    return module


def by_hand(module: Attention, stream: Tensor) -> Tensor:
    """One query token at a time, one head at a time, no mask: only what may be seen is there."""
    inner = module.heads * module.head_width
    query, key, value = (stream @ module.qkv.weight.T + module.qkv.bias).split(inner, dim=-1)
    result = torch.zeros_like(stream)
    for token in range(stream.shape[1]):
        seen = token + 1 if module.causal else stream.shape[1]
        reads = []
        for head in range(module.heads):
            own = slice(head * module.head_width, (head + 1) * module.head_width)
            scores = torch.einsum("bd,bkd->bk", query[:, token, own], key[:, :seen, own]) * module.scale
            reads.append(torch.einsum("bk,bkd->bd", scores.softmax(-1), value[:, :seen, own]))
        result[:, token] = torch.cat(reads, -1) @ module.output.weight.T + module.output.bias
    return result


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("heads", "head_width"), [(1, 6), (2, 3), (3, 5), (4, 1)])
def test_attention_is_its_formula_for_any_head_width(heads: int, head_width: int, causal: bool) -> None:
    module = attention(heads=heads, head_width=head_width, causal=causal)
    stream = numbers(2, 5, 6, seed=9)
    torch.testing.assert_close(module(stream), by_hand(module, stream), rtol=0, atol=1e-12)


@pytest.mark.parametrize("token", range(5))
def test_a_causal_token_sees_itself_and_what_came_before(token: int) -> None:
    module = attention(heads=2, head_width=3)
    stream = numbers(1, 5, 6, seed=9)
    changed = stream.clone()
    changed[:, token] += 1
    moved = (module(changed) != module(stream)).any(-1)[0]
    assert moved.tolist() == [place >= token for place in range(5)]


def test_full_attention_sees_everything() -> None:
    module = attention(heads=2, head_width=3, causal=False)
    stream = numbers(1, 5, 6, seed=9)
    changed = stream.clone()
    changed[:, 4] += 1
    assert (module(changed) != module(stream)).any(-1).all()


def test_scores_grow_with_the_scale() -> None:
    stream = numbers(1, 5, 6, seed=9)
    sharp, flat = (attention(heads=1, head_width=6, causal=False, scale=scale) for scale in (1e4, 0.0))
    value = (stream @ flat.qkv.weight.T + flat.qkv.bias)[..., 12:]
    mean = (value.mean(1, keepdim=True) @ flat.output.weight.T + flat.output.bias).expand(1, 5, 6)
    torch.testing.assert_close(flat(stream), mean, rtol=0, atol=1e-12)
    picked = value @ sharp.output.weight.T + sharp.output.bias
    nearest = (sharp(stream)[0, :, None] - picked[0, None]).abs().amax(-1).amin(-1)
    assert nearest.max() < 1e-9


def test_without_bias_zero_stays_zero() -> None:
    module = Attention(Layers(1, heads=2, bias=False).sizes(6))
    assert not module(torch.zeros(1, 4, 6)).any()
    assert {name for name, _ in module.named_parameters()} == {"qkv.weight", "output.weight"}


def test_a_mask_decides_what_is_seen_whatever_the_direction() -> None:
    """Against one query at a time over the keys that its row of the mask leaves."""
    mask = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    mask |= torch.eye(5, dtype=torch.bool)
    stream = numbers(2, 5, 6, seed=9)
    for causal in (True, False):
        module = attention(heads=2, head_width=3, causal=causal)
        found = module(stream, AttentionContext(mask=mask))
        full = attention(heads=2, head_width=3, causal=False)
        for row in range(2):
            for token in range(5):
                # the token itself last, so that its own query is the last one
                others = [key for key in range(5) if mask[row, 0, token, key] and key != token]
                seen = stream[row : row + 1, [*others, token]]
                torch.testing.assert_close(found[row, token], full(seen)[0, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("visit", [None, lambda weights: weights], ids=["fused", "explicit"])
def test_a_mask_may_be_numbers_that_are_added_to_the_scores(visit: Callable[[Tensor], Tensor] | None) -> None:
    mask = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    mask |= torch.eye(5, dtype=torch.bool)
    module, stream = attention(heads=2, head_width=3), numbers(2, 5, 6, seed=9)
    found = module(stream, AttentionContext(mask=added_to_scores(mask, torch.float64), visit_weights=visit))
    torch.testing.assert_close(found, module(stream, AttentionContext(mask=mask)), rtol=0, atol=1e-12)


def test_rows_of_a_mask_of_numbers_begin_at_16_bytes() -> None:
    """Other rows are copied by PyTorch's kernels in every layer."""
    made = added_to_scores(torch.tensor([[[[True, False, True]]]] * 2), torch.bfloat16)
    assert made.flatten().tolist() == [0, -torch.inf, 0] * 2
    assert made.stride(0) % 8 == 0


def test_a_causal_mask_is_causal_attention() -> None:
    module, stream = attention(heads=2, head_width=3), numbers(2, 5, 6, seed=9)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(
        module(stream, AttentionContext(mask=mask)), module(stream), rtol=0, atol=1e-12
    )


def test_cached_keys_and_values_are_attended_to() -> None:
    class Past:
        def __init__(self) -> None:
            self.keys = self.values = torch.empty(1, 2, 0, 3, dtype=torch.float64)

        def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            self.keys, self.values = torch.cat([self.keys, key], 2), torch.cat([self.values, value], 2)
            return self.keys, self.values

    module, stream, past = attention(heads=2, head_width=3), numbers(1, 5, 6, seed=9), Past()
    found = []
    for token in range(5):
        mask = torch.ones(1, 1, 1, token + 1, dtype=torch.bool)
        found.append(module(stream[:, token : token + 1], AttentionContext(mask=mask, cache=past)))
    torch.testing.assert_close(torch.cat(found, 1), module(stream), rtol=0, atol=1e-12)
