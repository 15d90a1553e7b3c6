"""Where models of text are trained and scored, one after the other or several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from algoformer.language.training import TextExperiment, TextRun, prepare_text, train_text
from algoformer.language.training.measure import measure
from algoformer.language.training.text import check_text, deciding
from algoformer.language.training.trainer import BEST

from algoformer.common.devices import device_name
from algoformer.common.files import read_json, write_json
from algoformer.common.provenance import source_commit
from algoformer.extras import require
from algoformer.language import TextCheckpoint, load_labelled, load_text_model
from algoformer.language.naive_bayes import floor
from algoformer.language.packing import PackedText, pack, unpack
from algoformer.language.scores import Score
from algoformer.language.translate import Decoding
from algoformer.training.side_by_side import Tell, available_cores, train_side_by_side
from paper.decoding_study import study
from paper.run_state import DamagedRun, steps_taken
from paper.runs import fingerprint
from paper.text_items import TextRunSpec

Watch = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with a run's name, steps done, steps in all and the newest metrics."""

BEAM = 4


@dataclass(frozen=True, kw_only=True)
class TextRunManager:
    """Where models of text are trained, and where their scores go.

    Attributes:
        folder: the run folders, each named after its run and the hash of its configuration; packed text.
        results: the scores and the table.
        data: the data folder; text that is packed needs none.
        device: where to train and score.
        workers: runs at once; None is one on a GPU and one for each core on a CPU.
        max_minutes: stop after this long; what is unfinished goes on the next time, and is not scored.
        command: for provenance.
        failures: what went wrong, by the name of the run.
    """

    folder: Path
    results: Path
    data: Path | str | None = None
    device: str = "cpu"
    workers: int | None = None
    max_minutes: float | None = None
    command: str = ""
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def at_once(self) -> int:
        """How many runs are trained at once."""
        return self.workers or (1 if self.device != "cpu" else available_cores())

    @property
    def decoding(self) -> Decoding:
        """How translations are searched for when they are scored."""
        return Decoding(beam=BEAM, batch=64 if self.device == "cpu" else 512)

    def score_path(self, item: TextRunSpec) -> Path:
        """Where a model's scores are, once there are any."""
        return self.results / "text" / f"{item.name.replace('/', '-')}.scores.json"

    def run_folder(self, item: TextRunSpec) -> Path:
        """Where a model of exactly this configuration is trained."""
        return self.folder / f"{item.name.replace('/', '-')}-{fingerprint(item.experiment.to_data())}"

    def scores(self, item: TextRunSpec) -> Mapping[str, Any] | None:
        """The scores of exactly this configuration, if there are any.

        Raises:
            ValueError: there is a file that holds something else.
        """
        path = self.score_path(item)
        if not path.exists():
            return None
        found = read_json(path)
        if not isinstance(found, dict) or not isinstance(found.get("measurements"), list):
            raise ValueError(f"{path} holds no scores; remove it to train and score again")
        return found if _describes(found.get("experiment"), item.experiment) else None

    def steps_done(self, item: TextRunSpec) -> int:
        """Training steps that an unscored model has taken so far.

        Raises:
            DamagedRun: its checkpoint cannot be read.
        """
        return steps_taken(self.run_folder(item), load_text_model)

    def is_damaged(self, item: TextRunSpec) -> bool:
        """Whether a run can neither go on nor begin; then `failures` has the reason and the remedy."""
        try:
            self.steps_done(item)
        except DamagedRun as error:
            self.failures[item.name] = str(error)
            return True
        return False

    def packed_path(self, item: TextRunSpec) -> Path:
        """Where the tokens are, one file for all models that read a set in the same way."""
        settings = item.experiment.text
        return self.folder / f"{item.name.partition('/')[0]}-{fingerprint(deciding(settings))}.packed"

    def text(self, item: TextRunSpec) -> PackedText:
        """The tokens that a model reads, from the file, or made and put there.

        Raises:
            ValueError: the file is damaged, or there is neither a file nor a corpus to make it from.
        """
        path = self.packed_path(item)
        if not path.exists():
            pack(path, prepare_text(item.experiment.text, data=self.data))
        try:
            text = unpack(path)
        except ValueError as error:
            raise ValueError(f"{error}. Remove {path} to have the text packed anew") from None
        check_text(text, item.experiment.text)
        return text

    def floor(self, corpus: str) -> Score:
        """What counting words scores on a labelled set, counted once."""
        path = self.results / "text" / f"{corpus}-floor.scores.json"
        if not path.exists():
            score = floor(load_labelled(corpus, data=self.data))
            facts = {"name": f"{corpus}, naive Bayes", "command": self.command, "commit": source_commit()}
            write_json(path, facts | {"value": score.value, "low": score.low, "high": score.high})
        found = read_json(path)
        return Score(value=found["value"], low=found["low"], high=found["high"])

    def prepare(self, items: Sequence[TextRunSpec]) -> list[Path]:
        """Everything that needs the data folder: the packed texts, which are returned, and the floors."""
        for item in items:
            self.text(item)
            if item.experiment.text.kind == "classification":
                self.floor(item.corpus)
        return list(dict.fromkeys(self.packed_path(item) for item in items))

    def make(self, items: Sequence[TextRunSpec], watch: Watch) -> None:
        """Train and score what has no scores yet, in the order given; `failures` says what went wrong."""
        waiting = [item for item in items if self.scores(item) is None and not self.is_damaged(item)]
        if any(item.experiment.text.kind == "translation" for item in waiting):
            require("sacrebleu.metrics", extra="text")  # rather now than after hours of training
        for item in waiting:
            self.text(item)  # before several need the same
        began = time.monotonic()
        if self.device == "cpu" and (self.at_once == 1 or len(waiting) == 1):
            for number, item in enumerate(waiting):
                left = None
                if self.max_minutes is not None:
                    left = max(1e-9, self.max_minutes - (time.monotonic() - began) / 60)
                    if number and left == 1e-9:
                        return  # the first one always begins, so that every call makes progress
                try:
                    self.make_one(item, partial(watch, item.name), max_minutes=left)
                except (FloatingPointError, RuntimeError, ValueError) as error:
                    self.failures[item.name] = f"{type(error).__name__}: {error}"
        elif waiting:
            # on a GPU even a single one gets its own process: what it compiled and captured goes with it
            train_side_by_side(
                {item.name: _TextWork(manager=self, item=item) for item in waiting},
                workers=self.at_once,
                device=self.device,
                max_minutes=self.max_minutes,
                progress=watch,
                failed=self.failures.__setitem__,
            )

    def make_one(self, item: TextRunSpec, tell: Tell, *, max_minutes: float | None = None) -> bool:
        """Train what is missing of a model and score it; whether there are scores now."""
        if self.scores(item) is not None:
            return True
        folder, text = self.run_folder(item), self.text(item)
        run = train_text(
            item.experiment,
            folder,
            text=text,
            resume=(folder / "config.json").exists(),
            device=self.device,
            max_minutes=max_minutes,
            command=self.command,
            progress=tell,
        )
        if not run.finished:
            return False
        try:
            best = load_text_model(folder / BEST)
        except ValueError as error:
            raise DamagedRun(folder, error) from None
        best.model.to(self.device)
        found = [one.to_data() for one in measure(best, text, decoding=self.decoding)]
        extra = {"decoding": study(best, text, batch=self.decoding.batch)} if item.studied else {}
        write_json(self.score_path(item), self._facts(item, run, best) | {"measurements": found} | extra)
        return True

    def _facts(self, item: TextRunSpec, run: TextRun, best: TextCheckpoint) -> dict[str, Any]:
        seconds = run.metrics[-1]["seconds"]
        steps = [row["step"] for row in run.metrics]
        taken = [after - before for before, after in zip([0, *steps], steps, strict=False)]
        tokens = sum(row["tokens"] * count for row, count in zip(run.metrics, taken, strict=True))
        weights = next(best.model.parameters())
        return {
            "name": item.name,
            "hash": fingerprint(item.experiment.to_data()),
            **{name: best.card[name] for name in ("valid_loss", "valid_accuracy") if name in best.card},
            "best_step": best.card["step"],
            "steps": run.step,
            "parameters": sum(weight.numel() for weight in best.model.parameters()),
            "vocabulary": len(run.text.tokenizer),
            "seconds": seconds,
            "training_tokens": round(tokens),
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "device": device_name(weights.device),
            "command": self.command,
            "commit": source_commit(),
            "notes": best.card["notes"],
            "files": best.card.get("files", {}),
            "experiment": item.experiment.to_data(),
        }


def _describes(data: object, experiment: TextExperiment) -> bool:
    # compared as values, so that a setting that is newer than the file has its default in both
    try:
        return TextExperiment.from_data(data) == experiment
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class _TextWork:
    """One model for a process of its own."""

    manager: TextRunManager
    item: TextRunSpec

    def make(self, *, device: str, max_minutes: float | None, tell: Tell) -> bool:
        """Train and score it."""
        assert device == self.manager.device
        return self.manager.make_one(self.item, tell, max_minutes=max_minutes)
