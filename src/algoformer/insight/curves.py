"""Curves that are drawn of an identification: filters, matching steps, and the path of one prompt."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from algoformer.insight import filters
from algoformer.insight.comparison import Comparison
from algoformer.insight.families import Family
from algoformer.insight.filters import Spectrum
from algoformer.insight.fit import Fit, residual_parts, step_numbers
from algoformer.insight.measured import Measured

_CURVE_POINTS = 60


def curves_of(compared: Comparison) -> dict[str, Any]:
    """Return the measured filter after each pass and those of some families, over the eigenvalues of S."""
    values = compared.train.eigenvalues.flatten()
    places = torch.quantile(values, torch.linspace(0.01, 0.99, _CURVE_POINTS, dtype=torch.float64))
    largest = compared.train.eigenvalues[:, -1].median().expand_as(places)
    smallest = compared.train.eigenvalues[:, 0].median().clamp(min=1e-12).expand_as(places)
    spectrum = Spectrum(places, largest, smallest)
    shown = [compared.shares[0].name, "gradient descent", "Newton from αI"]
    candidates = {
        fit.family.name: _filters_of(fit, spectrum, len(compared.test.values)).tolist()
        for fit in compared.fits
        if fit.family.name in shown and fit.family.filter is not None
    }
    return {
        "eigenvalues": places.tolist(),
        "measured": compared.curve(places).tolist(),
        "candidates": candidates,
    }


def _filters_of(fit: Fit, spectrum: Spectrum, passes: int) -> Tensor:
    numbers = step_numbers(range(passes), fit.pace, fit.offset)
    ratio = fit.family.residual(spectrum, max(numbers), *fit.parameters)
    return ratio[[number - 1 for number in numbers]].nan_to_num(nan=9, posinf=9, neginf=-9).clamp(-9, 9)


_REFERENCES = {
    "gradient descent, 1.8/λmax": (
        Family(name="", filter=filters.gradient_descent, scale="largest"),
        1.8,
        256,
    ),
    "Newton, 1/λmax²": (Family(name="", filter=filters.newton_from_gram, scale="largest"), 1.0, 40),
}


def matching_of(data: Measured) -> dict[str, tuple[int, ...]]:
    """Return the step of two algorithms that is nearest after each pass, until it is the last one tried."""
    found = {}
    for name, (family, parameter, most) in _REFERENCES.items():
        parts = residual_parts(family, data, most, parameter)
        misfit = torch.stack([(data.left_parts - one).square().sum((1, 2)) for one in parts])
        nearest = misfit.argmin(0).tolist()
        found[name] = tuple(nearest[: nearest.index(most)] if most in nearest else nearest)
    return found


def path_of(data: Measured, best: Fit) -> dict[str, Any]:
    """Return the path of the first prompt in its own plane, with the reference at the origin."""
    first = data.select(torch.tensor([0]))
    numbers = step_numbers(range(len(data.values)), best.pace, best.offset)
    nearest = residual_parts(best.family, first, max(numbers), *best.parameters).flatten(1)[[0, *numbers]]
    whole = torch.cat([nearest[:1], first.left_parts.flatten(1)])
    _, _, axes = torch.linalg.svd(whole, full_matrices=False)
    plane = pad(axes[:2].mT, (0, 2 - len(axes[:2])))  # a path of single numbers lies on a line
    return {"solver": (whole @ plane).tolist(), best.family.name: (nearest @ plane).tolist()}
