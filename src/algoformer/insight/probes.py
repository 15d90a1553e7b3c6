"""Linear probes of hidden states by address: where in a model is a quantity linearly readable?

A probe that succeeds shows that a quantity can be read off, not that the model uses it. Compare with a
model of random weights, whose states hold much of their input too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algoformer.evaluation import evaluation_prompts
from algoformer.evaluation.precision import full_precision
from algoformer.evaluation.solvers import given_to
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.tasks import Task
from algoformer.trace import Unroll

RIDGE = 1e-6
"""The strength of a probe's ridge penalty, relative to the mean variance of a coordinate of the state."""


@dataclass(frozen=True, kw_only=True)
class ProbeTable:
    """Held-out R² of linear probes, by address and target.

    Attributes:
        addresses: where states were read.
        scores: by target, the held-out R² at each address.
    """

    addresses: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]

    def __str__(self) -> str:
        names = list(self.scores)
        lines = [f"{'after':12}" + "".join(f"{name:>10}" for name in names)]
        for index, address in enumerate(self.addresses):
            lines.append(f"{address:12}" + "".join(f"{self.scores[name][index]:>10.3f}" for name in names))
        return "\n".join(lines)


def probe(
    model: AlgoFormer,
    task: Task,
    *,
    addresses: Sequence[str],
    steps: int,
    prompts: int = 128,
    seed: int = 0,
) -> ProbeTable:
    """Fit linear probes to the states at `addresses` on half of the prompts and score them on the other half.

    States are read at the tokens of the questions in the second half of a prompt, which can be answered.
    Targets are the question's raw row, its features as the task's maker knows them, and the correct answer.

    Args:
        model: an `AlgoFormer` with causal attention.
        task: where prompts and features come from.
        addresses: as for `Unroll.keep`.
        steps: passes of the loop.
        prompts: held-out prompts, half of them to fit.
        seed: of the prompts.

    Raises:
        ValueError: the model's attention is not causal, so that states at earlier questions do not exist.
    """
    if not model.causal:
        raise ValueError("probes read states at every question, which needs causal attention")
    if prompts < 16:
        raise ValueError(f"prompts must be at least 16 to fit and to score a probe, got {prompts}")
    prompt = given_to(model, evaluation_prompts(task, count=prompts, seed=seed))
    targets = _targets(prompt, task)
    with full_precision(model, torch.device("cpu")):
        trace = model(prompt, Unroll(steps=steps, window=1, keep=tuple(addresses)))
    late = prompt.points // 2
    rows = torch.tensor(prompt.reads[late:]) + model.blanks[0]
    scores: dict[str, list[float]] = {name: [] for name in targets}
    for address in addresses:
        state = trace.states[address]
        state = state[-1] if state.dim() == 4 else state  # parts after the loop: the last pass
        for name, target in targets.items():
            scores[name].append(_held_out(state[:, rows].double(), target[:, late:].double()))
    return ProbeTable(
        addresses=tuple(addresses), scores={name: tuple(found) for name, found in scores.items()}
    )


def _targets(prompt: Prompt, task: Task) -> dict[str, Tensor]:
    problems = task.problems(prompt)
    column, sample = torch.tensor(problems.asked).unbind(1)
    features = problems.features[:, column, sample]  # (batch, point, feature)
    raw = prompt.rows[:, list(prompt.reads)]
    targets = {"input": raw, "answer": prompt.targets if prompt.clean is None else prompt.clean}
    if features.shape != raw.shape or not torch.equal(features, raw):
        targets["features"] = features
    return targets


def _held_out(states: Tensor, targets: Tensor) -> float:
    """Return the R² of ridge regression, fitted on the first half of the prompts, on the second half."""
    half = len(states) // 2
    train, test = (part.flatten(0, 1) for part in (states[:half], states[half:]))
    goal, truth = (part.flatten(0, 1) for part in (targets[:half], targets[half:]))
    center, middle = train.mean(0), goal.mean(0)
    gram = (train - center).mT @ (train - center)
    penalty = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weights = torch.linalg.solve(gram + penalty, (train - center).mT @ (goal - middle))
    rest = truth - middle - (test - center) @ weights
    return float(1 - rest.square().sum() / (truth - truth.mean(0)).square().sum().clamp(min=1e-300))
