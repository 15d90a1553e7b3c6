"""From an experiment on text to weights: the same loop, folder and checkpoints as for prompts."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from algoformer.language.checkpoint import TextCheckpoint, load_text_model, save_text_model
from algoformer.language.packing import PackedText
from algoformer.language.training.experiment import TextExperiment, build_text_model
from algoformer.language.training.step import (
    TextEngine,
    TextModel,
    TextStep,
    open_text_engine,
    plan_text_engine,
)
from algoformer.language.training.text import check_text, classes_of, prepare_text
from algoformer.language.training.validation import merit, validate
from algoformer.common.files import read_json
from algoformer.training.precision import matmul_precision
from algoformer.training.resume import facts_of, state_of
from algoformer.training.run_folder import Metrics, RunFolder, Store, open_folder
from algoformer.training.session import Progress, Session, check_request

TEXT_CHECKPOINTS: Store[TextCheckpoint] = Store(load_text_model, save_text_model)
"""Of models of text."""

BEST = "best.safetensors"
"""In a run folder, the weights that did best on the validation split so far: see `merit`."""

logger = logging.getLogger("algoformer.training")


@dataclass(frozen=True, kw_only=True)
class TextRun:
    """A trained model of text and how it got there.

    Attributes:
        experiment: what was trained and how.
        model: the model after the last step, in evaluation mode, where it was trained; with `ema`, the mean
            of its weights.
        text: the tokens it was trained on, with their tokenizer.
        step: how many steps it has taken in all.
        metrics: a row for every `log_every` steps: step; means of loss, of the last iteration's cross-entropy
            (`last_loss`) and of tokens in a batch since the row before; learning rate; iterations; seconds;
            steps per second; every `validate_every` steps and at the end `valid_loss`, for labels also
            `valid_accuracy`.
        best_step: the step that did best on the validation split, by accuracy for labels (of equals, by loss)
            and by loss for translation; its weights are in `BEST` in the folder.
        runs_at_once: the most runs that ever shared its device, itself among them.
    """

    experiment: TextExperiment
    model: TextModel
    text: PackedText
    step: int
    metrics: tuple[Metrics, ...]
    best_step: int | None
    runs_at_once: int = 1

    @property
    def finished(self) -> bool:
        """Whether all steps were taken."""
        return self.step == self.experiment.training.steps

    @property
    def checkpoint(self) -> TextCheckpoint:
        """The model with its tokenizer, to be used or saved."""
        return TextCheckpoint(
            model=self.model,
            tokenizer=self.text.tokenizer.to_json(),
            card={"step": self.step, **_facts(self.experiment, self.text)},
        )


def train_text(
    experiment: TextExperiment,
    folder: Path | str | None = None,
    *,
    text: PackedText | None = None,
    data: Path | str | None = None,
    resume: bool = False,
    device: str | torch.device = "cpu",
    engine: TextEngine = "auto",
    max_minutes: float | None = None,
    shard_mb: int | float | None = None,
    tensorboard: bool = True,
    runs_at_once: int = 1,
    command: str = "",
    progress: Progress | None = None,
) -> TextRun:
    """Train the experiment's model of text; with a folder, leave config, metrics and checkpoints there.

    Stopped at any moment, a run continues with `resume=True` from its last checkpoint, on the CPU with
    exactly the weights it would have had without the stop. Ctrl-C stops after the step at hand, with a
    checkpoint.

    Args:
        experiment: what to train and how.
        folder: where to write; None writes nothing.
        text: the tokens to read, from `prepare_text` or `unpack`; by default they are made here.
        data: the data folder for that, as for `load_parallel`.
        resume: go on with the run in `folder`.
        device: where to train.
        engine: how steps are taken: "eager" as they stand, "graph" captured, one graph for each shape of
            batch; "auto" captures on CUDA.
        max_minutes: and `shard_mb`, `tensorboard`, `runs_at_once`, `command`, `progress`: as for
            `training.train`.

    Raises:
        ValueError: the folder already holds a run, or holds none to resume, or another experiment's; or the
            text was made with other settings; or the corpora are not there.
        FloatingPointError: the loss is no longer a number; the last good checkpoint is kept.
        OSError: a file could not be written, say because the disk is full; the last checkpoint is kept.
    """
    check_request(folder, resume=resume, max_minutes=max_minutes, runs_at_once=runs_at_once)
    text = prepare_text(experiment.text, data=data) if text is None else text
    check_text(text, experiment.text)
    with ExitStack() as stack:
        opened: RunFolder[TextCheckpoint] | None = None
        if folder is not None:
            opening = open_folder(
                Path(folder),
                experiment,
                TEXT_CHECKPOINTS,
                resume=resume,
                shard_mb=shard_mb,
                tensorboard=tensorboard,
            )
            opened = stack.enter_context(opening)
        session = _TextSession(experiment, text, opened, torch.device(device), engine, runs_at_once, command)
        stack.enter_context(matmul_precision(experiment.training.precision))
        session.loop(max_minutes, progress or (lambda done, total, metrics: None))
    return TextRun(
        experiment=experiment,
        model=session.stepper.trained.eval(),
        text=text,
        step=session.step,
        metrics=tuple(session.metrics),
        best_step=session.best[1],
        runs_at_once=session.runs_at_once,
    )


class _TextSession(Session[TextCheckpoint]):
    """A model that learns from tokens."""

    def __init__(
        self,
        experiment: TextExperiment,
        text: PackedText,
        folder: RunFolder[TextCheckpoint] | None,
        device: torch.device,
        engine: TextEngine,
        runs_at_once: int,
        command: str,
    ) -> None:
        self.experiment, self.text = experiment, text
        self.plan = plan_text_engine(engine, device)
        checkpoint = None if folder is None else folder.load()
        if checkpoint is not None and checkpoint.tokenizer != text.tokenizer.to_json():
            raise ValueError(
                "the run was trained with another tokenizer: its corpora have changed; resume with the text "
                "it began with, packed"
            )
        model = build_text_model(experiment, vocabulary=len(text.tokenizer), labels=classes_of(text))
        self.stepper = TextStep(experiment, model.to(device), text.splits["train"])
        super().__init__(
            self.stepper,
            folder,
            checkpoint,
            engine=str(self.plan),
            runs_at_once=runs_at_once,
            command=command,
        )
        self.best = self._best_so_far()

    def stepping(self) -> AbstractContextManager[Callable[[int], None]]:
        """Inside, a function that takes the step of a number."""
        return open_text_engine(self.stepper, self.plan)

    def numbers(self, means: list[float]) -> Mapping[str, float]:
        """What was read, and on some steps how the model does on the validation split."""
        every, last = self.experiment.text.validate_every, self.step == self.config.steps
        found = {"last_loss": means[1], "tokens": means[2]}
        return found | (self._validated() if self.step % every == 0 or last else {})

    def capture(self, card: Mapping[str, Any]) -> TextCheckpoint:
        """A checkpoint of this moment."""
        return TextCheckpoint(
            model=self.stepper.trained,
            tokenizer=self.text.tokenizer.to_json(),
            card={**card, **facts_of(self.stepper), **_facts(self.experiment, self.text)},
            state=state_of(self.stepper),
        )

    def _validated(self) -> dict[str, float]:
        half = self.config.precision == "bf16"
        found = validate(self.stepper.trained, self.text.splits["valid"], self.experiment.text, half=half)
        if merit(found.numbers) > self.best[0]:
            self.best = merit(found.numbers), self.step
            if self.folder is not None:
                card = {"step": self.step, **found.numbers, **facts_of(self.stepper)}
                best = TextCheckpoint(
                    model=self.stepper.trained,
                    tokenizer=self.text.tokenizer.to_json(),
                    card=card | _facts(self.experiment, self.text),
                )
                save_text_model(self.folder.path / BEST, best, self.folder.shard_mb)
        return found.numbers

    def _best_so_far(self) -> tuple[tuple[float, float], int | None]:
        path = None if self.folder is None else self.folder.path / BEST
        if path is None or not path.exists():
            return (-math.inf, -math.inf), None
        card = load_text_model(path).card
        found = {name: card[name] for name in ("valid_loss", "valid_accuracy") if name in card}
        step, numbers = card.get("step"), all(isinstance(one, float) for one in found.values())
        if "valid_loss" not in found or not numbers or type(step) is not int:
            raise ValueError(f"{path} does not say how good it is; remove it to go on")
        return merit(found), step


def load_text_experiment(folder: Path | str) -> TextExperiment:
    """The experiment on text whose run is in `folder`.

    Raises:
        ValueError: there is no run, or its config cannot be read.
    """
    try:
        return TextExperiment.from_data(read_json(Path(folder) / "config.json"))
    except ValueError as error:
        raise ValueError(f"{folder} holds no readable run on text: {error}") from None


def _facts(experiment: TextExperiment, text: PackedText) -> dict[str, Any]:
    kept = {name: text.card[name] for name in ("corpus", "terms", "files") if name in text.card}
    notes = [*text.card.get("notes", ()), *text.splits["train"].notes]
    only_words = text.card.get("spelling", {}).get("only_words") is True
    return {**kept, "notes": notes, "lowercase": experiment.text.lowercase, "only_words": only_words}
