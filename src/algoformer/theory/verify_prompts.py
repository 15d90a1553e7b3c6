"""Random prompts for verifications, and step sizes that suit them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks import ChainOfThought, Task
from algoformer.theory.checks import step_size_limit
from algoformer.theory.statement import Sizes


def safe_step_size(problems: Problems, preferred: float, *, penalty: float = 0.0) -> float:
    """Return `preferred`, or 0.8 of the limit of convergence on these problems if that is less."""
    return min(preferred, 0.8 * step_size_limit(problems, penalty=penalty))


def sampled(task: Task, sizes: Sizes) -> Prompt:
    """Return prompts of a task in float64, with all their questions."""
    return task.sample(sizes.prompts, generator=sizes.generator(), dtype=torch.float64)


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Return standard normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def pair_prompts(sizes: Sizes, *, out: int = 1) -> Prompt:
    """Return prompts of linear regression, y = A x with `out` numbers, all normal, with one question."""
    generator = sizes.generator()
    xs = normal(sizes.prompts, sizes.examples + 1, sizes.dim, generator=generator)
    weights = normal(sizes.prompts, sizes.dim, out, generator=generator)
    return Prompt.of_pairs(xs, xs @ weights).prefix()


def series_prompts(sizes: Sizes, *, order: int) -> Prompt:
    """Return series in which each row must be answered with the `order` rows before it, or zeros."""
    rows = normal(sizes.prompts, sizes.examples, sizes.dim, generator=sizes.generator())
    padded = torch.nn.functional.pad(rows, (0, 0, order, 0))[:, :-1]
    history = padded.unfold(1, order, 1).transpose(-1, -2).flatten(-2)
    return Prompt(rows=rows, targets=history, reads=tuple(range(sizes.examples)))


def chain_prompts(sizes: Sizes, task: ChainOfThought) -> list[Prompt]:
    """Return prompts that ask for each layer of the chain in turn; together at least `sizes.prompts`.

    The matrices are orthogonal, times √(2/(1 + slope²)). Deep states of normal matrices and small slopes
    have condition numbers of 1e6: gradient descent on them is just as exact and gets nowhere.
    """
    batch, generator = math.ceil(sizes.prompts / task.layers), sizes.generator()
    scale = math.sqrt(2 / (1 + task.slope**2))
    prompts = []
    for layer in range(task.layers):
        states = [normal(batch, sizes.examples + 1, sizes.dim, generator=generator)]
        for _ in range(task.layers):
            basis = torch.linalg.qr(normal(batch, sizes.dim, sizes.dim, generator=generator)).Q
            states.append(leaky_relu(scale * states[-1] @ basis, task.slope))
        rows = torch.stack(states, dim=2).flatten(1, 2)
        asked = sizes.examples * task.parts + layer
        shown, target = rows[:, : asked + 1], rows[:, asked + 1 : asked + 2]
        prompts.append(Prompt(rows=shown, targets=target, reads=(asked,), parts=task.parts))
    return prompts
