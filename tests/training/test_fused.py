"""The engine of hand-written kernels: the same loss and gradients as the model's own, and honest refusals."""

from typing import Any

import pytest
import torch
from torch import Tensor

from algoformer import programs, tasks
from algoformer.data.objective import window_loss
from algoformer.kernels import operations
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import Layers, Loop, Program
from algoformer.nn import set_dropout
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll
from algoformer.training import Experiment, TrainConfig, train
from algoformer.training.engine import Plan, open_engine, plan_engine, plan_for, why_not_experiment
from algoformer.training.fused import FusedBody, why_not_fused
from algoformer.training.precision import HalfBody
from algoformer.training.step import Step
from training.small import small

TASK = tasks.LinearRegression(dim=3, points=6)
CUDA = torch.device("cuda")
HAS_CUDA = torch.cuda.is_available()
PROGRAMS = {
    "algoformer": programs.algoformer(steps=4, heads=4),
    "no post": programs.algoformer(post=0, steps=4, heads=4),
    "no pre, two in the loop": programs.algoformer(pre=0, loop=2, steps=4, heads=4),
    "looped": programs.looped(2, steps=4, heads=4),
    "standard": programs.standard(3, heads=4),
    "two loops": programs.two_loops(heads=4),
}


def model_of(program: Program, width: int = 64, **changes: Any) -> AlgoFormer:
    torch.manual_seed(0)
    return AlgoFormer(program, dim=TASK.dim, out=TASK.out, context=TASK.context, width=width, **changes)


def prompt_of() -> Prompt:
    return TASK.sample(4, generator=torch.Generator().manual_seed(0))


def unroll_of(model: AlgoFormer) -> Unroll:
    return Unroll(steps=1, window=1) if model.body.traced is None else Unroll(steps=5, window=3, grad_steps=4)


def loss_and_gradients(model: AlgoFormer, trace: Trace, prompt: Prompt) -> tuple[float, list[Tensor]]:
    loss = window_loss(trace, prompt)
    return float(loss.detach()), list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_single_precision_it_is_the_model(name: str) -> None:
    model, prompt = model_of(PROGRAMS[name]), prompt_of()
    unroll = unroll_of(model)
    body = FusedBody(model, dtype=torch.float32, operations=operations)
    expected, expected_grads = loss_and_gradients(model, model(prompt, unroll), prompt)
    found, grads = loss_and_gradients(model, body.answer(prompt, unroll), prompt)
    assert found == pytest.approx(expected, rel=1e-6)
    for (weight, _), one, other in zip(model.named_parameters(), grads, expected_grads, strict=True):
        assert float(one.abs().max()) > 0, weight
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * float(other.abs().max()))


def test_in_bf16_it_is_as_close_to_the_truth_as_autocast() -> None:
    model, prompt = model_of(PROGRAMS["algoformer"]), prompt_of()
    unroll = unroll_of(model)
    _, exact = loss_and_gradients(model, model(prompt, unroll), prompt)

    def distance(trace: Trace) -> float:
        _, grads = loss_and_gradients(model, trace, prompt)
        flat, true = (torch.cat([grad.flatten() for grad in each]) for each in (grads, exact))
        return float((flat - true).norm() / true.norm())

    by_autocast = distance(HalfBody(model).answer(prompt, unroll))
    by_hand = distance(FusedBody(model, operations=operations).answer(prompt, unroll))
    assert 1e-4 < by_hand < 2 * by_autocast < 0.1


def test_blanks_before_the_prompt_move_the_rows_that_are_read() -> None:
    model, prompt = model_of(PROGRAMS["algoformer"], blanks=(2, 1)), prompt_of()
    unroll = unroll_of(model)
    body = FusedBody(model, dtype=torch.float32, operations=operations)
    expected = model(prompt, unroll).predictions
    torch.testing.assert_close(body.answer(prompt, unroll).predictions, expected, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("as_a_user")
def test_it_refuses_to_recompute_instead_of_forgetting_it() -> None:
    body = FusedBody(model_of(PROGRAMS["algoformer"]), operations=operations)
    with pytest.raises(ValueError, match="keeps what gradient_checkpointing=True would drop"):
        body.answer(prompt_of(), Unroll(steps=3, window=2, gradient_checkpointing=True))


def dropping(model: AlgoFormer) -> AlgoFormer:
    set_dropout(model, residual=0.1, attention=0.0)
    return model


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (model_of(PROGRAMS["algoformer"], width=32), "width is 32"),
        (model_of(programs.algoformer(heads=4, inject="gate")), "'gate'"),
        (model_of(programs.nested(heads=4)), "more than one module"),
        (model_of(programs.algoformer(heads=8)), "heads are 8 wide"),
        (model_of(programs.algoformer(heads=4, bias=False)), "no bias"),
        (model_of(programs.algoformer(heads=4, activation="relu")), "activation 'relu'"),
        (model_of(Program(Loop(Layers(1, heads=4, final_norm=False), steps=3))), "no final norm"),
        (dropping(model_of(PROGRAMS["algoformer"])), "dropout"),
    ],
)
def test_what_the_kernels_do_not_cover_is_said(model: AlgoFormer, word: str) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    reason = why_not_fused(model)
    assert reason is not None
    assert word in reason
    with pytest.raises(ValueError, match="choose 'compiled' or 'auto'"):
        FusedBody(model)


def experiment_of(**training: Any) -> Experiment:
    return Experiment(
        program=PROGRAMS["algoformer"], data=TASK, width=64, training=TrainConfig(window=3, **training)
    )


def test_the_plan_knows_for_whom_the_kernels_are() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    half = experiment_of(precision="bf16")
    assert why_not_experiment(half) is None
    assert plan_for(half, "auto", device=CUDA).engine == "fused"
    exact = plan_for(experiment_of(), "auto", device=CUDA)
    assert exact.engine == "compiled"
    assert "precision bf16, not fp32" in exact.reason
    sparing = plan_for(experiment_of(precision="bf16", gradient_checkpointing=True), "auto", device=CUDA)
    assert sparing.engine == "compiled"
    assert "gradient checkpointing" in sparing.reason
    assert plan_for(half, "auto", device=CUDA, single=False).engine != "fused"


@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match="engine 'fused' needs a CUDA device, got cpu"):
        train(small(), engine="fused")
    with pytest.raises(ValueError, match="does not fit: they are for precision bf16, not fp32"):
        plan_for(experiment_of(), "fused", device=CUDA)
    with pytest.raises(ValueError, match="captures the step of one process"):
        plan_engine("fused", device=CUDA, steps=10, single=False, against=None)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="needs CUDA")
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_gpu_it_learns_like_a_captured_step(name: str) -> None:
    training = TrainConfig(window=3, precision="bf16", backprop="full", lr=1e-3)
    experiment = Experiment(program=PROGRAMS[name], data=TASK, width=64, training=training)

    def losses(engine: Any) -> list[float]:
        model = on_the_gpu(experiment)
        step = Step(experiment, model)
        found = []
        with open_engine(step, Plan(engine=engine, reason="to compare")) as run:
            for number in range(20):
                step.sums.zero_()
                run(number)
                found.append(step.read_sums()[0])
        return found

    for one, other in zip(losses("fused"), losses("graph"), strict=True):
        assert one == pytest.approx(other, rel=5e-3)


def on_the_gpu(experiment: Experiment) -> AlgoFormer:
    return model_of(experiment.program).to(CUDA)
