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
from algoformer.evaluation.solvers import full_precision, given_to
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
    model: AlgoFormer, task: Task, *, addresses: Sequence[str], steps: int, prompts: int = 128, seed: int = 0
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
    late = prompt.points // 2
    targets = {name: target[:, late:].double() for name, target in _targets(prompt, task).items()}
    with full_precision(model, torch.device("cpu")):
        states = states_at_questions(model, prompt, addresses, steps=steps, first=late).double()
    scores = {name: tuple(_held_out(state, target) for state in states) for name, target in targets.items()}
    return ProbeTable(addresses=tuple(addresses), scores=scores)


def states_at_questions(
    model: AlgoFormer, prompt: Prompt, addresses: Sequence[str], *, steps: int = 1, first: int = 0
) -> Tensor:
    """Return states at the questions from number `first` on, and a 1, (address, batch, point, width + 1)."""
    kept = model(prompt, Unroll(steps=steps, window=1, keep=tuple(addresses))).states
    rows = torch.tensor(prompt.reads[first:]) + model.blanks[0]
    # states of parts after the loop have a leading axis of passes, of which the last one was asked for
    states = [kept[address][-1] if kept[address].dim() == 4 else kept[address] for address in addresses]
    found = torch.stack([state[:, rows] for state in states])
    return torch.cat([found, torch.ones_like(found[..., :1])], dim=-1)


def ridge(states: Tensor, target: Tensor) -> Tensor:
    """Return the weights (..., width, out) of a slightly penalized regression of targets on states."""
    gram = states.mT @ states
    penalty = RIDGE * gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype)
    return torch.linalg.solve(gram + penalty * eye, states.mT @ target)


def _targets(prompt: Prompt, task: Task) -> dict[str, Tensor]:
    problems = task.problems(prompt)
    column, sample = torch.tensor(problems.questions).unbind(1)
    features = problems.features[:, column, sample]  # (batch, point, feature)
    raw = prompt.rows[:, list(prompt.reads)]
    targets = {"input": raw, "answer": prompt.targets if prompt.clean is None else prompt.clean}
    if features.shape != raw.shape or not torch.equal(features, raw):
        targets["features"] = features
    return targets


def _held_out(states: Tensor, targets: Tensor) -> float:
    """Return the R² of ridge regression, fitted on the first half of the prompts, on the second half."""
    half = len(states) // 2
    weights = ridge(states[:half].flatten(0, 1), targets[:half].flatten(0, 1))
    truth = targets[half:].flatten(0, 1)
    rest = truth - states[half:].flatten(0, 1) @ weights
    return float(1 - rest.square().sum() / (truth - truth.mean(0)).square().sum().clamp(min=1e-300))
