"""What was asked of the models of text, and what they reach; what was missed is called so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algoformer.evaluation import Cell, Table
from paper.text_items import TableName, TextItem
from paper.text_shop import TextShop


@dataclass(frozen=True, kw_only=True)
class TextTarget:
    """A number to be reached by an AlgoFormer.

    Attributes:
        words: what it is.
        table: that it belongs to.
        split: the test split that counts.
        corpus: the set that is scored first by the models that may reach it.
        needed: at least.
        aim: hoped for.
        size: of the model; None lets the best of all count.
        most: parameters that the model may have.
    """

    words: str
    table: TableName
    corpus: str
    needed: float
    aim: float
    split: str = "test"
    size: str | None = None
    most: int | None = None


def _best(corpus: str, needed: float, aim: float) -> TextTarget:
    words = f"{corpus}, accuracy, best AlgoFormer"
    return TextTarget(words=words, table="table2", corpus=corpus, needed=needed, aim=aim)


def _bleu(words: str, needed: float, aim: float, **which: Any) -> TextTarget:
    corpus = "iwslt14_de_en"
    return TextTarget(words=words, table="table1", corpus=corpus, needed=needed, aim=aim, **which)


TARGETS = (
    _bleu("IWSLT14, BLEU, AlgoFormer of the paper's size, IWSLT14 alone", 14.8, 20.0, size="paper"),
    _bleu("IWSLT14, BLEU, best AlgoFormer up to 40 M parameters", 22.0, 27.0, most=40_000_000),
    _bleu("Multi30k test2016, BLEU, best AlgoFormer", 33.0, 38.0, split="test-multi30k_de_en"),
    _best("ag_news", 91.0, 92.5),
    _best("dbpedia", 97.5, 98.3),
    _best("imdb", 86.0, 89.0),
    _best("yelp_full", 54.0, 58.0),
    _best("newsgroups20", 80.0, 84.0),
)
FASTER_NEEDED, FASTER_AIM = 5.0, 10.0
"""How many times as fast decoding has to be with a cache, 100 tokens of 32 sentences."""

SHARED = "not judged: other runs shared the device"
"""What is said of a time that was not taken alone."""


def target_table(table: TableName, items: Sequence[TextItem], shop: TextShop) -> Table:
    """Needed, aimed at, reached, and by which model."""
    ours = [item for item in items if item.program == "algoformer"]
    scored = [(item, found) for item in ours if (found := shop.scores(item)) is not None]
    corpora = {item.corpus for item in ours}
    asked = [target for target in TARGETS if target.table == table and target.corpus in corpora]
    rows = [_row(target, scored) for target in asked]
    if table == "table1":
        studied = [(item.name, found) for item, found in scored if "decoding" in found]
        words = "decoding with a cache against without, times as fast"
        for name, found in studied:
            way = found["decoding"]
            *judged, verdict = _judged(way["cached"]["times"], FASTER_NEEDED, FASTER_AIM)
            verdict = SHARED if _shared(found) else verdict
            rows.append((f"{words}, {way['device']}", *judged, verdict, name))
        if not studied:
            rows.append((words, *_judged(None, FASTER_NEEDED, FASTER_AIM), ""))
    return Table(columns=("what", "needed", "aim", "here", "", "by"), rows=tuple(rows))


def _shared(found: Mapping[str, Any]) -> bool:
    """Whether decoding was timed beside other runs; what was timed on another device was timed later."""
    return found.get("runs_at_once", 1) > 1 and found["decoding"]["device"] == found["device"]


def _row(target: TextTarget, scored: Sequence[tuple[TextItem, Mapping[str, Any]]]) -> tuple[Cell, ...]:
    best: tuple[float, str] | None = None
    for item, found in scored:
        value = _value(found, target.split) if item.corpus == target.corpus else None
        small = target.most is None or found["parameters"] <= target.most
        if value is None or not small or target.size not in (None, item.size):
            continue
        if item.variant and target.size is not None:
            continue  # the model that was asked for, not a variant of it
        best = max(best or (value, item.name), (value, item.name))
    value, name = best or (None, "")
    return (target.words, *_judged(value, target.needed, target.aim), name)


def _value(found: Mapping[str, Any], split: str) -> float | None:
    for one in found["measurements"]:
        if one["split"] == split:
            return float(next(iter(one["scores"].values()))["value"])
    return None


def _judged(value: float | None, needed: float, aim: float) -> tuple[Cell, ...]:
    if value is None:
        return f"≥ {needed:g}", f"≥ {aim:g}", None, "not run"
    words = "aim reached" if value >= aim else ("needed reached" if value >= needed else "missed")
    return f"≥ {needed:g}", f"≥ {aim:g}", f"{value:.2f}", words
