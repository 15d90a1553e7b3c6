"""The paper's two tables on text: scores of whole test sets beside each other, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from algoformer.common.files import write_text
from algoformer.evaluation import Cell, Table
from algoformer.language.scores import Score
from algoformer.report import markdown_table
from paper.decoding_study import study_table
from paper.runs import SMALL, Scale
from paper.text_archive import TextArchive
from paper.text_items import TableName, TextRunSpec

PROGRAMS = ("standard", "looped", "algoformer")
"""The paper's three models."""

PAPER: dict[str, tuple[float, float, float]] = {
    "iwslt14_de_en": (9.30, 10.56, 14.72),
    "ag_news": (92.07, 91.04, 97.92),
    "imdb": (75.00, 77.50, 77.50),
    "dbpedia": (99.21, 99.11, 98.21),
    "yelp_full": (66.25, 53.57, 57.50),
    "yahoo_answers": (73.96, 69.79, 81.25),
}
"""What the paper prints for each of them. Its shares look like those of a few mini-batches
(77.50 is 31 of 40), so that they stand beside ours and are not to be compared with them."""

COLUMNS = {
    "table1": ("test set", "model", "parameters", "BLEU", "95 %", "chrF"),
    "table2": ("test set", "model", "parameters", "accuracy", "95 %"),
}
MORE = ("cross-entropy", "perplexity", "steps", "the paper")
TITLES = {"table1": "translation", "table2": "classification"}


def score_table(table: TableName, items: Sequence[TextRunSpec], archive: TextArchive) -> Table:
    """A row for each model and test set that has scores, the paper's number beside ours; and the floors."""
    rows: list[tuple[Cell, ...]] = []
    for group in _groups(items):
        scored = [(item, found) for item in group if (found := archive.find(item)) is not None]
        splits = dict.fromkeys(one["split"] for _, found in scored for one in found["measurements"])
        for split in splits:
            if table == "table2":
                rows += _floor_row(scored[0][0].corpus, archive)
            for item, found in scored:
                rows += [_row(item, found, one) for one in found["measurements"] if one["split"] == split]
    return Table(
        columns=COLUMNS[table] + MORE,
        rows=tuple(rows),
        title=f"{table}: {TITLES[table]}, whole test sets",
        note="The paper's numbers are on other splits, perhaps on a few batches: not to be compared.",
    )


def verdict(table: TableName, items: Sequence[TextRunSpec], archive: TextArchive) -> Iterator[str]:
    """Sentences on the paper's claim, that AlgoFormer is ahead; only what the intervals can tell."""
    ahead: list[str] = []
    for group in _groups(items):
        for item in group:
            if item.program != "algoformer":
                continue
            others = {
                other.program: found
                for other in group
                if (other.size, other.variant) == (item.size, item.variant)
                and (found := archive.find(other)) is not None
            }
            if "algoformer" not in others:
                continue
            for split, ours in _scores(others["algoformer"]).items():
                where = ", ".join(filter(None, (_set_name(item, split), item.size, item.variant)))
                for name in ("standard", "looped"):
                    theirs = _scores(others.get(name, {"measurements": []})).get(split)
                    if theirs is not None:
                        words = _compared(ours, theirs, name)
                        ahead.append(words.split(" ")[0])
                        yield f"{where}: {words}"
    if ahead:
        yield (
            f"The claim that AlgoFormer is ahead: in {ahead.count('ahead')} of {len(ahead)} comparisons it "
            f"is, in {ahead.count('behind')} it is behind, in {ahead.count('not')} the intervals meet."
        )


def page_of_table(table: TableName, items: Sequence[TextRunSpec], archive: TextArchive, scale: Scale) -> str:
    """Return scores, verdicts and ways to decode as Markdown; empty parts are left out."""
    made = score_table(table, items, archive)
    lines = [f"# {made.title}", "", markdown_table(made), made.note, "", NOTES[table], ""]
    judged = [f"- {line}" for line in verdict(table, items, archive)]
    if judged:
        small = [SMALL, ""] if scale == "tiny" else []
        lines += ["## Is AlgoFormer ahead?", "", *small, *judged, ""]
    for item in items:
        found = archive.find(item)
        if found is not None and "decoding" in found:
            studied = study_table(found["decoding"], title=f"Ways to decode: {item.name}")
            lines += [f"## {studied.title}", "", markdown_table(studied), studied.note, ""]
    facts = [_provenance(item, found) for item in items if (found := archive.find(item)) is not None]
    if facts:
        lines += ["## Runs", "", *facts]
    return "\n".join(lines) + "\n"


def write_table(table: TableName, items: Sequence[TextRunSpec], archive: TextArchive, scale: Scale) -> Path:
    """Write the page of a table beside the scores, and return its path."""
    path = archive.results / f"{table}.md"
    write_text(path, page_of_table(table, items, archive, scale))
    return path


NOTES: dict[str, str] = {
    "table1": (
        "BLEU and chrF are sacreBLEU's, on text as people write it (Moses tokens put together, in references "
        "too), beam 4; 95 % intervals by 1000 bootstrap samples of sentences. Cross-entropy is in nats for a "
        "token of the translation, given the ones before, end included, in fp32; vocabularies differ between "
        "test sets' rows only where models do. Models of one comparison had the same text, steps and tokens "
        "in a step."
    ),
    "table2": (
        "Accuracy on whole test sets, 95 % intervals after Wilson. Cross-entropy is in nats for a label, in "
        "fp32. Naive Bayes counts words, and is trained on the same split. Models of one comparison had the "
        "same text, steps and tokens in a step."
    ),
}


def _groups(items: Sequence[TextRunSpec]) -> list[list[TextRunSpec]]:
    """The models of each comparison together, as their names say."""
    found: dict[str, list[TextRunSpec]] = {}
    for item in items:
        found.setdefault(item.name.partition("/")[0], []).append(item)
    return list(found.values())


def _set_name(item: TextRunSpec, split: str) -> str:
    """The test set: that of the model's first corpus, or the one that the split names."""
    which, _, corpus = split.partition("-")
    name = corpus or item.corpus
    return name if which == "test" else f"{name} {which}"


def _compared(ours: Score, theirs: Score, other: str) -> str:
    words = f"AlgoFormer {ours.value:.2f}, {other} {theirs.value:.2f}"
    if ours.low > theirs.high:
        return f"ahead of the {other} one ({words})"
    if ours.high < theirs.low:
        return f"behind the {other} one ({words})"
    return f"not told apart from the {other} one, the intervals meet ({words})"


def _row(item: TextRunSpec, found: Mapping[str, Any], one: Mapping[str, Any]) -> tuple[Cell, ...]:
    printed = PAPER.get(item.corpus) if one["split"] == "test" else None
    own = printed if item.size == "paper" and not item.variant else None
    first, *further = (Score(**score) for score in one["scores"].values())
    return (
        _set_name(item, one["split"]),
        item.label,
        found["parameters"],
        *_cells(first),
        *(f"{score.value:.2f}" for score in further),
        f"{one['cross_entropy']:.3f}",
        f"{one['perplexity']:.2f}",
        found["steps"],
        None if own is None else own[PROGRAMS.index(item.program)],
    )


def _floor_row(corpus: str, archive: TextArchive) -> list[tuple[Cell, ...]]:
    try:
        cells = _cells(archive.floor(corpus))
    except ValueError:
        return []  # neither counted before nor any text to count
    return [(corpus, "naive Bayes", None, *cells, *[None] * len(MORE))]


def _scores(found: Mapping[str, Any]) -> dict[str, Score]:
    """The first score on every test split."""
    return {one["split"]: Score(**next(iter(one["scores"].values()))) for one in found["measurements"]}


def _cells(score: Score) -> tuple[Cell, Cell]:
    return f"{score.value:.2f}", f"{score.low:.2f} – {score.high:.2f}"


def _provenance(item: TextRunSpec, found: Mapping[str, Any]) -> str:
    signature = next(iter(found["measurements"][0]["scores"].values()))["signature"]
    words = f"{found['steps']:,} steps on {found['device']}, best at step {found['best_step']:,}"
    return f"- `{item.name}`: {words}" + (f"; `{signature}`" if signature else "")
