"""Section `evaluation`: all held-out prompts far beyond the trained depth, in fp32 without TF32."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch

from algoformer.common.devices import matmul_precision
from algoformer.evaluation import evaluate, evaluation_prompts
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.trace import Solver
from algoformer.training import Experiment, build_model
from algoformer.training.engine import EngineName
from algoformer.training.solver import open_solver
from benchmarks.cases import experiment
from benchmarks.plain import PlainData, PlainModel, copy_weights, errors_of
from benchmarks.setting import Row, Setting
from benchmarks.timing import clear, wait

CASE = "algoformer_full"


def evaluation_rows(setting: Setting) -> Iterator[Row]:
    """By hand, the model as a solver, and the quick solver on its engines; the second time each is timed."""
    size, device = setting.size, setting.device
    timed = experiment(CASE, size)
    model: AlgoFormer = build_model(timed).to(device)  # type: ignore[assignment]
    prompt = evaluation_prompts(timed.task, count=size.evaluated_prompts)
    steps = size.evaluated_steps
    engines: tuple[EngineName, ...] = ("eager", "graph", "compiled") if device.type == "cuda" else ("eager",)
    by_hand = _by_hand(timed, model, prompt, steps, device)
    first, slow, expected = _twice(by_hand, device)
    facts: Row = {"T": steps, "prompts": prompt.batch}
    yield {"solver": "plain", **facts, "seconds": slow, "first_seconds": first, "times_plain": 1.0}
    for engine in (None, *engines):
        clear(device)
        with nullcontext(model) if engine is None else open_solver(model, engine=engine) as solver:
            first, fast, found = _twice(partial(_errors, solver, prompt, steps), device)
        yield {
            "solver": "model" if engine is None else f"open_solver, {engine}",
            **facts,
            "seconds": fast,
            "first_seconds": first,
            "times_plain": slow / fast,
            "errors_differ_by": float(np.max(np.abs(found / expected - 1))),
        }


def _by_hand(
    timed: Experiment, model: AlgoFormer, prompt: Prompt, steps: int, device: torch.device
) -> Callable[[], np.ndarray]:
    plain = PlainModel(timed).to(device)
    copy_weights(model, plain)
    rows, targets = prompt.rows.to(device), prompt.targets.to(device)
    reads = PlainData(timed, torch.Generator(device)).reads

    def measure() -> np.ndarray:
        with matmul_precision("fp32"):
            errors = errors_of(plain, rows, targets, reads, steps)
        return errors[:, -1].cpu().double().numpy() / timed.task.scale

    return measure


def _errors(solver: Solver, prompt: Prompt, steps: int) -> np.ndarray:
    return np.array(evaluate(solver, prompt, steps=steps).by_step.error)


def _twice(function: Callable[[], np.ndarray], device: torch.device) -> tuple[float, float, np.ndarray]:
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        found = function()
        wait(device)
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1], found
