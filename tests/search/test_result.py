"""Results: ranking, front, table, and journals that cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algoformer.search import Outcome, SearchResult, read_result
from algoformer.search.study import open_study
from tests.search.small import SPACE, settings


def outcome(number: int, error: float | None, parameters: int, state: str = "trained") -> Outcome:
    found = settings()
    point = SPACE.hand_made(found.experiment)
    return Outcome(
        number=number, state=state, point=point, error=error, curve={9: error or 1.0}, parameters=parameters,
        iterations=6, flops=found.budget,
    )  # fmt: skip


def result(*outcomes: Outcome) -> SearchResult:
    return SearchResult(settings(), outcomes, {})


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    several = [(0.5, 100), (0.4, 300), (0.45, 200), (0.6, 50), (0.6, 60), (0.4, 400), (0.7, 500)]
    found = result(*(outcome(number, *pair) for number, pair in enumerate(several)))
    by_hand = {
        number
        for number, (error, size) in enumerate(several)
        if not any(
            e <= error and s <= size and (e, s) != (error, size)
            for e, s in several
        )
    }  # fmt: skip
    assert {one.number for one in found.front} == by_hand == {0, 1, 2, 3}
    assert [one.parameters for one in found.front] == [50, 100, 200, 300]


def test_only_trained_trials_are_ranked() -> None:
    found = result(
        outcome(0, 0.5, 10), outcome(1, None, 10, "pruned"), outcome(2, 0.3, 10), outcome(3, float("inf"), 10)
    )
    assert [one.number for one in found.ranked] == [2, 0]
    assert found.best.number == 2
    assert found.count("trained") == 3
    assert "3 trained, 1 pruned; budget" in str(found)


def test_the_table_fits_80_columns() -> None:
    wide = [outcome(9990 + number, 1.234e-5 * (1 + number), 987_654_321) for number in range(12)]
    table = result(*wide).table()
    assert len(table.rows) == 10
    assert max(map(len, str(table).splitlines())) <= 80


def journal_with_a_trial(path: Path) -> Path:
    study = open_study(settings(), path, "study")
    trial = study.ask(SPACE.distributions())
    trial.set_user_attr("iterations", 3)
    study.tell(trial, 0.5)
    return path


def change(operation: int, field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the rows of a journal that hold this operation."""

    def changed(row: dict[str, Any]) -> None:
        if row["op_code"] == operation and field in row:
            row[field] = value

    return changed


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change(0, "op_code", 77), "is not the journal of a study"),
        (change(6, "values", [0.5, 0.5]), "the trials of the study 'study' cannot be read"),
        (change(5, "distribution", "{}"), "is not the journal of a study"),
        (change(8, "user_attr", {"iterations": "many"}), "the trials of the study 'study' cannot be read"),
        (change(2, "user_attr", {"algoformer": {"space": 3}}), "the settings of the study 'study' cannot be"),
    ],
)
def test_a_spoiled_journal_is_refused_in_one_line(tmp_path: Path, spoil: Any, words: str) -> None:
    journal = journal_with_a_trial(tmp_path / "journal.log")
    assert read_result(journal, study="study").count("trained") == 1
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in rows:
        spoil(row)
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=words) as refused:
        read_result(journal, study="study")
    assert "\n" not in str(refused.value)


def test_a_journal_with_a_line_nested_too_deeply_is_refused_in_one_line(tmp_path: Path) -> None:
    journal = journal_with_a_trial(tmp_path / "journal.log")
    with journal.open("a") as file:
        file.write('{"op_code": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(ValueError, match="is not the journal of a study"):
        read_result(journal, study="study")
