from typing import Any

import pytest
import torch

from algoformer.model.parts import LayersModule, LoopModule
from algoformer.training import train
from algoformer.training.engine import CapturedStep
from training.small import loss_at, same_weights, small, stepper
from training.test_engine import PretendCuda


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("settings", [{"backprop": "full"}, {"burn_in": (0, 2)}], ids=str)
def test_a_run_that_recomputes_takes_the_same_steps(precision: Any, settings: dict[str, Any]) -> None:
    plain = train(small(precision=precision, steps=4, **settings))
    again = train(small(precision=precision, steps=4, gradient_checkpointing=True, **settings))
    assert same_weights(plain.model, again.model)


@pytest.mark.usefixtures("as_a_user")
def test_half_precision_is_recomputed_with_the_rounded_weights() -> None:
    """By the time of the backward pass the model holds its own weights: the copies must be put back."""
    experiment = small(precision="bf16", backprop="full", gradient_checkpointing=True)
    step = stepper(experiment)
    (loop,) = [part for part in step.model.modules() if isinstance(part, LoopModule)]
    assert isinstance(loop.body.parts[0], LayersModule)
    linear = loop.body.parts[0].layers[0].feedforward.up
    seen: list[tuple[bool, torch.dtype]] = []
    phase = {"backward": False}
    linear.register_forward_hook(
        lambda module, given, result: seen.append((phase["backward"], module.weight.dtype))
    )
    loss = loss_at(step)
    phase["backward"] = True
    loss.backward()
    assert seen == [(False, torch.bfloat16)] * 3 + [(True, torch.bfloat16)] * 3
    assert linear.weight.dtype == torch.float32


@pytest.mark.usefixtures("as_a_user")
def test_a_capture_knows_whether_it_recomputes(monkeypatch: pytest.MonkeyPatch) -> None:
    step = stepper(small(backprop="full"))
    pretended = PretendCuda(monkeypatch, step)
    captured = CapturedStep(step)
    for recompute in (False, True, False):
        step.training = small(backprop="full", gradient_checkpointing=recompute).training
        captured.run(0)
    assert pretended.captures == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("engine", ["graph", "compiled"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_engines_recompute_too(engine: Any, precision: Any) -> None:
    settings: dict[str, Any] = {"steps": 10, "log_every": 1, "backprop": "full", "precision": precision}
    plain = train(small(**settings), device="cuda", engine=engine)
    again = train(small(gradient_checkpointing=True, **settings), device="cuda", engine=engine)
    for one, other in zip(plain.metrics, again.metrics, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
