"""Prompts of a task as training data: fresh ones for every step, with curricula over them."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from algoformer import tasks
from algoformer.common.devices import matmul_precision
from algoformer.config import TrainConfig, iteration_shares, ramp_value
from algoformer.data.exits import EXIT_LOSSES, check_exit, ponder_cost, prompt_exit_loss, unroll_for_gate
from algoformer.data.objective import error_at, log_loss, stage_loss, window_loss
from algoformer.data.protocol import Data, Loss, Metrics, Share
from algoformer.evaluation import Evaluation, evaluate, evaluation_prompts
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import Program, is_causal, learns_to_halt
from algoformer.prompt import Prompt
from algoformer.tasks import Task
from algoformer.trace import Solver, Trace, Unroll

VALIDATION_SEED = 2**31 - 1
"""The last seed of held-out prompts is for validation: evaluations of results never use it."""

VALIDATION_PROMPTS = 256
"""Prompts of a validation: enough to compare two moments of one run on the same prompts."""


@dataclass(frozen=True)
class PromptBatch:
    """Prompts with the question weights of the curriculum.

    Attributes:
        prompt: this process's share of the batch.
        weights: how much each question counts; zero for samples that the curriculum has not reached.
        last: the index of the last question that counts.
        mean: the mean of a tensor over all processes.
    """

    prompt: Prompt
    weights: Tensor
    last: Tensor
    mean: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PromptData:
    """Fresh prompts of a task at every step; batch n depends on the seed and n alone."""

    task: Task

    name: ClassVar[str] = "prompts"
    measures: ClassVar[tuple[str, ...]] = ("loss", "error")
    fixed_shapes: ClassVar[bool] = True

    def check(self, program: Program, training: TrainConfig) -> None:
        """Refuse curricula that the program or the task cannot follow, and a loss that does not fit."""
        if training.loss in EXIT_LOSSES or learns_to_halt(program):
            check_exit(program, training)
        if training.samples is not None and not is_causal(program):
            raise ValueError(
                "samples: with full attention only the last question of a prompt is asked, so that there is "
                "no curriculum over samples; leave it out"
            )
        if training.dims is not None and not self.task.takes_dims:
            raise ValueError("dims: this task has no curriculum over coordinates; leave it out")

    def build_model(self, program: Program, width: int, training: TrainConfig) -> AlgoFormer:
        """Return a model for the task's prompts with fresh weights."""
        task = self.task
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed)
            return AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=width)

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that was made for other prompts than the task's."""
        task = self.task
        if not isinstance(model, AlgoFormer):
            raise ValueError(f"the data is prompts of a task, the model is a {type(model).__name__}")
        if (model.dim, model.out) != (task.dim, task.out):
            raise ValueError(
                f"the model reads rows of dim={model.dim} and answers with out={model.out} numbers, "
                f"the task has dim={task.dim} and out={task.out}"
            )
        if model.context < task.context:
            raise ValueError(f"the model has room for {model.context} rows, a prompt has {task.context}")

    def batches(self, model: nn.Module, training: TrainConfig, share: Share) -> PromptBatches:
        """Open the prompts of a run on the model's device."""
        return PromptBatches(self.task, cast(AlgoFormer, model), training, share)

    def loss(
        self, model: Callable[..., Any], batch: PromptBatch, unroll: Unroll, training: TrainConfig
    ) -> Loss:
        """Return the loss of the answers over the window, and the error at the last question that counts."""
        trace: Trace = model(batch.prompt, unroll_for_gate(unroll) if training.loss == "gate" else unroll)
        shares = iteration_shares(training, unroll.length)
        if training.loss in EXIT_LOSSES:
            value = prompt_exit_loss(trace, batch.prompt, batch.weights, training)
        elif training.loss == "log":
            value = log_loss(trace, batch.prompt, batch.weights, over_all=batch.mean, shares=shares)
        elif training.loss == "stages":
            value = stage_loss(trace, batch.prompt, batch.weights, stage_steps=training.stage_steps)
        else:
            value = window_loss(trace, batch.prompt, batch.weights, shares)
        if trace.halting is not None and training.loss not in EXIT_LOSSES:
            value = value + ponder_cost(trace, batch.weights, training)
        error = error_at(trace, batch.prompt, batch.last) / self.task.scale
        # of logarithms the metrics show the geometric mean of the errors, a number that can be compared
        shown = value.detach().exp() if training.loss == "log" else value.detach()
        return Loss(value, (shown, error))

    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Return the error at the last question of fixed prompts that neither training nor results use."""
        prompt = evaluation_prompts(self.task, count=VALIDATION_PROMPTS, seed=VALIDATION_SEED, split="valid")
        device = next(model.parameters()).device
        found = evaluate(cast(Solver, model), prompt.to(device), window=1, resamples=1)
        return {"valid_error": found.error}

    def merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return the negative error: the smallest error is the best."""
        return (-validation["valid_error"],)

    def evaluate(self, model: nn.Module, **options: Any) -> Evaluation:
        """Measure a model on held-out prompts of the task.

        Args:
            model: the solver.
            options: `prompts` (their number, 1280) and `seed` (0) choose the prompts; all others go to
                `evaluation.evaluate`.
        """
        count, seed = options.pop("prompts", 1280), options.pop("seed", 0)
        return evaluate(cast(Solver, model), evaluation_prompts(self.task, count=count, seed=seed), **options)

    def facts(self) -> dict[str, Any]:
        """Return nothing: the header says all about a task."""
        return {}

    def resumed(self, stored: Data) -> PromptData:
        """Return the data itself: nothing is learned from prompts but the model."""
        return self

    def settings(self) -> dict[str, Any]:
        """Return the task's constants.

        Raises:
            ValueError: the task is not registered, so that no file could name it.
        """
        return {"name": self.name, "task": tasks.to_data(self.task)}

    def header(self) -> dict[str, Any]:
        """Return the settings: nothing is learned from prompts but the model."""
        return self.settings()

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> PromptData:
        """Rebuild the data from its header."""
        if set(header) != {"name", "task"} or not isinstance(header["task"], Mapping):
            raise ValueError("prompts have exactly a name and a task, which is an object")
        return cls(tasks.from_data(header["task"]))


class PromptBatches:
    """The prompts of a run: tensors that stay in place, so that a CUDA graph can draw and weigh them.

    Curricula change values, not shapes: inactive coordinates are masked in the prompts, and questions that do
    not count yet have weight zero, which for causal models is the same as a shorter prompt. Every process
    draws the whole batch and works on its share, so that prompts do not depend on their number.
    """

    def __init__(self, task: Task, model: AlgoFormer, training: TrainConfig, share: Share) -> None:
        share.check_batch_size(training.batch_size)
        self.task, self.training, self.share = task, training, share
        self.causal = model.causal
        weight = next(model.parameters())
        self.dtype, device = weight.dtype, weight.device
        self.generator = torch.Generator(device)
        self.dims = torch.tensor(task.dim, device=device)
        prompt = task.sample(1, generator=torch.Generator(device).manual_seed(0))
        if prompt.classes and training.loss == "log":
            raise ValueError(
                "loss='log' is of squared errors, and the answers of this task are classes; "
                "choose loss='mean', their cross-entropy"
            )
        self.samples = prompt.samples
        asked = [row // task.parts for row in prompt.for_attention(causal=self.causal).reads]
        if training.samples is not None and training.samples.start <= min(asked):
            raise ValueError(
                f"samples: the first question of a prompt is about sample {min(asked) + 1}; start there or "
                f"later, got start={training.samples.start}, or leave the curriculum out"
            )
        self.sample_of_question = torch.tensor(asked, device=device)
        self.weights = torch.ones(len(self.sample_of_question), device=device)
        self.last = torch.tensor([len(self.sample_of_question) - 1], device=device)
        self._stage = task.dim, self.samples

    def select(self, step: int) -> Hashable:
        """Seed the generator for the step, and move the curricula to it; all steps have the same shapes."""
        self.generator.manual_seed(prompt_seed(self.training.seed, step))
        stage = dims, samples = curricula(self.training, step, dims=self.task.dim, samples=self.samples)
        if stage != self._stage:
            self.dims.fill_(dims)
            torch.lt(self.sample_of_question, samples, out=self.weights)
            torch.sum(self.weights, dim=0, keepdim=True, dtype=torch.int64, out=self.last).sub_(1)
            self._stage = stage
        return None

    def current(self) -> PromptBatch:
        """Draw the prompts of the selected step, exact in single precision whatever the model's products."""
        dims = self.dims if self.training.dims is not None else None
        exact = torch.get_float32_matmul_precision() == "highest"
        with nullcontext() if exact else matmul_precision("fp32"):
            prompt = self.task.sample(
                self.training.batch_size, generator=self.generator, dtype=self.dtype, active_dims=dims
            )
        if self.share.processes > 1:
            size = prompt.batch // self.share.processes
            prompt = prompt.select(slice(self.share.rank * size, (self.share.rank + 1) * size))
        prompt = prompt.for_attention(causal=self.causal)
        return PromptBatch(prompt, self.weights, self.last, self.share.mean)

    def metrics(self, step: int) -> Metrics:
        """Return the coordinates and the samples that count at a step."""
        dims, samples = curricula(self.training, step, dims=self.task.dim, samples=self.samples)
        return {"dims": float(dims), "samples": float(samples)}


def curricula(config: TrainConfig, step: int, *, dims: int, samples: int) -> tuple[int, int]:
    """Return the active coordinates and the samples that count at a step, of those of the task."""
    return (
        ramp_value(config.dims, step, steps=config.steps, end=dims),
        ramp_value(config.samples, step, steps=config.steps, end=samples),
    )


def prompt_seed(seed: int, step: int) -> int:
    """Return the seed for the prompts of a step: even, so that evaluation prompts (odd) differ."""
    return 2 * random.Random(f"{seed}/{step}/prompts").getrandbits(31)
