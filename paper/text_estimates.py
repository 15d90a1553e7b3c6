"""How long a model of text will take to train: from the scores of models that were trained before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from algoformer.language.training import TextExperiment
from algoformer.training.files import read_json
from paper.estimates import Estimate, kind_of_device
from paper.result import AT_ONCE
from paper.text_items import TextItem


@dataclass(frozen=True, kw_only=True)
class TimedText:
    """A model of text whose training was timed.

    Attributes:
        name: comparison, program, size and variant.
        experiment: what was trained and how.
        seconds: of all its steps.
        device: "cpu" or "cuda".
        runs_at_once: how many runs shared the device, itself among them.
    """

    name: str
    experiment: TextExperiment
    seconds: float
    device: str
    runs_at_once: int

    @property
    def pace(self) -> float:
        """Seconds for a token of a batch."""
        return self.seconds / (self.experiment.training.steps * self.experiment.text.budget)


def timed_texts(results: Path) -> list[TimedText]:
    """All models that have scores in a folder of results, whatever their configuration."""
    return list(_timed(results))


def _timed(results: Path) -> Iterator[TimedText]:
    for path in sorted((results / "text").glob("*.scores.json")):
        try:
            found = read_json(path)
            yield TimedText(
                name=str(found["name"]),
                experiment=TextExperiment.from_data(found["experiment"]),
                seconds=float(found["seconds"]),
                device=kind_of_device(str(found["device"])),
                runs_at_once=int(found["runs_at_once"]),
            )
        except (ValueError, TypeError, KeyError):
            continue  # a floor, which has no time, or nothing that could be gone by


def usual_text_device(known: Sequence[TimedText], default: str) -> str:
    """The kind of device that most models were trained on."""
    kinds = Counter(one.device for one in known)
    return kinds.most_common(1)[0][0] if kinds else default


def estimate_text(item: TextItem, known: Sequence[TimedText], *, device: str, done: int) -> Estimate | None:
    """How long the rest of a model's steps takes on a kind of device; None where nothing was timed on it.

    The best basis is the same model, whatever its steps; then one that learns the same from text; then one of
    the same program and size; then one that had the device to itself. Its pace is taken for a token, whatever
    the sizes of the two.
    """
    timed = [one for one in known if one.device == device]
    if not timed:
        return None
    wanted, model = item.experiment, item.name.partition("/")[2]

    def distance(other: TimedText) -> tuple[bool, ...]:
        return (
            other.name != item.name,
            other.experiment.text.kind != wanted.text.kind,
            other.name.partition("/")[2] != model,
            other.runs_at_once > 1,
        )

    near = min(timed, key=distance)
    left = max(0, wanted.training.steps - done)
    words = "as" if near.name == item.name else "estimate from"
    shared = f", {near.runs_at_once} {AT_ONCE}" if near.runs_at_once > 1 else ""
    return Estimate(seconds=left * wanted.text.budget * near.pace, basis=f"{words} {near.name}{shared}")
