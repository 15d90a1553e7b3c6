import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim._muon import _zeropower_via_newtonschulz as zeropower

from algoformer import Layers, Program, programs
from algoformer.training import TrainConfig, build_model
from algoformer.training import optimizer as muon_module
from algoformer.training.optimizer import (
    ModelOptimizer,
    TensorRateMuon,
    hidden_matrices,
    move_towards,
    orthogonalized,
)
from training.small import same_weights, small, stepper
from training.test_step import NothingReadBack

SHAPES = [(6, 6), (24, 8), (8, 24), (3, 1)]


def _weights(seed: int, shapes: Any = SHAPES, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return [torch.nn.Parameter(value) for value in values]


def _give_gradients(weights: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


def _named(weights: Any, model: torch.nn.Module) -> set[str]:
    wanted = {id(weight) for weight in weights}
    return {name for name, weight in model.named_parameters() if id(weight) in wanted}


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("decay", [0.0, 0.1, 2.0])
def test_muon_with_its_rate_in_a_tensor_is_pytorchs_with_a_number(
    decay: float, dtype: torch.dtype, close: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PyTorch's own multiplies in bf16 on every device: of the products themselves see the next test
    monkeypatch.setattr(
        muon_module,
        "orthogonalized",
        lambda matrices: [
            zeropower(one, muon_module.COEFFICIENTS, muon_module.ITERATIONS, muon_module.LEAST_NORM).to(dtype)
            for one in matrices
        ],
    )
    ours, theirs = _weights(0, dtype=dtype), _weights(0, dtype=dtype)
    rate = torch.tensor(0.0, dtype=dtype)
    muon = TensorRateMuon(ours, rate=rate, weight_decay=decay)
    reference = torch.optim.Muon(
        theirs, lr=1.0, weight_decay=decay, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"
    )
    for number in range(30):
        rate.fill_(1e-2 * math.sin(number + 1) ** 2)
        reference.param_groups[0]["lr"] = 1e-2 * math.sin(number + 1) ** 2
        for weights in (ours, theirs):
            _give_gradients(weights, number)
        muon.step()
        reference.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=close, atol=close)
        assert torch.equal(muon.state[one]["momentum_buffer"], reference.state[other]["momentum_buffer"])


def _polynomial(matrix: Tensor) -> Tensor:
    """Five Newton-Schulz iterations by what they do to singular values, in double precision."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    a, b, c = muon_module.COEFFICIENTS
    for _ in range(muon_module.ITERATIONS):
        values = a * values + b * values**3 + c * values**5
    return left @ torch.diag(values) @ right


def test_all_matrices_are_orthogonalized_together_each_as_if_alone() -> None:
    shapes = [(16, 16), (24, 8), (8, 24), (16, 16), (24, 8), (3, 1)]
    matrices = [weight.detach() for weight in _weights(3, shapes)]
    matrices[3] *= 1e-5  # whatever its size
    together = orthogonalized(matrices)
    for given, found in zip(matrices, together, strict=True):
        assert found.shape == given.shape
        # single values grow by up to 3.4 in an iteration, and what was rounded before with them
        torch.testing.assert_close(found, _polynomial(given).float(), rtol=0, atol=1e-4)
        # PyTorch's: fifteen products in bf16, each rounded to 2⁻⁸ of what is at most 1.2
        halves = zeropower(given, muon_module.COEFFICIENTS, 5, 1e-7).float()
        assert (found - halves).norm() < 15 * 2**-8 * 1.2 * math.sqrt(min(given.shape))


@pytest.mark.parametrize("shape", [(32, 8), (8, 32), (64, 16)])
def test_a_step_of_muon_is_near_orthogonal_and_as_large_as_adams(shape: tuple[int, int]) -> None:
    weights = _weights(0, [shape])
    before = weights[0].detach().clone()
    muon = TensorRateMuon(weights, rate=torch.tensor(0.01), weight_decay=0.0)
    _give_gradients(weights, 1)
    muon.step()
    step = (before - weights[0].detach()) / 0.01
    # the five Newton-Schulz iterations take singular values into about 0.7..1.2, on purpose not to 1
    singular = torch.linalg.svdvals(step / (0.2 * math.sqrt(max(shape))))
    assert singular.min() > 0.6
    assert singular.max() < 1.3
    # of a matrix with all singular values s the root mean square is s / √max(shape)
    assert 0.12 < step.square().mean().sqrt() < 0.26
    assert (step * weights[0].grad).sum() > 0


def test_a_matrix_without_a_gradient_stays_exactly_where_it_is() -> None:
    weights = _weights(0)
    before = [weight.detach().clone() for weight in weights]
    muon = TensorRateMuon(weights, rate=torch.tensor(0.1), weight_decay=0.5)
    _give_gradients(weights[:1], 1)
    muon.step()
    assert not torch.equal(weights[0], before[0])
    assert all(torch.equal(*pair) for pair in zip(weights[1:], before[1:], strict=True))


def test_moving_all_the_way_arrives_and_no_way_stays() -> None:
    values, targets = [torch.tensor([0.1, 0.7])], [torch.tensor([0.3, -2.0])]
    move_towards(values, targets, torch.tensor(0.0))
    assert values[0].tolist() == torch.tensor([0.1, 0.7]).tolist()
    move_towards(values, targets, torch.tensor(1.0))
    torch.testing.assert_close(values[0], targets[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "program",
    [
        programs.algoformer(steps=3, heads=2, inject="gate"),
        programs.nested(steps=3, inner_steps=2, heads=2),
        programs.two_loops(steps=3, heads=2),
    ],
    ids=str,
)
def test_the_hidden_matrices_are_the_linear_maps_of_the_body(program: Any) -> None:
    model = build_model(small(program))
    found = _named(hidden_matrices(model), model)
    ends = ("qkv.weight", "output.weight", "up.weight", "down.weight")
    assert found == {name for name, _ in model.named_parameters() if name.endswith(ends)}
    outside = {name for name, _ in model.named_parameters()} - found
    assert {"read_in.maps.0.weight", "read_out.weight"} < outside
    assert any("positions" in name for name in outside)


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_every_weight_is_moved_by_exactly_one_rule(name: Any) -> None:
    model = build_model(small())
    optimizer = ModelOptimizer(model, TrainConfig(optimizer=name))
    rules = [optimizer.adam] if optimizer.muon is None else [optimizer.adam, optimizer.muon]
    moved = [id(weight) for rule in rules for group in rule.param_groups for weight in group["params"]]
    assert sorted(moved) == sorted(id(weight) for weight in model.parameters())
    _give_gradients(model.parameters(), 0)
    optimizer.step()
    for weight in model.parameters():
        kept = optimizer.state[weight]
        assert kept.keys() == optimizer.state_like(weight).keys()
        for key, like in optimizer.state_like(weight).items():
            assert (kept[key].shape, kept[key].dtype) == (like.shape, like.dtype)
    matrices = {id(matrix) for matrix in hidden_matrices(model)}
    by_muon = {id(weight) for weight, kept in optimizer.state.items() if "momentum_buffer" in kept}
    assert by_muon == (matrices if name == "muon" else set())


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_without_gradients_matrices_shrink_by_the_decay_and_nothing_else_moves(name: Any) -> None:
    model = build_model(small())
    before = copy.deepcopy(model)
    optimizer = ModelOptimizer(model, TrainConfig(optimizer=name, weight_decay=0.25))
    optimizer.set_rate(0.1)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    matrices = _named(hidden_matrices(model), model)
    for (label, weight), old in zip(model.named_parameters(), before.parameters(), strict=True):
        expected = old * (1 - 0.1 * 0.25) if label in matrices else old
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=0, msg=label)


def test_adamw_is_pytorchs_with_the_decay_on_matrices() -> None:
    model = build_model(small())
    twin = copy.deepcopy(model)
    optimizer = ModelOptimizer(
        model, TrainConfig(optimizer="adamw", weight_decay=0.3, betas=(0.5, 0.8), lr=0.01)
    )
    matrices = _named(hidden_matrices(model), model)
    groups = [
        {"params": [weight], "weight_decay": 0.3 if name in matrices else 0.0}
        for name, weight in twin.named_parameters()
    ]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.5, 0.8), foreach=False, fused=False)
    for number in range(5):
        for weights in (model.parameters(), twin.parameters()):
            _give_gradients(weights, number)
        optimizer.step()
        reference.step()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_adamw_without_decay_is_adam() -> None:
    steps = [stepper(small(optimizer=name, betas=(0.8, 0.9))) for name in ("adam", "adamw")]
    for step in steps:
        for _ in range(3):
            step.run(0)
    assert same_weights(steps[0].model, steps[1].model)


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_a_step_goes_as_far_as_the_newest_rate_says(name: Any) -> None:
    ways = []
    for rate in (1e-3, 2e-3):
        model = build_model(small()).double()  # a small step from a large weight must not be rounded away
        before = [weight.detach().clone() for weight in model.parameters()]
        optimizer = ModelOptimizer(model, TrainConfig(optimizer=name, lr=0.5))
        optimizer.set_rate(rate)
        _give_gradients(model.parameters(), 3)
        optimizer.step()
        ways.append([weight.detach() - old for weight, old in zip(model.parameters(), before, strict=True)])
    for one, other in zip(*ways, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(2 * one, other, rtol=1e-6, atol=1e-12)


def test_muon_needs_a_matrix() -> None:
    experiment = small(Program(Layers(0, heads=2)), optimizer="muon")
    with pytest.raises(ValueError, match="this one has none; use 'adamw'"):
        stepper(experiment)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_nothing_in_a_step_with_any_optimizer_is_read_back(name: Any, precision: Any) -> None:
    experiment = small(optimizer=name, ema=0.9, precision=precision, clip_norm=1.0)
    step = stepper(experiment)
    step.run(0)  # first calls may fill caches
    step.prepare(1)
    with NothingReadBack():
        step.take()
