"""Triton kernels compute what the plain operations say. Without a GPU, Triton's interpreter runs them."""

import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from algoformer.kernels import operations
from kernels.bodies import Case, by_hand

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels were made for a GPU in this process", allow_module_level=True)

from triton.runtime import interpreter

from algoformer.kernels import launch

CASES = (
    Case(layers=1, tokens=24),
    Case(layers=2, tokens=24, read_rows=(0, 2, 4, 23)),
    Case(layers=1, tokens=20, steps=3, tracked=2, window=2),
    Case(layers=1, tokens=20, causal=False, read_rows=tuple(range(0, 20, 2))),
)
"""Rows and tokens that do not fill their blocks; keys in one block, in tiles, in several blocks."""


@pytest.fixture(autouse=True)
def computed_ends_of_loops(monkeypatch: Any) -> None:
    """The interpreter's scalars have one entry, which numpy does not take for an integer any more."""
    patch = interpreter._patch_lang_tensor

    def and_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda scalar: scalar.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", and_index)


@pytest.fixture(params=["one block of keys", "tiles of keys", "several blocks", "many prompts"])
def small_tiles(request: pytest.FixtureRequest, monkeypatch: Any) -> None:
    """Blocks so small that these little cases have several of each kind."""
    kind = request.param
    for name in ("WHOLE_ROWS", "WHOLE_ROWS_BACKWARD", "MANY_ROWS_BACKWARD"):
        monkeypatch.setattr(launch, name, replace(getattr(launch, name), rows=4, groups=2))
    for name in ("GELU", "GELU_BACKWARD"):
        monkeypatch.setattr(launch, name, replace(getattr(launch, name), rows=16, columns=32))
    columns = {"one block of keys": 64, "tiles of keys": 64, "several blocks": 16, "many prompts": 64}[kind]
    rows = 64 if kind == "one block of keys" else 16
    monkeypatch.setattr(launch, "SHORT", replace(launch.SHORT, rows=rows, columns=columns))
    monkeypatch.setattr(launch, "LONG", replace(launch.LONG, rows=16, columns=16))
    for name, tall, keys, groups in (
        ("SHORT_BACKWARD", rows, rows, 4),
        ("SHORT_BACKWARD_MANY", 8, 16, 2),
        ("LONG_BACKWARD", 8, 16, 2),
    ):
        tile = replace(getattr(launch, name), rows=tall, columns=keys, groups=groups)
        monkeypatch.setattr(launch, name, tile)
    if kind == "many prompts":
        monkeypatch.setattr(launch, "MANY_PROMPTS", 1)
        monkeypatch.setattr(launch, "MANY_ROWS", 1)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_are_the_plain_operations(case: Case) -> None:
    expected, expected_grads = by_hand(case, operations)
    found, grads = by_hand(case, launch)
    torch.testing.assert_close(found, expected, rtol=0, atol=3e-6)
    for one, other in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=5e-6 * float(other.abs().max()))


@pytest.mark.usefixtures("small_tiles")
def test_half_precision_is_rounded_where_the_plain_operations_round() -> None:
    case = CASES[1]
    expected, expected_grads = by_hand(case, operations, torch.float16)
    found, grads = by_hand(case, launch, torch.float16)
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)
    for one, other in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=4e-3 * float(other.abs().max()))


@pytest.mark.usefixtures("small_tiles")
def test_the_gradient_of_a_query_that_was_not_selected_is_written_and_zero() -> None:
    heads = operations.Heads(count=2, width=16, causal=True)
    selection = operations.Selection.of(torch.tensor([0, 3, 4, 18, 22]), 24)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(2, 24, 96, generator=generator)
    grads = torch.randn(2, 5, 32, generator=generator)
    answer, log_sum = torch.empty(2, 5, 32), torch.empty(2, 2, 5)
    operations.attend(qkv, heads, selection=selection, out=answer, log_sum=log_sum)

    def backward(work: Any) -> tuple[torch.Tensor, torch.Tensor]:
        # whatever was in memory before must not matter
        out, sums = torch.full((2, 24, 96), torch.nan), torch.full((2, 96), torch.nan)
        work.attend_backward(
            grads, qkv, heads, selection=selection, answer=answer, log_sum=log_sum, out=out, sums=sums
        )
        return out, sums

    out, sums = backward(launch)
    assert torch.equal(out[:, selection.number < 0, :32], torch.zeros(2, 19, 32))
    torch.testing.assert_close((out, sums), backward(operations), rtol=0, atol=1e-5)
