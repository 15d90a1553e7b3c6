"""Methods are named on tasks whose features have another scale, or a constant among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from algoformer import Prompt, algorithms
from algoformer.insight import identify
from algoformer.insight.gates import CONSTANT
from algoformer.problems import Problems, pairs
from algoformer.tasks.task import PairTask, normal


@dataclass(frozen=True, kw_only=True)
class Other(PairTask):
    """Linear regression on inputs times `size`, and on a constant if there is one."""

    size: float = 1.0
    constant: bool = False

    def with_constant(self, xs: Tensor) -> Tensor:
        return torch.cat([xs, torch.ones_like(xs[..., :1])], dim=-1) if self.constant else xs

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Tensor | None = None,
    ) -> Prompt:
        xs = self.size * normal(batch, self.points, self.dim, generator=generator, dtype=dtype)
        features = self.with_constant(xs)
        weights = normal(batch, features.shape[-1], 1, generator=generator, dtype=dtype)
        return Prompt.of_pairs(xs, features @ weights)

    def problems(self, prompt: Prompt) -> Problems:
        raw = pairs(prompt)
        return replace(raw, features=self.with_constant(raw.features))


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_a_step_size_is_found_at_any_scale_of_the_inputs(size: float) -> None:
    task = Other(dim=3, points=13, size=size)
    found = identify(algorithms.GradientDescent(step_size=0.2 / size**2), task, steps=5, prompts=24)
    assert found.name == "gradient descent", str(found)
    assert found.nearest.parameters["η"] == pytest.approx(0.2 / size**2, rel=1e-6)
    other = identify(algorithms.GradientDescent(step_size=0.2), replace(task, size=1.0), steps=5, prompts=24)
    assert [time * size**2 for time in found.pace] == pytest.approx(other.pace, rel=0.03)
    assert found.ceilings["any filter"] == pytest.approx(other.ceilings["any filter"], abs=1e-6)
    found = identify(algorithms.Ridge(strength=1.2 * size**2), task, steps=2, prompts=24)
    assert found.nearest.parameters["ρ"] == pytest.approx(0.1 * size**2, rel=1e-6)


def test_a_feature_that_is_constant_has_its_own_weight() -> None:
    task = Other(dim=3, points=13, constant=True)
    found = identify(algorithms.GradientDescent(step_size=0.2, view=task.problems), task, steps=5, prompts=24)
    assert found.name == "gradient descent", str(found)
    assert found.nearest.parameters["η"] == pytest.approx(0.2, rel=1e-6)
    assert next(gate.value for gate in found.gates if gate.name == CONSTANT) == 0
    exact = identify(algorithms.LeastSquares(view=task.problems), task, steps=2, prompts=24)
    assert exact.name == "least squares", str(exact)
