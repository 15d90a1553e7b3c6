"""What every training step has: weights that an optimizer moves, their average, and sums of what was seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Generic

import torch
from torch import Tensor

from algoformer.training.average import Average, Model
from algoformer.training.config import Described
from algoformer.training.optimizer import ModelOptimizer
from algoformer.training.spread import Spread


class ModelStep(ABC, Generic[Model]):
    """A model, its optimizer, its average and the sums of a run; kinds of steps add what they learn from.

    Args:
        experiment: what is trained and how.
        model: where it is to be trained.
        generator: what the step draws from; None if its draws are a function of the step's number.
        sums: how many numbers are added up.
        spread: the processes of the run; its `wrap` comes first, as the optimizer must see the final weights.
    """

    def __init__(
        self,
        experiment: Described,
        model: Model,
        generator: torch.Generator | None,
        *,
        sums: int,
        spread: Spread | None = None,
    ) -> None:
        self.model = model
        self.spread = spread or Spread()
        self.generator = generator
        self.device = next(model.parameters()).device
        self.optimizer = ModelOptimizer(model, experiment.training)
        self.clip = experiment.training.clip
        ema = experiment.training.ema
        self.average = None if ema is None else Average(model, ema, self.spread.copy)
        self.sums = torch.zeros(sums, dtype=torch.float64, device=self.device)

    @cached_property
    def recording(self) -> torch.cuda.Stream:
        """The stream of all graphs that are captured of this step, and of what is run before a capture.

        Autograd ties a weight's gradient to the stream it saw first.
        """
        return torch.cuda.Stream(self.device)

    @property
    @abstractmethod
    def described(self) -> Described:
        """The experiment, for a checkpoint."""

    @property
    def trained(self) -> Model:
        """The model that a run is for: the average of the weights where one is kept, or else the weights."""
        return self.model if self.average is None else self.average.model

    def changing(self) -> list[Tensor]:
        """Every tensor that a step changes in place; the generator changes too."""
        kept = [value for values in self.optimizer.state.values() for value in values.values()]
        averaged = [] if self.average is None else self.average.tensors()
        return [*self.model.parameters(), *kept, *averaged, self.sums]

    def descend(self, loss: Tensor) -> None:
        """Differentiate, clip, move the weights and take them into the average; nothing is read back."""
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model)

    def read_sums(self) -> list[float]:
        """What was added up since the last reset, the losses first. Waits for device and processes."""
        values: list[float] = self.spread.average(self.sums).tolist()
        return values
