"""What several processes do for one run: share a batch, average, agree, and let the first one write."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Literal, TypeVar, cast

import torch.distributed as dist
from torch import Tensor, nn

from algoformer.model.algoformer import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll
from algoformer.training import sharded
from algoformer.training.average import Model

Result = TypeVar("Result")
Answer = Callable[[Prompt, Unroll], Trace]

SECONDS_BETWEEN_AGREEMENTS = 1.0
"""How long a Ctrl-C may wait: processes ask each other about this often whether to go on."""

SENT_ERRORS = (KeyboardInterrupt, FloatingPointError, OSError, ValueError)
"""Kinds of errors that somebody may catch; any other reaches the other processes as a RuntimeError."""


class Spread:
    """The processes of a run, and which of them this one is; by default the only one.

    Every process draws the whole batch from the same generator and works on its share of it. So prompts
    and generator are the same whatever the number of processes, and a run can go on with another number.
    """

    def __init__(
        self, kind: Literal["alone", "ddp", "fsdp"] = "alone", *, rank: int = 0, processes: int = 1
    ) -> None:
        self.kind = kind
        self.rank = rank
        self.processes = processes
        self._module: nn.Module | None = None
        self._blank: AlgoFormer | None = None

    @property
    def alone(self) -> bool:
        """Whether there is nobody to exchange anything with."""
        return self.kind == "alone"

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and talks to people."""
        return self.rank == 0

    def __str__(self) -> str:
        return "1 process" if self.alone else f"{self.processes} processes ({self.kind})"

    def wrap(self, model: AlgoFormer, *, at_once: bool = False) -> None:
        """From now on gradients of the model's weights, taken through `run`, are means over all processes.

        All processes start with the weights of the first. Wrap before the optimizer sees the weights:
        FSDP puts pieces in their place.

        Args:
            model: what is trained.
            at_once: whether all weights are read before anything is run, by a body of another precision.
        """
        if self.alone:
            return
        module = _Answering(model)
        if self.kind == "fsdp":
            self._blank = copy.deepcopy(model).to("meta")
            sharded.shard(module, model, at_once=at_once)
            self._module = module
        else:
            self._module = nn.parallel.DistributedDataParallel(module)

    def run(self, answer: Answer, prompt: Prompt, unroll: Unroll) -> Trace:
        """The answers of the wrapped model, which `answer` knows how to run."""
        if self._module is None:
            return answer(prompt, unroll)
        return Trace(predictions=self._module(answer, prompt, unroll), first_step=unroll.first_step)

    def copy(self, model: Model) -> Model:
        """A model of its own with the weights of this one, or this process's pieces of them."""
        if self._blank is None:
            return copy.deepcopy(model)
        plain = cast(Model, copy.deepcopy(self._blank))
        weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        plain.load_state_dict(weights, assign=True)
        return plain

    def share(self, prompt: Prompt) -> Prompt:
        """This process's part of a batch."""
        if self.alone:
            return prompt
        size = prompt.batch // self.processes
        return prompt.select(slice(self.rank * size, (self.rank + 1) * size))

    def average(self, values: Tensor) -> Tensor:
        """The mean over all processes."""
        if self.alone:
            return values
        values = values.clone()
        dist.all_reduce(values)
        return values / self.processes

    def by_the_first(self, action: Callable[[], Result]) -> Result:
        """Do something on the first process alone; what it returns or raises, all processes do.

        So none waits for one that has met with an error. Results travel: they must be small and plain.
        """
        if self.alone:
            return action()
        told: list[tuple[Result | None, BaseException | None]] = [(None, None)]
        failure: BaseException | None = None
        if self.first:
            try:
                told = [(action(), None)]
            except BaseException as error:
                failure = error
                told = [(None, _to_send(error))]
        dist.broadcast_object_list(told, src=0)
        result, sent = told[0]
        if sent is not None:
            raise failure or sent
        return cast(Result, result)

    def after_the_first(self, action: Callable[[], Result]) -> Result:
        """Do something on the first process, and then on the others, unless it went wrong there."""
        done: list[Result] = []
        self.by_the_first(lambda: done.append(action()))
        return done[0] if done else action()

    def ask_all(self, value: Result) -> list[Result]:
        """What every process gives for the same question, in their order."""
        if self.alone:
            return [value]
        answers: list[Result | None] = [None] * self.processes
        dist.all_gather_object(answers, value)
        return cast(list[Result], answers)

    def refuse_difference(self, what: str, value: object) -> None:
        """Make sure that all processes have the same.

        Raises:
            ValueError: they do not, on all of them.
        """
        values = self.ask_all(value)
        if any(other != values[0] for other in values):
            raise ValueError(
                f"the processes of this run do not have the same {what}; "
                "start all of them with the same arguments, and with a folder that all of them see"
            )

    def whole(self, tensor: Tensor) -> Tensor:
        """On the first process the whole of a tensor; the others give their pieces, and keep only them."""
        if not sharded.is_piece(tensor):
            return tensor
        together = sharded.put_together(tensor)
        return together.cpu() if self.first else tensor

    def whole_model(self, model: AlgoFormer, *, everywhere: bool = False) -> AlgoFormer:
        """The model with whole weights: itself, or after FSDP a copy on the CPU.

        All processes must ask for it. Unless `everywhere`, only the first gets one with numbers in it.
        """
        if self._blank is None:
            return model
        kept = {}
        for name, weight in model.state_dict().items():
            together = sharded.put_together(weight)  # one at a time: only one is whole on the device
            if self.first or everywhere:
                kept[name] = together.cpu()
        plain = copy.deepcopy(self._blank)
        if kept:
            plain.load_state_dict(kept, assign=True)
        return plain.requires_grad_(True)


class _Answering(nn.Module):
    """A model and whatever way to run it as one module, which gives back a tensor, as wrappers want it."""

    def __init__(self, model: AlgoFormer) -> None:
        super().__init__()
        self.model = model

    def forward(self, answer: Answer, prompt: Prompt, unroll: Unroll) -> Tensor:
        # a copy, small as it is: FSDP hangs its hook on what comes out, and does so in vain on a view
        return answer(prompt, unroll).predictions.clone()


class Stop(IntEnum):
    """Whether to end a run before its last step, and why; where wishes differ, the largest counts."""

    NO = 0
    OUT_OF_TIME = 1
    INTERRUPTED = 2


class Agreement:
    """All processes end a run after the same step, or one would wait for the others for ever.

    They ask each other about once a second and not after every step, because an answer has to be waited
    for. The number of steps until they ask again is part of the answer, so that they agree on it too.
    """

    def __init__(self, spread: Spread) -> None:
        self.spread = spread
        self.steps = 1
        self.next_step = 0
        self.last_time = time.monotonic()

    def stop(self, step: int, wish: Stop) -> Stop:
        """What all processes do after this step, if this one has that wish."""
        if self.spread.alone:
            return wish
        if step < self.next_step:
            return Stop.NO
        now = time.monotonic()
        passed, self.last_time = max(now - self.last_time, 1e-9), now
        fitting = int(self.steps * min(SECONDS_BETWEEN_AGREEMENTS / passed, 2.0))
        answers = self.spread.ask_all((wish, max(1, fitting)))
        self.steps = min(steps for _, steps in answers)
        self.next_step = step + self.steps
        return max(wish for wish, _ in answers)


def _to_send(error: BaseException) -> BaseException:
    """An error with its words and of its kind, made of nothing else, so that it can travel."""
    kind = next((kind for kind in SENT_ERRORS if isinstance(error, kind)), None)
    return RuntimeError(f"{type(error).__name__}: {error}") if kind is None else kind(str(error))
