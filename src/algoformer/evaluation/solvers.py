"""Facts about a solver that an evaluation needs, and the full precision in which it is measured."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.common.devices import device_name
from algoformer.common.products import onednn_linear
from algoformer.prompt import Prompt
from algoformer.trace import Solver

TEXTBOOK_STEPS = 20
"""The number of iterations of solvers without a default: as many as the paper's loop."""

_ROWS_ON_CPU = 1 << 16
_ROWS_ON_ACCELERATORS = 1 << 20


@runtime_checkable
class ReadsDepths(Protocol):
    """A solver that can read a few chosen iterations of one run, where an unroll reads a window."""

    def at_depths(self, prompt: Prompt, depths: Sequence[int]) -> Float[Tensor, "step batch point out"]:
        """Return the answers after each of a rising list of iterations."""


def first_parameter(solver: Solver) -> nn.Parameter | None:
    """Return a module's first parameter; None for anything that has none."""
    return next(solver.parameters(), None) if isinstance(solver, nn.Module) else None


def given_to(solver: Solver, prompt: Prompt) -> Prompt:
    """Return the prompt on the solver's device and in its precision, if it has parameters; else as it is."""
    parameter = first_parameter(solver)
    return prompt if parameter is None else prompt.to(parameter.device).to(parameter.dtype)


def device_of(solver: Solver, prompt: Prompt) -> torch.device:
    """Return the device on which the solver will run on this prompt."""
    parameter = first_parameter(solver)
    return prompt.rows.device if parameter is None else parameter.device


def checked(
    predictions: Float[Tensor, "step batch point out"], prompt: Prompt, steps: int
) -> Float[Tensor, "step batch point out"]:
    """Return predictions if they answer every question of the prompt after each of `steps` iterations.

    Raises:
        ValueError: they have another shape.
    """
    wanted = (steps, *prompt.targets.shape)
    if tuple(predictions.shape) != wanted:
        raise ValueError(
            f"the solver answered with predictions of shape {tuple(predictions.shape)} "
            f"instead of {wanted} (step, batch, point, out)"
        )
    return predictions


def rows_at_once(solver: Solver, prompt: Prompt, window: int = 1) -> int:
    """Return the number of rows × read-out iterations to hold: about 1 GB for a width of 256 on a CPU.

    A solver that reads iterations one by one says so by `holds_window = False`: then rows alone count.
    """
    rows = _ROWS_ON_CPU if device_of(solver, prompt).type == "cpu" else _ROWS_ON_ACCELERATORS
    return rows if getattr(solver, "holds_window", True) else rows * window


def own_steps(solver: Solver, prompt: Prompt) -> int:
    """Return a solver's default number of iterations; 20 if it has none.

    A solver says so by a default for its unroll, as `AlgoFormer` does: its program knows.
    """
    call: Any = solver.forward if isinstance(solver, nn.Module) else solver
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return TEXTBOOK_STEPS
    if len(parameters) < 2 or parameters[1].default is inspect.Parameter.empty:
        return TEXTBOOK_STEPS
    run: Any = solver
    with torch.no_grad():
        return int(run(given_to(solver, prompt.select(slice(0, 1)))).steps[-1])


def solver_name(solver: Solver) -> str:
    """Return a label for a solver that was given none: the name of its function or class."""
    return str(getattr(solver, "__name__", type(solver).__name__))


def count_parameters(solver: Solver) -> int | None:
    """Return the number of parameters of a module; None for other solvers."""
    if not isinstance(solver, nn.Module):
        return None
    return sum(parameter.numel() for parameter in solver.parameters())


def setting(solver: Solver, prompt: Prompt) -> dict[str, str]:
    """Return the device, precision and versions that a solver runs with, for provenance."""
    parameter = first_parameter(solver)
    device = device_of(solver, prompt)
    dtype = prompt.rows.dtype if parameter is None else parameter.dtype
    return {
        "solver": type(solver).__name__,
        "device": device_name(device),
        "precision": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
    }


@contextmanager
def full_precision(solver: Solver, device: torch.device) -> Iterator[None]:
    """Disable gradients, TF32 and autocast, and put a module into evaluation mode; restore all afterwards.

    TF32 keeps three digits of a product, which is the size of the errors that are measured here. On a CPU the
    products of a module's linear layers are oneDNN's, in fp32 as well.
    """
    backends: Any = torch.backends
    products = backends.cuda.matmul, backends.mkldnn.matmul
    before = [product.fp32_precision for product in products]
    modules = list(solver.modules()) if isinstance(solver, nn.Module) else []
    training = [module.training for module in modules]
    try:
        for product in products:
            product.fp32_precision = "ieee"
        for module in modules:
            module.training = False
        faster = onednn_linear(solver) if isinstance(solver, nn.Module) else nullcontext()
        with torch.no_grad(), torch.autocast(device.type, enabled=False), faster:
            yield
    finally:
        for product, precision in zip(products, before, strict=True):
            product.fp32_precision = precision
        for module, mode in zip(modules, training, strict=True):
            module.training = mode
