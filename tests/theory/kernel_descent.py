"""Gradient descent in function space with kernel sinh(cz)/c, which linearized heads compute exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.problems import View, pairs
from algoformer.prompt import Prompt
from algoformer.theory.checks import product_unit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.trace import Trace, Unroll


@dataclass(frozen=True, kw_only=True)
class KernelDescent:
    """The iteration ρ_j ← ρ_j - η/n Σ_i ρ_i k(φ_i, φ_j) of one pass of the loop for finite c and C.

    With z = φ_i·φ_j / N, N = `product_unit`, and D±_j = 1 + e^(-C)/n Σ_i e^(±cz_ij), the kernel is
    k = N (e^{cz}/D+ - e^{-cz}/D-) / 2c. As c → 0 and C → ∞ it tends to φ_i·φ_j, and this to plain
    gradient descent. It answers the last question of a prompt.
    """

    step_size: float
    examples: int
    constants: Constants = DOUBLE
    view: View = pairs

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the answers after each step of the unroll's window."""
        problems = self.view(prompt)
        problem, count = problems.questions[-1]
        kernel = self.kernel(problems.features[:, problem, : count + 1], count)
        labels = problems.labels[:, problem, :count]
        residual = torch.cat([-labels, torch.zeros_like(labels[:, :1])], dim=1)
        answers = []
        for _ in range(unroll.steps):
            residual = residual - self.step_size / max(count, 1) * (kernel @ residual[:, :count])
            answers.append(problems.link(residual[:, count:]))
        return Trace(predictions=torch.stack(answers[unroll.first_step - 1 :]), first_step=unroll.first_step)

    def kernel(
        self, features: Float[Tensor, "batch sample dim"], count: int
    ) -> Float[Tensor, "batch sample example"]:
        """k of every sample with each of the first `count`.

        The difference of two numbers near 1 is taken by hand: e^{cz}/D+ - e^{-cz}/D- is
        2 sinh(cz)/D+ + e^{-cz} (D- - D+)/(D+ D-), and D- - D+ = -2 e^(-C)/n Σ sinh(cz).
        """
        c, weight = self.constants.c, math.exp(-self.constants.sink) / max(count, 1)
        unit = product_unit(examples=self.examples, dim=features.shape[-1])
        scores = c / unit * features @ features[:, :count].mT
        plus, minus = (1 + weight * (sign * scores).exp().sum(dim=-1, keepdim=True) for sign in (1, -1))
        gap = -2 * weight * scores.sinh().sum(dim=-1, keepdim=True)
        odd = 2 * scores.sinh() / plus + (-scores).exp() * gap / (plus * minus)
        return unit / (2 * c) * odd
