"""The facts on the card of a checkpoint: one list, from which every reader and writer takes its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from algoformer.common.devices import device_name
from algoformer.common.provenance import source_commit

if TYPE_CHECKING:
    from algoformer.training.session import Session

ORIGIN = "initial"
"""The fact that tells of the checkpoint that a run began with."""


@dataclass(frozen=True)
class Fact:
    """One fact of a card.

    Attributes:
        name: its key.
        exported: whether an exported model keeps it.
        of_origin: whether a run that begins with the checkpoint tells of it.
    """

    name: str
    exported: bool = True
    of_origin: bool = True


FACTS = (
    Fact("step"),
    Fact("seconds"),
    Fact("precision"),
    Fact("engine", of_origin=False),
    Fact("device"),
    Fact("processes", of_origin=False),
    Fact("parallel", of_origin=False),
    Fact("command"),
    Fact("weights", of_origin=False),
    Fact("experiment"),
    Fact("torch", of_origin=False),
    Fact("commit"),
    Fact(ORIGIN),
    Fact("best", exported=False, of_origin=False),
    Fact("validations_since_best", exported=False, of_origin=False),
    Fact("valid_loss", of_origin=False),
    Fact("valid_accuracy", of_origin=False),
    Fact("valid_perplexity", of_origin=False),
    Fact("valid_bits_per_byte", of_origin=False),
    Fact("valid_error", of_origin=False),
    Fact("kind", of_origin=False),
    Fact("corpus", of_origin=False),
    Fact("terms", of_origin=False),
    Fact("files", of_origin=False),
    Fact("notes", of_origin=False),
    Fact("lowercase", of_origin=False),
    Fact("only_words", of_origin=False),
)
"""Every fact that a run writes; add a new one here and in `card_of`."""


def exported_facts(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run's card that an exported model keeps."""
    return {fact.name: card[fact.name] for fact in FACTS if fact.exported and fact.name in card}


def origin_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a card that a run tells of the checkpoint it began with."""
    return {fact.name: card[fact.name] for fact in FACTS if fact.of_origin and fact.name in card}


def card_of(session: Session) -> dict[str, Any]:
    """Return the card of a run at this moment."""
    step, group = session.learner, session.learner.group
    card: dict[str, Any] = {
        "step": session.step,
        "seconds": session.clock.seconds,
        "precision": step.training.precision,
        "engine": str(session.plan),
        "device": device_name(step.device),
        "weights": "raw" if step.average is None else "average",
        "experiment": step.experiment.to_data(),
        "torch": torch.__version__,
        "commit": source_commit(),
        **step.data.facts(),
    }
    if session.command:
        card["command"] = session.command
    if session.origin is not None:
        card[ORIGIN] = session.origin
    if not group.is_single:
        card |= {"processes": group.processes, "parallel": group.kind}
    if session.best is not None:
        card |= {"best": dict(session.best), "validations_since_best": session.validations_since_best}
    return card
