import dataclasses
import math
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, one_hot

from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.network import Network, write_network
from algoformer.theory.subspace import Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter

from .linearized import fitted_power, fitted_rate
from .written import normal, run

TOKENS = 9
BITS = quasi_orthogonal(TOKENS).shape[1]
SPACE = Subspaces(
    {
        "x": (3, ""),
        "y": (3, ""),
        "one": (1, ""),
        "sink": (1, ""),
        "masked": (1, ""),
        "log_count": (1, ""),
        "code": (BITS, ""),
        "target": (BITS, ""),
    }
)


def stream(*, target: Tensor | None = None) -> Tensor:
    """x everywhere but at the sink, which comes first; tokens 7 and 8 are masked."""
    values = torch.zeros(2, TOKENS, SPACE.width, dtype=torch.float64)
    values[..., SPACE.run("x")] = normal(2, TOKENS, 3)
    values[:, 0, SPACE.run("x")] = 0
    values[..., SPACE.run("one")] = 1
    values[:, 0, SPACE.run("sink")] = 1
    values[:, 7:, SPACE.run("masked")] = 1
    values[..., SPACE.run("log_count")] = math.log(6)
    values[..., SPACE.run("code")] = quasi_orthogonal(TOKENS)
    if target is not None:
        values[..., SPACE.run("target")] = quasi_orthogonal(TOKENS)[target]
    return values


def part(values: Tensor, name: str) -> Tensor:
    return values[..., SPACE.run(name)]


@pytest.mark.theorem
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_a_copying_head_moves_values_bit_for_bit(shift: int) -> None:
    target = (torch.arange(TOKENS) - shift) % TOKENS
    before = stream(target=target)
    writer = LayerWriter(SPACE)
    writer.attend(query="target", key="code", value="x", into="y")
    after = run(writer, before)
    assert torch.equal(part(after, "y"), part(before, "x")[:, target])
    assert torch.equal(part(after, "x"), part(before, "x"))


@pytest.mark.theorem
def test_tokens_that_tie_share_their_mean() -> None:
    before = stream()
    before[..., SPACE.run("code")] = quasi_orthogonal(TOKENS)[torch.arange(TOKENS) // 2]
    writer = LayerWriter(SPACE)
    writer.attend(query="code", key="code", value=2 * SPACE.read("x"), into="y")
    after = run(writer, before)
    pair = part(before, "x")[:, 2] + part(before, "x")[:, 3]
    assert torch.equal(part(after, "y")[:, 2], pair)
    assert torch.equal(part(after, "y")[:, 3], pair)


def linearized(before: Tensor, constants: Constants, *, rate: float = 0.7) -> Tensor:
    writer = LayerWriter(SPACE, constants)
    common = writer.sink_scores(sink="sink", masked="masked", log_count="log_count")
    writer.linear_attention(query="x", key="x", value="x", into="y", rate=rate, unit=3.0, common=common)
    return part(run(writer, before), "y")


def mean_product(before: Tensor, *, rate: float = 0.7) -> Tensor:
    """rate/6 Σ over tokens 1..6 of x_i (x_i · x_j)."""
    x, seen = part(before, "x"), part(before, "x")[:, 1:7]
    return rate / 6 * (x @ seen.mT) @ seen


@pytest.mark.theorem
def test_two_heads_with_opposite_scores_are_linear_attention() -> None:
    before = stream()
    expected = mean_product(before)
    # the law: c² z³ / 6 · unit, with |z| up to 4
    assert (linearized(before, DOUBLE) - expected).abs().max() < 1e-7


@pytest.mark.theorem
def test_the_error_of_linear_attention_falls_as_the_square_of_c() -> None:
    before = stream()
    points = []
    for c in (3e-2, 1e-2, 3e-3, 1e-3):
        gap = linearized(before, dataclasses.replace(DOUBLE, c=c)) - mean_product(before)
        points.append((c, gap.abs().max().item()))
    assert fitted_power(points) == pytest.approx(2, rel=0.05)


@pytest.mark.theorem
def test_the_error_of_linear_attention_falls_as_e_to_the_minus_sink() -> None:
    before = stream()
    points = []
    for sink in (6.0, 8.0, 10.0, 12.0, 14.0):
        gap = linearized(before, dataclasses.replace(DOUBLE, sink=sink)) - mean_product(before)
        points.append((sink, gap.abs().max().item()))
    assert fitted_rate(points) == pytest.approx(-1, rel=0.05)


@pytest.mark.theorem
def test_a_token_without_a_query_is_left_alone_to_the_last_bit() -> None:
    assert torch.equal(linearized(stream(), DOUBLE)[:, 0], torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.theorem
def test_masked_tokens_are_not_read() -> None:
    before = stream()
    other = before.clone()
    other[:, 7:, SPACE.run("x")] = 100.0
    assert torch.equal(linearized(before, DOUBLE)[:, :7], linearized(other, DOUBLE)[:, :7])


@pytest.mark.theorem
@pytest.mark.parametrize(
    ("positive", "negative"), [(1.0, 1.0), (1.0, 0.25), (1.0, 4.0), (-1.0, -2.0), (0.0, 1.0)]
)
def test_piecewise_linear_functions_are_exact(positive: float, negative: float) -> None:
    before = stream()
    writer = LayerWriter(SPACE)
    writer.add("x", "y", positive=positive, negative=negative)
    x = part(before, "x")
    expected = torch.where(x >= 0, positive * x, negative * x)
    assert torch.equal(part(run(writer, before), "y"), expected)


@pytest.mark.theorem
@pytest.mark.parametrize("slope", [0.5, 0.25, 0.125])
def test_the_inverse_of_a_leaky_relu_undoes_it(slope: float) -> None:
    before = stream()
    folded = before.clone()
    folded[..., SPACE.run("x")] = leaky_relu(part(before, "x"), slope)
    writer = LayerWriter(SPACE)
    writer.add("x", "y", negative=1 / slope)
    assert torch.equal(part(run(writer, folded), "y"), part(before, "x"))


@pytest.mark.theorem
def test_a_gate_passes_all_or_nothing() -> None:
    before = stream()
    writer = LayerWriter(SPACE)
    writer.add("x", "y", closed=SPACE.read("masked"), bound=1000.0)
    expected = part(before, "x") * (1 - part(before, "masked"))
    assert torch.equal(part(run(writer, before), "y"), expected)


@pytest.mark.theorem
def test_feed_forward_networks_are_the_layers_of_a_perceptron_in_place() -> None:
    before = stream()
    weights, biases = (normal(2, 3, seed=1), normal(3, 2, seed=2)), (normal(2, seed=3), normal(3, seed=4))
    network = Network(dim=3, weights=weights, biases=biases, slope=0.2)
    where = SPACE.read("one") - SPACE.read("sink")
    after = before
    for writer in write_network(
        partial(LayerWriter, SPACE), network, source=SPACE.read("x"), into="y", where=where
    ):
        after = run(writer, after)
    expected = network(part(before, "x"))
    assert (part(after, "y")[:, 1:] - expected[:, 1:]).abs().max() < 4e-15
    assert torch.equal(part(after, "y")[:, 0], torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.theorem
def test_clearing_leaves_exact_zeros() -> None:
    writer = LayerWriter(SPACE)
    writer.clear("x", first=2)
    before = stream()
    after = part(run(writer, before), "x")
    assert torch.equal(after[..., :2], torch.zeros(2, TOKENS, 2, dtype=torch.float64))
    assert torch.equal(after[..., 2:], part(before, "x")[..., 2:])


@pytest.mark.theorem
def test_one_hot_codes_are_compared_exactly() -> None:
    space = Subspaces({"a": (3, ""), "b": (3, ""), "also": (1, ""), "one": (1, ""), "same": (1, "")})
    a, b = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    for also in (0, 1):
        values = torch.zeros(1, 9, space.width, dtype=torch.float64)
        values[..., space.run("a")] = one_hot(a.flatten(), 3).double()
        values[..., space.run("b")] = one_hot(b.flatten(), 3).double()
        values[..., space.run("one")], values[..., space.run("also")] = 1, also
        for used in (False, True):
            writer = LayerWriter(space)
            writer.match("a", "b", "same", gain=1.0, also="also" if used else None)
            found = run(writer, values)[0, :, space.run("same")].flatten()
            expected = (a == b).flatten().double() * (also if used else 1)
            assert torch.equal(found, expected)
