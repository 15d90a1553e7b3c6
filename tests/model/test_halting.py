"""Exit gates and adaptive computation time: closed forms, gradients by hand, plain loops, costs."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algoformer.model import AlgoFormer, Fixed, Gate, Layers, Loop, Parallel, Program
from algoformer.model.halting import (
    EPSILON,
    AdaptiveTime,
    entropy,
    exit_log_probabilities,
    gate_targets_loss,
)
from algoformer.trace import Unroll
from algoformer.training.optimizer import hidden_matrices
from tests.model.test_cost import SIZES, UNROLLS, measured_flops, measured_memory, prompt

numbers = st.lists(st.floats(-8, 8), min_size=1, max_size=7)


@given(numbers)
def test_exits_are_broken_off_a_stick(gates: list[float]) -> None:
    found = exit_log_probabilities(torch.tensor(gates, dtype=torch.float64)).exp().tolist()
    left, expected = 1.0, []
    for gate in gates[:-1]:
        chance = 1 / (1 + math.exp(-gate))
        expected.append(left * chance)
        left *= 1 - chance
    assert found == pytest.approx([*expected, left], rel=1e-9, abs=1e-300)
    assert sum(found) == pytest.approx(1, abs=1e-12)


@given(numbers)
def test_entropy_is_that_of_the_exits_and_largest_when_they_are_uniform(gates: list[float]) -> None:
    exits = exit_log_probabilities(torch.tensor(gates, dtype=torch.float64))
    by_hand = -sum(p * math.log(p) for p in exits.exp().tolist() if p > 0)
    assert entropy(exits).item() == pytest.approx(by_hand, abs=1e-12)
    assert by_hand <= math.log(len(gates)) + 1e-12
    count = len(gates)
    uniform = torch.tensor([math.log(1 / (count - place - 1)) for place in range(count - 1)] + [0.0])
    assert entropy(exit_log_probabilities(uniform)).item() == pytest.approx(math.log(count), abs=1e-6)


def test_gates_that_are_sure_have_no_infinite_logarithms() -> None:
    gates = torch.tensor([-200.0, 200.0, 0.0]).requires_grad_()
    exits = exit_log_probabilities(gates)
    assert exits.exp().tolist() == [0.0, 1.0, 0.0]
    entropy(exits).backward()
    assert gates.grad is not None
    assert gates.grad.isfinite().all()


def expected_loss(gates: Tensor, losses: Tensor, beta: float) -> Tensor:
    exits = exit_log_probabilities(gates)
    return ((exits.exp() * losses).sum(dim=0) - beta * entropy(exits)).sum()


def test_gradients_of_the_expected_loss_are_those_by_hand() -> None:
    """d/dg_k = p_k (1 - λ_k) v_k - λ_k Σ_{t>k} p_t v_t, with v_t = L_t + β (log p_t + 1)."""
    draw = torch.Generator().manual_seed(0)
    gates = torch.randn(5, 3, generator=draw, dtype=torch.float64).requires_grad_()
    losses = torch.rand(5, 3, generator=draw, dtype=torch.float64).requires_grad_()
    beta = 0.3
    assert torch.autograd.gradcheck(lambda g, one: expected_loss(g, one, beta), (gates, losses))
    expected_loss(gates, losses, beta).backward()
    chance, p = gates.detach().sigmoid(), exit_log_probabilities(gates.detach()).exp()
    assert losses.grad is not None
    assert gates.grad is not None
    torch.testing.assert_close(losses.grad, p, rtol=0, atol=1e-14)
    value = losses.detach() + beta * (p.log() + 1)
    for k in range(4):
        by_hand = p[k] * (1 - chance[k]) * value[k] - chance[k] * (p[k + 1 :] * value[k + 1 :]).sum(dim=0)
        torch.testing.assert_close(gates.grad[k], by_hand, rtol=0, atol=1e-14)
    assert gates.grad[4].abs().max() == 0, "the last iteration takes what is left, whatever its gate"


def test_the_loss_of_a_gate_alone_is_ouros_formula() -> None:
    gates = torch.tensor([[0.3], [-0.7], [-1.1]], dtype=torch.float64).requires_grad_()
    losses = torch.tensor([[2.0], [1.0], [1.2]], dtype=torch.float64).requires_grad_()
    found = gate_targets_loss(gates, losses)
    total = 0.0
    for gate, gain in ((-0.7, 1.0), (-1.1, 0.0)):  # the loss fell by one, and then it rose
        go_on, exits = 1 / (1 + math.exp(-50 * (gain - 0.005))), 1 / (1 + math.exp(-gate))
        total -= go_on * math.log(1 - exits) + (1 - go_on) * math.log(exits)
    assert found.item() == pytest.approx(total / 2, abs=1e-12)
    found.sum().backward()
    assert losses.grad is None, "the model does not learn from it"
    assert gates.grad is not None
    assert gates.grad[0].item() == 0
    assert gates.grad[1].item() > 0 > gates.grad[2].item(), "stay where it helped, exit where it did not"
    with pytest.raises(ValueError, match="at least twice"):
        gate_targets_loss(gates[:1], losses[:1])


def act_by_hand(states: Tensor, chances: list[float]) -> tuple[Tensor, float, list[float]]:
    """Graves (2016) for one token: the mean, the ponder cost N + R, and the weights."""
    weights: list[float] = []
    for number, chance in enumerate(chances):
        if sum(weights) + chance >= 1 - EPSILON or number + 1 == len(chances):
            weights.append(1 - sum(weights))
            break
        weights.append(chance)
    mean = sum((weight * state for weight, state in zip(weights, states, strict=False)), torch.zeros(1))
    return mean, len(weights) + weights[-1], weights


def run_act(module: AdaptiveTime, states: Tensor) -> Tensor:
    wide = module.widen(torch.zeros_like(states[0]))
    for state in states:
        wide = module.update(wide, state)
    return wide


@given(st.integers(1, 6), st.floats(-3, 4), st.integers(0, 1000))
def test_adaptive_time_is_graves_loop(steps: int, bias: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    module = AdaptiveTime(4).double()
    module.gate.bias.data.fill_(bias)
    module.gate.weight.data = torch.randn(1, 4, generator=draw, dtype=torch.float64)
    states = torch.randn(steps, 3, 4, generator=draw, dtype=torch.float64)
    wide = run_act(module, states)
    mean, cost = module.visible(wide), module.report(wide)
    for token in range(3):
        chances = module.gate(states[:, token]).sigmoid().squeeze(1).tolist()
        by_hand, ponder, weights = act_by_hand(states[:, token], chances)
        torch.testing.assert_close(mean[token].detach(), by_hand, rtol=0, atol=1e-12)
        assert cost[token].item() == pytest.approx(ponder, abs=1e-12)
        halted = len(weights) < steps or sum(chances) >= 1 - EPSILON
        exited = module.exited(torch.zeros(1), wide)[token].item()
        assert exited == pytest.approx(1 if halted else sum(chances), abs=1e-12)


def test_gradients_of_adaptive_time_are_those_by_hand() -> None:
    """With N fixed, dm/dp_t = z_t - z_N and dR/dp_t = -1 for t < N, and nothing for t >= N."""
    draw = torch.Generator().manual_seed(1)
    module = AdaptiveTime(3).double()
    module.gate.weight.data = 0.3 * torch.randn(1, 3, generator=draw, dtype=torch.float64)
    module.gate.bias.data.fill_(-0.4)  # chances of about 0.4: the third iteration is the last
    states = torch.randn(5, 1, 3, generator=draw, dtype=torch.float64).requires_grad_()
    target, tau = torch.randn(3, generator=draw, dtype=torch.float64), 0.1

    def loss(states: Tensor) -> Tensor:
        wide = run_act(module, states)
        return (module.visible(wide) * target).sum() + tau * module.report(wide).sum()

    assert torch.autograd.gradcheck(loss, (states,))
    loss(states).backward()
    z = states.detach()[:, 0]
    chance = module.gate(z).sigmoid().squeeze(1).detach()
    last = next(number for number in range(5) if chance[: number + 1].sum() >= 1 - EPSILON)
    assert 0 < last < 4
    into_gate, by_hand = torch.zeros(5, dtype=torch.float64), torch.zeros(5, 3, dtype=torch.float64)
    for number in range(last):
        into_gate[number] = ((z[number] - z[last]) @ target - tau) * chance[number] * (1 - chance[number])
        by_hand[number] = chance[number] * target + into_gate[number] * module.gate.weight.detach()[0]
    by_hand[last] = (1 - chance[:last].sum()) * target
    assert states.grad is not None
    assert module.gate.weight.grad is not None
    torch.testing.assert_close(states.grad[:, 0], by_hand, rtol=0, atol=1e-13)
    torch.testing.assert_close(module.gate.weight.grad[0], into_gate @ z, rtol=0, atol=1e-13)
    assert module.gate.bias.grad is not None
    assert module.gate.bias.grad.item() == pytest.approx(into_gate.sum().item(), abs=1e-13)


def layers(**words: object) -> Layers:
    return Layers(1, heads=2, **words)  # type: ignore[arg-type]


PROGRAMS = {
    "gate": Program(layers(name="pre"), Loop(layers(), 3, halt="gate"), layers(name="post")),
    "gate at the end": Program(Loop(layers(), 3, halt="gate")),
    "act": Program(layers(name="pre"), Loop(layers(), 3, halt="act"), layers(name="post")),
    "act at the end": Program(Loop(layers(), 3, halt="act")),
    "act with signal": Program(Loop(layers(), 3, "none", step_signal="sinusoid", damp=0.5, halt="act")),
}
INNER = {
    "gates inside": Program(
        Loop(layers(), 2, halt="gate"),
        Loop(
            (Loop(layers(), 2, halt="gate"), Parallel(Loop(layers(), 2, halt="gate"), layers())),
            3,
            halt="gate",
        ),
        layers(),
    ),
    "act inside": Program(
        Loop(layers(), 2, halt="act"), Loop((Loop(layers(), 2, halt="act"), layers()), 3, halt="act")
    ),
    "branches": Program(
        Parallel((layers(), Loop(layers(), 3, halt="gate")), Loop(layers(), 3, "none", halt="act"))
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_stored_outlined_and_counted(name: str) -> None:
    program = PROGRAMS[name]
    assert Program.from_json(program.to_json()) == program
    assert ("exit gate" if "gate" in name else "adaptive computation time") in str(program)
    model = AlgoFormer(program, **SIZES)
    assert model.rebuildable() is None
    assert model.cost().parameters == sum(parameter.numel() for parameter in model.parameters())
    gate = [weight for key, weight in model.named_parameters() if "halting" in key]
    assert sum(weight.numel() for weight in gate) == SIZES["width"] + 1


@pytest.mark.parametrize("name", [*PROGRAMS, *INNER])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("unroll", UNROLLS, ids=str)
def test_flops_and_memory_are_what_pytorch_does(name: str, unroll: Unroll | None, again: bool) -> None:
    if again:
        unroll = replace(unroll or Unroll(steps=3, window=1), gradient_checkpointing=True)
    model = AlgoFormer((PROGRAMS | INNER)[name], **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)


def test_a_gate_changes_no_answer_and_reads_the_states_at_the_questions() -> None:
    torch.manual_seed(0)
    plain, gated = (
        AlgoFormer(
            Program(layers(name="pre"), Loop(layers(), 3, name="loop", halt=halt), layers(name="post")),
            **SIZES,
        )
        for halt in ("none", "gate")
    )
    gated.load_state_dict(plain.state_dict(), strict=False)
    shown, keep = prompt(), tuple(f"loop[{number}]" for number in (1, 2, 3))
    trace = gated(shown, Unroll(steps=3))
    assert torch.equal(trace.predictions, plain(shown, Unroll(steps=3)).predictions)
    assert plain(shown).halting is None
    whole = gated(shown, Unroll(steps=3, keep=keep))
    gate = gated.body.parts[1].halting.gate
    rows = gated.read_rows(shown)
    expected = torch.stack([gate(whole.states[name])[:, rows, 0] for name in keep])
    assert trace.halting is not None
    assert whole.halting is not None
    torch.testing.assert_close(trace.halting, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(whole.halting, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["act", "act at the end", "act with signal"])
def test_a_loop_with_adaptive_time_reads_the_mean_of_its_states(name: str) -> None:
    """Run one iteration at a time, outside the driver, with the states summed by hand."""
    torch.manual_seed(0)
    model = AlgoFormer(PROGRAMS[name], **SIZES).double()
    loop = next(part for part in model.body.parts if hasattr(part, "halting"))
    loop.halting.gate.weight.data *= 40
    shown = prompt().to(torch.float64)
    keep = tuple(f"{len(model.body.parts) // 2}[{number}]" for number in range(1, 6))
    trace = model(shown, Unroll(steps=5, keep=keep))
    states, rows = torch.stack([trace.states[one] for one in keep]), model.read_rows(shown)
    for steps in range(1, 6):
        means = torch.empty_like(states[0])
        for place in range(states.shape[1]):
            for token in range(states.shape[2]):
                z = states[:steps, place, token]
                chances = loop.halting.gate(z).sigmoid().squeeze(1).tolist()
                means[place, token], ponder, _ = act_by_hand(z, chances)
                if token in rows.tolist():
                    assert trace.halting is not None
                    found = trace.halting[steps - 1, place, rows.tolist().index(token)].item()
                    assert found == pytest.approx(ponder, abs=1e-9)
        answers = model.read_out(model.body.after(means[None])[0][:, rows])
        torch.testing.assert_close(trace.predictions[steps - 1], answers, rtol=0, atol=1e-10)
    plain = model(shown, Unroll(steps=5, window=5)).predictions
    torch.testing.assert_close(plain, trace.predictions, rtol=0, atol=1e-10)


def test_adaptive_time_can_stop_when_all_questions_have_halted() -> None:
    torch.manual_seed(0)
    model = AlgoFormer(PROGRAMS["act at the end"], **SIZES).double()
    model.body.parts[0].halting.gate.bias.data.fill_(-0.5)
    model.body.parts[0].halting.gate.weight.data *= 20
    shown = prompt().to(torch.float64)
    stopped, full = model(shown, stop=Gate(1 - EPSILON, 30)), model(shown, stop=Fixed(30))
    assert stopped.iterations is not None
    assert 1 < stopped.iterations.max() < 15
    torch.testing.assert_close(stopped.final, full.final, rtol=0, atol=1e-12)


def test_gradient_checkpointing_keeps_the_gradients() -> None:
    torch.manual_seed(0)
    model = AlgoFormer(PROGRAMS["act"], **SIZES).double()
    shown, found = prompt().to(torch.float64), []
    for recompute in (False, True):
        model.zero_grad()
        trace = model(shown, Unroll(steps=4, window=2, grad_steps=3, gradient_checkpointing=recompute))
        assert trace.halting is not None
        (trace.predictions.square().sum() + trace.halting.sum()).backward()
        found.append(
            [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        )
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_other_ways_to_halt_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown halt 'never'; choose from none, gate, act"):
        Loop(layers(), 3, halt="never")


def test_optimizers_treat_a_gate_as_a_read_out() -> None:
    model = AlgoFormer(PROGRAMS["gate"], **SIZES)
    gate = model.get_parameter("body.parts.1.halting.gate.weight")
    assert all(matrix is not gate for matrix in hidden_matrices(model))
