"""The scores of models of text, and the text that they are trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from algoformer.checkpoint import BEST
from algoformer.common.devices import device_name, source_commit
from algoformer.common.files import read_json, write_json
from algoformer.common.plain_data import as_data
from algoformer.data import LabelledData, TranslationData
from algoformer.extras import require
from algoformer.language import load_labelled
from algoformer.language.packing import pack, unpack
from algoformer.language.scores import Score
from algoformer.training import Checkpoint, Experiment, load_checkpoint, read_metrics
from algoformer.training.config import is_data_of
from paper.decoding_study import study
from paper.naive_bayes import naive_bayes_accuracy
from paper.run_state import DamagedRun
from paper.runs import fingerprint
from paper.text_items import TextRunSpec

BEAM = 4

DECIDING = ("corpus", "also_tested", "lowercase", "vocabulary", "max_length")
"""Settings of the data that the tokens depend on."""


@dataclass(frozen=True, kw_only=True)
class TextArchive:
    """Scores of models of text, packed text, and the scores of counting words.

    Attributes:
        folder: where packed text is.
        results: where the scores and the tables are.
        data: the data folder; text that is packed needs none.
        command: the command that asked for the scores of counting words, for provenance.
    """

    folder: Path
    results: Path
    data: Path | str | None = None
    command: str = ""

    def score_path(self, item: TextRunSpec) -> Path:
        """Return where a model's scores are, once there are any."""
        return self.results / "text" / f"{item.name.replace('/', '-')}.scores.json"

    def find(self, item: TextRunSpec) -> Mapping[str, Any] | None:
        """Return the scores of exactly this configuration, if there are any.

        Raises:
            ValueError: there is a file that holds something else.
        """
        path = self.score_path(item)
        if not path.exists():
            return None
        found = read_json(path)
        if not isinstance(found, dict) or not isinstance(found.get("measurements"), list):
            raise ValueError(f"{path} holds no scores; remove it to train and score again")
        return found if is_data_of(found.get("experiment"), item.experiment) else None

    def nearest(self, item: TextRunSpec) -> None:
        """Return nothing: a table has no use for scores over another number of steps."""

    def packed_path(self, item: TextRunSpec) -> Path:
        """Return where the tokens are: one file for all models that read a corpus in the same way."""
        settings = {name: as_data(getattr(item.data, name, ())) for name in DECIDING}
        return self.folder / f"{item.name.partition('/')[0]}-{fingerprint(settings)}.packed"

    def text(self, item: TextRunSpec) -> TranslationData | LabelledData:
        """Return a model's data with its tokens, from the packed file, or made and packed.

        Raises:
            ValueError: the file is damaged, or there is neither a file nor a corpus to make it from.
        """
        path = self.packed_path(item)
        if not path.exists():
            folder = None if self.data is None else str(self.data)
            pack(path, replace(item.data, folder=folder).text)
        try:
            return replace(item.data, packed=unpack(path))
        except ValueError as error:
            raise ValueError(f"{error}. Remove {path} to have the text packed anew") from None

    def prepare(self, item: TextRunSpec) -> Experiment:
        """Return a model's experiment with its tokens."""
        if item.is_translator:
            require("sacrebleu.metrics", extra="text")  # rather now than after hours of training
        return replace(item.experiment, data=self.text(item))

    def prepare_all(self, items: Sequence[TextRunSpec]) -> list[Path]:
        """Do everything that needs the data folder: pack texts, whose paths are returned; count floors."""
        for item in items:
            self.text(item)
            if not item.is_translator:
                self.floor(item.corpus)
        return list(dict.fromkeys(self.packed_path(item) for item in items))

    def floor(self, corpus: str) -> Score:
        """Return what counting words scores on a labelled corpus, counted once."""
        path = self.results / "text" / f"{corpus}-floor.scores.json"
        if not path.exists():
            score = naive_bayes_accuracy(load_labelled(corpus, data=self.data))
            facts = {"name": f"{corpus}, naive Bayes", "command": self.command, "commit": source_commit()}
            write_json(path, facts | {"value": score.value, "low": score.low, "high": score.high})
        found = read_json(path)
        return Score(value=found["value"], low=found["low"], high=found["high"])

    def measure(self, item: TextRunSpec, folder: Path, *, device: str, command: str) -> tuple[str, Path]:
        """Score the best weights of a finished run on whole test splits.

        Raises:
            DamagedRun: they cannot be read.
        """
        try:
            best = load_checkpoint(folder / BEST)
        except ValueError as error:
            raise DamagedRun(folder, error) from None
        best.model.to(device)
        data, batch = self.text(item), 64 if device == "cpu" else 512
        options = {"beam": BEAM, "batch": batch} if item.is_translator else {"batch": batch}
        found = [one.to_data() for one in data.evaluate(best.model, **options)]
        facts = _facts(item, best, folder) | {"command": command, "measurements": found}
        if item.studied:
            facts["decoding"] = study(best, data.text, batch=batch)
        path = self.score_path(item)
        write_json(path, facts)
        return ", ".join(f"{name} {one['value']:.2f}" for name, one in found[0]["scores"].items()), path


def _facts(item: TextRunSpec, best: Checkpoint, folder: Path) -> dict[str, Any]:
    metrics = read_metrics(folder)
    steps, seconds = [row["step"] for row in metrics], metrics[-1]["seconds"]
    taken = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    tokens = sum(row["tokens"] * count for row, count in zip(metrics, taken, strict=True))
    weights = list(best.model.parameters())
    return {
        "name": item.name,
        "hash": fingerprint(item.settings),
        **{name: best.card[name] for name in ("valid_loss", "valid_accuracy") if name in best.card},
        "best_step": best.card["step"],
        "steps": round(steps[-1]),
        "parameters": sum(weight.numel() for weight in weights),
        "vocabulary": len(best.data.known_tokenizer),  # type: ignore[union-attr]
        "seconds": seconds,
        "training_tokens": round(tokens),
        "tokens_per_second": tokens / max(seconds, 1e-9),
        "device": device_name(weights[0].device),
        "commit": source_commit(),
        "notes": best.card["notes"],
        "files": best.card.get("files", {}),
        "experiment": item.experiment.to_data(),
    }
