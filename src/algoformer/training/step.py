"""One training step: sample, run, measure, differentiate, clip, update, average; nothing is read back."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.model.algoformer import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll
from algoformer.training.config import Experiment, Precision
from algoformer.training.fused import FusedBody
from algoformer.training.model_step import ModelStep
from algoformer.data.objective import error_at, log_loss, window_loss
from algoformer.training.precision import HalfBody, matmul_precision
from algoformer.training.schedule import Stage, samples_of
from algoformer.training.spread import Spread


class TrainingStep(ModelStep[AlgoFormer]):
    """The step as a function of tensors that are updated in place, so that it can be captured as a graph.

    Curricula change values, not shapes: inactive coordinates are masked in the prompts, and questions
    that do not count yet have weight zero, which for causal models is the same as a shorter prompt.
    Losses and errors are added up on the device (`sums`) until somebody reads them. With several
    processes each works on its share of the batch, and the sums are of that share until they are read.
    """

    generator: torch.Generator

    def __init__(
        self,
        experiment: Experiment,
        model: AlgoFormer,
        generator: torch.Generator,
        spread: Spread | None = None,
    ) -> None:
        spread = spread or Spread()
        self.body: HalfBody | FusedBody | None = None
        """What runs the model instead of its own `forward`, in another precision or with other kernels."""
        precision = experiment.training.precision
        spread.wrap(model, at_once=precision == "bf16")
        super().__init__(experiment, model, generator, sums=2, spread=spread)
        self.multiply_in(precision)
        self.experiment, self.generator = experiment, generator
        self.dtype = model.read_out.weight.dtype
        self.dims = torch.tensor(experiment.task.dim, device=self.device)
        self.sample_of_question = self._sample_of_question()
        self.weights = torch.ones(len(self.sample_of_question), device=self.device)
        self.last = torch.tensor([len(self.sample_of_question) - 1], device=self.device)
        """The last question that counts."""
        self._prepared: tuple[float, int, int] | None = None

    @property
    def described(self) -> Experiment:
        """The experiment."""
        return self.experiment

    def multiply_in(self, precision: Precision) -> None:
        """Take products in this precision from the next step on."""
        self.body = HalfBody(self.model) if precision == "bf16" else None

    def prepare(self, rate: float, stage: Stage) -> None:
        """Write the step's learning rate and curricula into the tensors that `run` reads."""
        wanted = (rate, stage.dims, stage.samples)
        if wanted == self._prepared:
            return
        self.optimizer.set_rate(rate)
        self.dims.fill_(stage.dims)
        torch.lt(self.sample_of_question, stage.samples, out=self.weights)
        torch.sum(self.weights, dim=0, keepdim=True, dtype=torch.int64, out=self.last).sub_(1)
        self._prepared = wanted

    def run(self, unroll: Unroll) -> None:
        """Take one step, and add its loss and error to `sums`."""
        prompt = self.sample()
        trace = self.spread.run(self.answer, prompt, unroll)
        loss = self.measured(trace, prompt)
        self.descend(loss)
        error = error_at(trace, prompt, self.last) / self.experiment.task.scale
        # of logarithms the metrics show the geometric mean of the errors: a number that can be compared
        shown = loss.detach().exp() if self.experiment.training.loss == "log" else loss.detach()
        self.sums.add_(torch.stack([shown, error]))

    def loss(self, unroll: Unroll) -> Float[Tensor, ""]:
        """The loss on fresh prompts."""
        prompt = self.sample()
        return self.measured(self.spread.run(self.answer, prompt, unroll), prompt)

    def measured(self, trace: Trace, prompt: Prompt) -> Float[Tensor, ""]:
        """What the experiment makes smaller, of these answers."""
        if self.experiment.training.loss == "log":
            return log_loss(trace, prompt, self.weights, over_all=self.spread.average)
        return window_loss(trace, prompt, self.weights)

    def sample(self) -> Prompt:
        """Fresh prompts, exact in single precision whatever the model multiplies in."""
        training, task = self.experiment.training, self.experiment.task
        dims = self.dims if training.dims is not None else None
        with matmul_precision("fp32"):
            prompt = task.sample(training.batch, generator=self.generator, dtype=self.dtype, active_dims=dims)
        return self.asked(self.spread.share(prompt))

    def asked(self, prompt: Prompt) -> Prompt:
        """All questions of a prompt; only the last with full attention, which would see the answers."""
        return prompt if self.model.causal else prompt.prefix()

    def answer(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """The model's answers, in the precision of the experiment."""
        return self.model(prompt, unroll) if self.body is None else self.body.answer(prompt, unroll)

    def _sample_of_question(self) -> Tensor:
        task = self.experiment.task
        prompt = self.asked(task.sample(1, generator=torch.Generator(self.device).manual_seed(0)))
        samples = torch.tensor([row // task.parts for row in prompt.reads], device=self.device)
        assert int(samples.max()) < samples_of(task)
        return samples
