"""Loops that learn when to halt: an exit gate, and adaptive computation time.

A loop's word `halt` names an entry of `HALTING`, or is "none". `report` says what a loss needs to know of a
state, `exited` with which probability a token has exited. An entry that adds `columns` to the state makes
the first state too, updates it and says what of it is visible.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

EPSILON = 0.01
"""A token with adaptive computation time halts when its probabilities sum up to 1 - EPSILON."""

SHARPNESS, LEAST_GAIN = 50.0, 0.005
"""Ouro's constants: a loss that falls by more than LEAST_GAIN is worth another iteration."""


class GateMap(nn.Module):
    """A linear map from a state to one logit; not an `nn.Linear`, because optimizers treat it as a read-out.

    Hidden matrices are decayed and orthogonalized, see `training.optimizer.hidden_matrices`.
    """

    def __init__(self, width: int, *, bias: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, width))
        self.bias = nn.Parameter(torch.empty(1))
        self.first_bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the map and set its bias to its first value."""
        nn.init.normal_(self.weight, std=0.02)
        nn.init.constant_(self.bias, self.first_bias)

    def forward(self, state: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch 1"]:
        """Return the logit of each state."""
        return F.linear(state, self.weight, self.bias)


class ExitGate(nn.Module):
    """A linear map that gives each token's probability to exit after an iteration (Ouro, Zhu et al., 2025).

    The gate does not change what the loop computes: `exit_log_probabilities` and the loss "exit" train it,
    the stopping rule `Gate` uses it.
    """

    outline = ", exit gate"
    columns = 0
    """Numbers that the state of the loop has for each token, beside the stream's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = GateMap(width, bias=0.0)

    def report(self, state: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch"]:
        """Return the gate's logit at each token."""
        return self.gate(state).squeeze(-1)

    def exited(self, before: Tensor, state: Tensor) -> Tensor:
        """Return the probability to have exited: 1 - Π(1 - λ)."""
        return before + (1 - before) * torch.sigmoid(self.report(state)).to(before.dtype)


class AdaptiveTime(nn.Module):
    """Adaptive computation time (Graves, 2016) for each token, as in the Universal Transformer.

    After iteration t a token has a probability p_t to halt. It halts at the first N with
    p_1 + ... + p_N >= 1 - EPSILON; what is read is the mean p_1 z_1 + ... + R z_N of its states, with the
    remainder R = 1 - p_1 - ... - p_{N-1} as the weight of the last. A loop that is run for t iterations only
    reads the mean as if t were the last. N + R is the ponder cost. Other tokens attend to the states, which
    go on after a token has halted.

    The state of the loop has the stream, the weighted sum of streams, the sum of weights, N and R.
    """

    outline = ", adaptive computation time"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.columns = width, width + 3
        self.gate = GateMap(width, bias=1.0)  # short computations at the start, as in the papers

    def widen(self, stream: Tensor) -> Tensor:
        """Return the stream with nothing summed up."""
        return F.pad(stream, (0, self.columns))

    def update(self, state: Tensor, stream: Tensor) -> Tensor:
        """Return the state with one more stream in its weighted sum."""
        _, total, used, count, left = self._split(state)
        chance = torch.sigmoid(self.gate(stream)).to(used.dtype)
        runs = used < 1 - EPSILON
        weight = torch.where(used + chance >= 1 - EPSILON, 1 - used, chance)
        left = torch.where(runs, 1 - used, left)
        # a token that has halted keeps its sums to the last bit
        weight = torch.where(runs, weight, torch.zeros_like(weight))
        return torch.cat([stream, total + weight * stream, used + weight, count + runs, left], dim=-1)

    def visible(self, state: Tensor) -> Tensor:
        """Return the mean of the states; those of a token that runs get the rest of the weight."""
        stream, total, used, _, _ = self._split(state)
        rest = torch.where(used < 1 - EPSILON, 1 - used, torch.zeros_like(used))
        return total + rest * stream

    def report(self, state: Tensor) -> Tensor:
        """Return the ponder cost N + R of each token."""
        return state[..., -2] + state[..., -1]

    def exited(self, before: Tensor, state: Tensor) -> Tensor:
        """Return the sum of the weights so far."""
        return self._split(state)[2].squeeze(-1)

    def _split(self, state: Tensor) -> tuple[Tensor, ...]:
        return state.split([self.width, self.width, 1, 1, 1], dim=-1)


HALTING: dict[str, type[ExitGate | AdaptiveTime]] = {"gate": ExitGate, "act": AdaptiveTime}
"""The values of `Loop(halt=...)` besides "none"."""


def exit_log_probabilities(gates: Float[Tensor, "step ..."]) -> Float[Tensor, "step ..."]:
    """Return the logarithm of the probability to exit after each iteration.

    With λ = sigmoid(gate) it is p_t = λ_t Π_{s<t} (1 - λ_s); the last iteration takes the rest, so that the
    probabilities sum to one and the last gate has no influence.

    >>> exit_log_probabilities(torch.zeros(4)).exp().tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    gates = gates.to(torch.promote_types(gates.dtype, torch.float32))
    stays = F.logsigmoid(-gates[:-1]).cumsum(dim=0)
    survived = torch.cat([torch.zeros_like(gates[:1]), stays])
    exits = torch.cat([F.logsigmoid(gates[:-1]), 0 * gates[-1:]])
    return survived + exits


def entropy(log_probabilities: Float[Tensor, "step ..."]) -> Tensor:
    """Return the entropy of distributions over iterations, in nats."""
    return -(log_probabilities.exp() * log_probabilities).sum(dim=0)


def gate_targets_loss(gates: Float[Tensor, "step ..."], losses: Float[Tensor, "step ..."]) -> Tensor:
    """Return the loss that teaches a gate to exit where another iteration did not help (Ouro, stage two).

    With the gain G_t = max(0, L_{t-1} - L_t) of iteration t, the gate's target to go on is
    w_t = sigmoid(50 (G_t - 0.005)), and the loss is the binary cross-entropy of 1 - λ_t with it, a mean over
    the iterations from the second on. Gradients reach the gates only.
    """
    if len(gates) < 2:
        raise ValueError("the loss of a gate compares iterations; run the loop at least twice")
    losses = losses.detach().to(torch.promote_types(gates.dtype, torch.float32))
    gain = (losses[:-1] - losses[1:]).clamp(min=0)
    go_on = torch.sigmoid(SHARPNESS * (gain - LEAST_GAIN))
    logits = gates[1:].to(go_on.dtype)
    return F.binary_cross_entropy_with_logits(logits, 1 - go_on, reduction="none").mean(dim=0)
