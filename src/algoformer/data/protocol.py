"""The protocol of training data, and the kinds of data by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from algoformer.common.names import Registry
from algoformer.config import TrainConfig
from algoformer.model.program import Program
from algoformer.trace import Unroll

Metrics = Mapping[str, float]
"""Numbers by name."""


@dataclass(frozen=True)
class Share:
    """The share of every batch that this process works on, and the mean over all processes.

    Attributes:
        rank: the number of this process.
        processes: how many processes share a batch.
        mean: returns the mean of a tensor over all processes.
    """

    rank: int = 0
    processes: int = 1
    mean: Callable[[Tensor], Tensor] = torch.clone

    def check_batch_size(self, batch_size: int) -> None:
        """Refuse a batch that the processes cannot share evenly."""
        if batch_size % self.processes:
            raise ValueError(
                f"batch_size={batch_size} cannot be shared evenly by {self.processes} processes; "
                f"choose a multiple of {self.processes} or another number of processes"
            )


@dataclass(frozen=True)
class Loss:
    """The loss of one batch.

    Attributes:
        value: the scalar to differentiate.
        sums: numbers to average over the steps between two rows of metrics, by name, without gradient;
            their names and order are `Data.measures`.
    """

    value: Tensor
    sums: tuple[Tensor, ...]


@runtime_checkable
class Batches(Protocol):
    """The batches of one run on one device.

    `select` does the host's work for a batch; `current` is tensor code on the device, which a CUDA graph can
    capture and replay after another `select`.
    """

    @property
    def generator(self) -> torch.Generator | None:
        """The generator that `current` draws from, to be registered with CUDA graphs; None without draws."""

    def select(self, step: int) -> Hashable:
        """Make batch number `step` (counted from 0) the current one; return a key of its shapes."""

    def current(self) -> Any:
        """Return the selected batch on the device of the run."""

    def metrics(self, step: int) -> Metrics:
        """Return where the curricula of the data stand at `step`, for a row of metrics."""


@runtime_checkable
class Data(Protocol):
    """A description of training data. Register a class with `register_data`, so checkpoints can name it."""

    @property
    def name(self) -> str:
        """The key of the class in the registry, such as "prompts" or "translation"."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of `Loss.sums`; the first is "loss"."""

    @property
    def fixed_shapes(self) -> bool:
        """True if all batches have the same shapes, so that compiling for them pays."""

    def check(self, program: Program, training: TrainConfig) -> None:
        """Refuse a program or settings that this data cannot be trained with.

        Raises:
            ValueError: with the setting, its value and the remedy.
        """

    def build_model(self, program: Program, width: int, training: TrainConfig) -> nn.Module:
        """Return a model with fresh weights that `training.seed` alone decides."""

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that does not fit this data: other sizes, another vocabulary, other labels.

        Raises:
            ValueError: with the size that differs.
        """

    def batches(self, model: nn.Module, training: TrainConfig, share: Share) -> Batches:
        """Open the training batches for a model, on its device."""

    def loss(self, model: Callable[..., Any], batch: Any, unroll: Unroll, training: TrainConfig) -> Loss:
        """Return the loss of a model, or of a solver in its place, on a batch."""

    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Measure the model on held-out data while training; empty where there is nothing to validate on.

        Names begin with "valid_". `bf16` allows matrix products in bf16, as in training.
        """

    def merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return what decides which of several validations is the best: the largest tuple."""

    def evaluate(self, model: nn.Module, **options: Any) -> Any:
        """Measure a trained model on its test data, as it is reported."""

    def facts(self) -> dict[str, Any]:
        """Return what the card of a checkpoint says about the data: its sources, terms and spelling."""

    def resumed(self, stored: Data) -> Data:
        """Return this data as the resumed run left it: with its tokenizer, on the same text.

        Raises:
            ValueError: the text has changed since, so the run could not continue exactly.
        """

    def settings(self) -> dict[str, Any]:
        """Return the settings in plain JSON types, without what was learned from the data."""

    def header(self) -> dict[str, Any]:
        """Return all that a file must hold to rebuild this object: the settings, and a tokenizer if any."""

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Data:
        """Rebuild the object from `header()` or `settings()`.

        Raises:
            ValueError: the header is damaged or of another kind.
        """


BUILT_IN = {
    "prompts": "algoformer.data.prompts:PromptData",
    "translation": "algoformer.data.translation:TranslationData",
    "labels": "algoformer.data.labelled:LabelledData",
    "text": "algoformer.data.text:TextData",
}
"""The kinds of data of this library, imported when they are first needed."""

_KINDS: Registry[Any] = Registry(
    "kind of data", BUILT_IN, group="algoformer.data", register="algoformer.data.register_data"
)
DataClass = TypeVar("DataClass", bound=type)


def register_data(cls: DataClass) -> DataClass:
    """Make a kind of data known under its `name`, so that checkpoints and commands can name it.

    Use it as a decorator, or name the class in the entry point group `algoformer.data` of a package.

    Raises:
        ValueError: the class has no name, or the name belongs to another class.
    """
    _KINDS.register(getattr(cls, "name", ""), cls)
    return cls


def data_class(name: str) -> Any:
    """Return the class that is registered under a name; the message about an unknown one has the nearest."""
    return _KINDS.find(name)


def data_names() -> list[str]:
    """Return the names of all kinds of data that are known here."""
    return _KINDS.names()


def data_from_header(header: object) -> Data:
    """Rebuild a data object from its header or settings.

    Raises:
        ValueError: the header is damaged, or of a kind that is not registered here.
    """
    if not isinstance(header, Mapping) or not isinstance(header.get("name"), str):
        raise ValueError(f"data must be an object with a name, got {str(header)[:60]}")
    return data_class(header["name"]).from_header(header)


def as_data_object(value: Any) -> Data:
    """Return a data object: the value itself, or a bare task wrapped into `PromptData`."""
    if isinstance(value, Data):
        return value
    from algoformer.tasks import Task

    if isinstance(value, Task):
        from algoformer.data.prompts import PromptData

        return PromptData(value)
    raise ValueError(
        f"data must be a task or a data object such as TextData(files=...), got {type(value).__name__}"
    )
