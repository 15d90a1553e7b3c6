"""Training of loops that learn when to halt: exit gates and adaptive computation time."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from algoformer.config import TrainConfig, iteration_shares
from algoformer.data.objective import at_least_single, losses_by_step, over_questions
from algoformer.language.losses import (
    TargetPositions,
    WindowLoss,
    exit_cross_entropy,
    gate_cross_entropy,
    mean_over_targets,
    step_weights_of,
    window_cross_entropy,
)
from algoformer.model.address import inner_loops
from algoformer.model.halting import entropy, exit_log_probabilities, gate_targets_loss
from algoformer.model.program import Program, default_steps, halting_of
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll

EXIT_LOSSES = ("exit", "gate")
"""The losses that train an exit gate: with the model, and alone."""


def check_exit(program: Program, training: TrainConfig) -> None:
    """Refuse a loss that does not fit how the program's loops halt."""
    for name, loop in inner_loops(program).items():
        if loop.halt == "gate" or (loop.halt == "act" and training.ponder_cost):
            raise ValueError(
                f"halt={loop.halt!r} of the loop {name!r} is not trained, because it is not the one that an "
                "unroll runs; leave it out" + (", or set ponder_cost=0" if loop.halt == "act" else "")
            )
    halt, steps, loss = halting_of(program), default_steps(program), training.loss
    if loss not in EXIT_LOSSES:
        if halt == "gate":
            raise ValueError(
                f"loss={loss!r} does not train the loop's exit gate; choose loss='exit', or leave out halt"
            )
        return
    if halt != "gate":
        raise ValueError(f"loss={loss!r} trains an exit gate, which the loop lacks; use Loop(halt='gate')")
    if steps < 2 or training.window != steps or training.burn_in:
        raise ValueError(
            f"loss={loss!r} reads every iteration of at least two: set window={max(steps, 2)} for as many "
            "steps, and leave out burn_in"
        )
    if training.depth is not None and training.depth.largest > training.window:
        raise ValueError(
            f"loss={loss!r} reads every iteration: depth must not draw more than the window of "
            f"{training.window}, got {training.depth}; add ,most={training.window}"
        )
    if loss == "gate" and training.weight_decay:
        raise ValueError(
            f"loss='gate' moves the gate alone, got weight_decay={training.weight_decay}; leave it out"
        )


def unroll_for_gate(unroll: Unroll) -> Unroll:
    """Return the unroll that trains the gate alone: without gradients inside the loop."""
    return Unroll(steps=unroll.steps, window=unroll.window, grad_steps=0)


def prompt_exit_loss(
    trace: Trace, prompt: Prompt, weights: Float[Tensor, " point"] | None, training: TrainConfig
) -> Float[Tensor, ""]:
    """Return the loss "exit" or "gate" of answers to prompts, a mean over prompts and questions.

    For each question "exit" is Σ_t p_t L_t - exit_entropy · H(p), where p_t is the probability to exit after
    iteration t and L_t the loss of the answer there. "gate" is `halting.gate_targets_loss`.
    """
    assert trace.halting is not None
    losses = losses_by_step(trace.predictions, prompt)
    gates = at_least_single(trace.halting)
    if training.loss == "gate":
        each = gate_targets_loss(gates, losses)
    else:
        exits = exit_log_probabilities(gates)
        each = (exits.exp() * losses).sum(dim=0) - training.exit_entropy * entropy(exits)
    return over_questions(each.mean(dim=0), weights)


def ponder_cost(trace: Trace, weights: Float[Tensor, " point"] | None, training: TrainConfig) -> Tensor:
    """Return the ponder cost of adaptive computation time at the last iteration, times its weight."""
    assert trace.halting is not None
    return training.ponder_cost * over_questions(at_least_single(trace.halting[-1]).mean(dim=0), weights)


def token_loss(
    model: Any,
    input_ids: Tensor,
    targets: Tensor,
    positions: TargetPositions | None,
    unroll: Unroll,
    training: TrainConfig | None,
    *,
    prefix: Tensor | None = None,
    smoothing: float = 0.0,
) -> WindowLoss:
    """Return the loss of a language model on a batch of tokens, as its training says.

    Without training it is the cross-entropy, for evaluations: without smoothing, gates and ponder cost.
    """
    if training is None:
        states = model.states(input_ids, unroll, prefix=prefix)
        return window_cross_entropy(states, model.output_weight, targets, positions)
    states, halting = model.states_and_halting(
        input_ids, unroll_for_gate(unroll) if training.loss == "gate" else unroll, prefix=prefix
    )
    right = model.output_weight, targets, positions
    if training.loss == "exit":
        return exit_cross_entropy(
            states, halting, *right, exit_entropy=training.exit_entropy, smoothing=smoothing
        )
    if training.loss == "gate":
        return gate_cross_entropy(states, halting, *right)
    weights = step_weights_of(iteration_shares(training, unroll.length), targets)
    found = window_cross_entropy(states, *right, smoothing=smoothing, step_weights=weights)
    if halting is None:
        return found
    cost = mean_over_targets(at_least_single(halting[-1]), positions)
    return found._replace(mean=found.mean + training.ponder_cost * cost)
