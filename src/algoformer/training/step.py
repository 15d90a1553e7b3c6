"""One training step: sample, run, measure, differentiate, clip, update. Nothing in it reads a value back."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.model.algoformer import AlgoFormer
from algoformer.trace import Unroll
from algoformer.training.config import Experiment
from algoformer.training.objective import window_loss
from algoformer.training.schedule import Stage, samples_of


class TrainingStep:
    """The step as a function of tensors that are updated in place, so that it can be captured as a graph.

    Curricula change values, not shapes: inactive coordinates are masked in the prompts, and questions
    that do not count yet have weight zero, which for causal models is the same as a shorter prompt.
    """

    def __init__(self, experiment: Experiment, model: AlgoFormer, generator: torch.Generator) -> None:
        self.experiment = experiment
        self.model = model
        self.generator = generator
        device = generator.device
        on_cuda = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=torch.tensor(experiment.training.learning_rate, device=device) if on_cuda else 0.0,
            fused=True,
            capturable=on_cuda,
        )
        task = experiment.task
        self.dims = torch.tensor(task.dim, device=device)
        self.sample_of_question = self._sample_of_question(device)
        self.weights = torch.ones(len(self.sample_of_question), device=device)

    def prepare(self, rate: float, stage: Stage) -> None:
        """Write the step's learning rate and curricula into the tensors that `run` reads."""
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.dims.fill_(stage.dims)
        torch.lt(self.sample_of_question, stage.samples, out=self.weights)

    def run(self, unroll: Unroll) -> Float[Tensor, ""]:
        """Take one step; the loss, still on the device."""
        loss = self.loss(unroll)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip = self.experiment.training.clip
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        return loss.detach()

    def loss(self, unroll: Unroll) -> Float[Tensor, ""]:
        """The window loss on fresh prompts."""
        training, task = self.experiment.training, self.experiment.task
        dims = self.dims if training.dims is not None else None
        prompt = task.sample(training.batch, generator=self.generator, active_dims=dims)
        device = self.generator.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=training.precision == "bf16"):
            trace = self.model(prompt, unroll)
        return window_loss(trace, prompt, self.weights)

    def _sample_of_question(self, device: torch.device) -> Tensor:
        task = self.experiment.task
        prompt = task.sample(1, generator=torch.Generator(device).manual_seed(0))
        samples = torch.tensor([row // task.parts for row in prompt.reads], device=device)
        assert int(samples.max()) < samples_of(task)
        return samples
