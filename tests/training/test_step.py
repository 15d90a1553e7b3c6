from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from algoformer import programs, tasks
from algoformer.data.objective import log_loss, window_loss
from algoformer.data.protocol import Share
from algoformer.prompt import Prompt
from algoformer.training import Ramp
from algoformer.training.config import unroll_at
from small_tasks import small_task
from training.small import loss_at, same_weights, small, stepper


def _truncated(prompt: Prompt, samples: int) -> Prompt:
    points = sum(row // prompt.parts < samples for row in prompt.reads)
    return Prompt(
        rows=prompt.rows[:, : samples * prompt.parts],
        targets=prompt.targets[:, :points],
        reads=prompt.reads[:points],
        parts=prompt.parts,
    )


def _gradients(model: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, weights = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, weights, materialize_grads=True), strict=True))


@pytest.mark.parametrize(
    "task",
    [
        tasks.LinearRegression(dim=2, points=6),
        tasks.ChainOfThought(dim=2, points=6, layers=2),
        tasks.AutoregressiveWithRepresentation(dim=2, points=7, order=1),
    ],
    ids=lambda task: type(task).__name__,
)
@pytest.mark.parametrize("loss", [window_loss, log_loss])
def test_a_points_curriculum_by_weights_is_training_on_shorter_prompts(task: Any, loss: Any) -> None:
    experiment = small(task=task, samples=Ramp(start=3, increment=1, interval=1.0))
    step = stepper(experiment)
    prompt = task.sample(5, generator=torch.Generator().manual_seed(1))
    unroll = unroll_at(experiment.program, experiment.training, 0)
    masked = loss(step.model(prompt, unroll), prompt, step.batches.weights)
    shorter = _truncated(prompt, 3)
    cut = loss(step.model(shorter, unroll), shorter)
    assert masked.item() == pytest.approx(cut.item(), rel=1e-5)
    expected = _gradients(step.model, cut)
    for name, gradient in _gradients(step.model, masked).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6, msg=name)


def test_a_dims_curriculum_masks_the_prompts() -> None:
    experiment = small(
        task=tasks.LinearRegression(dim=5, points=4), dims=Ramp(start=2, increment=1, interval=0.5)
    )
    step = stepper(experiment)
    xs = step.batches.current().prompt.part(0)
    assert xs[..., :2].abs().min() > 0
    assert xs[..., 2:].abs().max() == 0
    step.prepare(6)
    xs = step.batches.current().prompt.part(0)
    assert xs[..., :3].abs().min() > 0
    assert xs[..., 3:].abs().max() == 0


def test_prepare_sets_rate_and_weights_anew_each_time() -> None:
    experiment = small(samples=Ramp(start=1, increment=1, interval=0.25), steps=8, lr=1.0, warmup=0.5)
    step = stepper(experiment)
    batches = step.batches
    assert (batches.weights.tolist(), batches.last.tolist()) == ([1, 0, 0, 0], [0])
    assert step.optimizer.adam.param_groups[0]["lr"] == 0.25
    step.prepare(7)
    assert (batches.weights.tolist(), batches.last.tolist()) == ([1, 1, 1, 1], [3])
    assert step.optimizer.rate == 1
    assert step.optimizer.adam.param_groups[0]["lr"] == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (programs.algoformer(steps=3, heads=2), {}),
        (programs.algoformer(steps=3, heads=2), {"burn_in": (3,)}),
        (programs.algoformer(steps=3, heads=2), {"backprop": "full", "burn_in": (2,)}),
        (programs.algoformer(steps=3, heads=2, inject="gate"), {"burn_in": (2,)}),
        (programs.looped(steps=3, heads=2), {"burn_in": (2,)}),
        (programs.standard(2, heads=2), {}),
        (programs.nested(steps=3, inner_steps=2, heads=2), {"burn_in": (1,)}),
        (programs.two_loops(steps=3, heads=2), {"burn_in": (1,)}),
        (programs.algoformer(steps=3, heads=2, inject="none"), {"backprop": "full"}),
    ],
    ids=str,
)
def test_every_weight_gets_a_gradient(program: Any, settings: dict[str, Any], precision: Any) -> None:
    experiment = small(program, precision=precision, **settings)
    step = stepper(experiment)
    loss_at(step).backward()
    for name, weight in step.model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.dtype == torch.float32
        assert weight.grad.isfinite().all(), name
        # a bias of the keys moves all scores of a token alike: its gradient is zero but for rounding
        assert weight.grad.abs().max() > 0, name


def test_in_half_precision_burn_in_does_not_take_the_gradient_away() -> None:
    experiment = small(window=2, burn_in=(4,), precision="bf16", batch_size=16)
    exact = small(window=2, burn_in=(4,), batch_size=16)
    gradients = []
    for item in (experiment, exact):
        step = stepper(item)
        gradients.append(_gradients(step.model, loss_at(step)))
    for name, gradient in gradients[1].items():
        if gradient.norm() > 1e-3:
            difference = (gradients[0][name] - gradient).norm() / gradient.norm()
            assert difference < 0.2, f"{name}: {difference:.3f}"


def test_autocasts_own_cache_would_have_taken_it_away() -> None:
    """The trap that `HalfBody` avoids, so that nobody simplifies it into it (torch issue 112583)."""
    experiment = small(window=2, burn_in=(2,))
    step = stepper(experiment)
    prompt = step.batches.current().prompt
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=True):
        trace = step.model(prompt, unroll_at(experiment.program, experiment.training, 0))
    gradients = _gradients(step.model, window_loss(trace, prompt))
    lost = [name for name, value in gradients.items() if "loop" in name or ".1." in name if not value.any()]
    if not lost:
        pytest.skip("this version of torch has mended its cache")
    assert any("weight" in name for name in lost)


def test_in_half_precision_stream_weights_and_loss_stay_single() -> None:
    experiment = small(precision="bf16")
    step = stepper(experiment)
    seen: dict[str, torch.dtype] = {}
    for name, module in step.model.named_modules():
        if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm):
            module.register_forward_hook(
                lambda module, inputs, output, name=name: seen.__setitem__(name, output.dtype)
            )
    loss = loss_at(step)
    assert loss.dtype == torch.float32
    for name, dtype in seen.items():
        inside = name.startswith("body") and "norm" not in name
        assert dtype == (torch.bfloat16 if inside else torch.float32), name
    assert all(weight.dtype == torch.float32 for weight in step.model.parameters())
    step.run(0)
    assert all(value.dtype == torch.float32 for s in step.optimizer.state.values() for value in s.values())


class NothingReadBack(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func in (aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default):
            raise AssertionError(f"{func} would wait for the device, and cannot be captured")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", tasks.TASKS)
def test_nothing_in_a_step_is_read_back(name: str, precision: Any) -> None:
    task = small_task(name)
    dims = Ramp(start=1, increment=1) if task.takes_dims else None
    experiment = small(task=task, clip_norm=1.0, burn_in=(1,), precision=precision, dims=dims)
    step = stepper(experiment)
    step.run(0)  # first calls may fill caches
    step.prepare(1)
    with NothingReadBack():
        step.take()


def test_clipping_bounds_the_gradient_that_adam_sees() -> None:
    experiment = small(clip_norm=1e-3)
    step = stepper(experiment)
    step.run(0)
    total = torch.stack([weight.grad.norm() for weight in step.model.parameters()]).norm()
    assert total.item() == pytest.approx(1e-3, rel=1e-2)
    free = stepper(small())
    free.run(0)
    free_total = torch.stack([weight.grad.norm() for weight in free.model.parameters()]).norm()
    assert free_total > 0.01


def test_a_step_is_adam_on_the_window_loss() -> None:
    experiment = small(clip_norm=0.5)
    step, twin = stepper(experiment), stepper(experiment)
    adam = torch.optim.Adam(twin.model.parameters(), lr=1e-3)
    for number in range(3):
        step.run(number)
        adam.zero_grad()
        loss_at(twin, number).backward()
        torch.nn.utils.clip_grad_norm_(twin.model.parameters(), 0.5)
        adam.step()
    for (name, one), (_, other) in zip(
        step.model.named_parameters(), twin.model.named_parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6, msg=name)


def test_a_step_descends_on_the_logarithms_and_shows_the_geometric_mean() -> None:
    experiment = small(loss="log", optimizer="adam", batch_size=4)
    step, twin = stepper(experiment), stepper(experiment)
    unroll = unroll_at(experiment.program, experiment.training, 0)
    prompt = twin.batches.current().prompt
    trace = twin.model(prompt, unroll)
    errors = (trace.predictions - prompt.targets).square().mean(dim=(1, 3))
    expected = _gradients(twin.model, errors.log().mean())
    step.run(0)
    for name, weight in step.model.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], rtol=1e-4, atol=1e-6, msg=name)
    assert step.sums[0].item() == pytest.approx(errors.log().mean().exp().item(), rel=1e-5)


def test_sums_add_up_losses_and_errors() -> None:
    experiment = small(task=tasks.LinearRegression(dim=2, points=4, noise=0.1))
    step, twin = stepper(experiment), stepper(experiment)
    unroll = unroll_at(experiment.program, experiment.training, 0)
    losses, errors = 0.0, 0.0
    for number in range(3):
        twin.prepare(number)
        prompt = twin.batches.current().prompt
        trace = twin.model(prompt, unroll)
        losses += window_loss(trace, prompt).item()
        errors += ((trace.final - prompt.targets)[:, -1].square().sum(-1).mean() / 2).item()
        twin.run(number)
        step.run(number)
    assert step.read_sums() == pytest.approx((losses, errors), rel=1e-5)
    assert same_weights(step.model, twin.model)


def test_a_batch_is_a_function_of_seed_and_step_alone() -> None:
    one, other = stepper(small()).batches, stepper(small()).batches
    drawn = []
    for number in range(4):
        one.select(number)
        drawn.append(one.current().prompt.rows)
    other.select(2)
    assert torch.equal(other.current().prompt.rows, drawn[2])
    assert not torch.equal(drawn[1], drawn[2])
    another = stepper(small(seed=1)).batches
    another.select(2)
    assert not torch.equal(another.current().prompt.rows, drawn[2])


def test_the_shares_of_processes_are_the_batch() -> None:
    experiment = small()
    step = stepper(experiment)
    step.batches.select(5)
    whole = step.batches.current().prompt.rows
    parts = []
    for rank in range(2):
        share = Share(rank, 2)
        batches = experiment.data.batches(step.model, experiment.training, share)
        batches.select(5)
        parts.append(batches.current().prompt.rows)
    assert torch.equal(torch.cat(parts), whole)
    with pytest.raises(ValueError, match="batch_size=4 cannot be shared evenly by 3 processes"):
        experiment.data.batches(step.model, experiment.training, Share(0, 3))
