"""Studies: where they are stored, whose they are, and what the sampler makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")

import optuna

from algoformer.search import SearchSettings, SearchSpace, read_result, search
from algoformer.search.study import JOURNAL, load_study, open_study, sampler_of, shown_storage
from tests.search.small import SPACE, experiment, settings


def best_of(sampler: str, seed: int, trials: int = 40) -> float:
    """Search a made-up objective over the default space; return the lowest value."""
    found = SearchSettings(experiment=experiment(), space=SPACE, sampler=sampler)  # type: ignore[arg-type]
    space = replace(SearchSpace(), lr=(1e-4, 1e-1))
    study = optuna.create_study(sampler=sampler_of(found, seed))

    def objective(params: dict[str, Any]) -> float:
        kind = {"nested": 0.0, "parallel": 1.0, "algoformer": 2.0, "two_loops": 3.0}[params["kind"]]
        off = abs(params["pre"] - 1) + abs(params["loop"] - 2) + (params["inject"] != "gate")
        return kind + off + abs(params["lr"] - 0.01) * 100

    for _ in range(trials):
        trial = study.ask(space.distributions())
        study.tell(trial, objective(trial.params))
    return float(study.best_value)


def test_tpe_finds_the_optimum_of_a_made_up_objective_where_random_draws_do_not() -> None:
    tpe, chance = ([best_of(sampler, seed) for seed in range(4)] for sampler in ("tpe", "random"))
    assert sum(tpe) < 0.7 * sum(chance)


def test_a_study_is_an_ordinary_one_that_optuna_reads(tmp_path: Path) -> None:
    result = search(settings(), trials=2, out=tmp_path)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / JOURNAL))
    plain = optuna.load_study(study_name="search", storage=optuna.storages.JournalStorage(backend))
    assert plain.best_value == result.best.error
    assert plain.best_params["kind"] == result.best.point.kind  # type: ignore[union-attr]
    assert plain.user_attrs["algoformer"]["space"]["width"] == [6, 8]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"space": replace(SPACE, width=(8,))}, "space.width is [6, 8] there and [8] here"),
        ({"flops": 3e5}, "flops is "),
        ({"rungs": 1}, "rungs is 2 there and 1 here"),
        ({"experiment": experiment(18)}, "experiment.training.steps is 9 there and 18 here"),
    ],
)
def test_a_study_of_something_else_is_refused(
    changes: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    open_study(settings(), tmp_path / JOURNAL, "search")
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(ValueError, match=r"^the study 'search' searches something else[^\n]*$") as caught:
        search(settings(**changes), trials=1, out=tmp_path)
    assert difference in str(caught.value)
    left = read_result(tmp_path / JOURNAL)
    assert [one.state for one in left.outcomes] == ["waiting"]
    assert (tmp_path / JOURNAL).read_bytes().startswith(before)
    # another study in the same storage is no matter
    open_study(settings(**changes), tmp_path / JOURNAL, "other")


def test_a_study_of_another_program_is_refused(tmp_path: Path) -> None:
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / JOURNAL))
    study = optuna.create_study(study_name="search", storage=optuna.storages.JournalStorage(backend))
    study.set_user_attr("algoformer", "hand-written")
    for read in (lambda: search(settings(), trials=1, out=tmp_path), lambda: read_result(tmp_path / JOURNAL)):
        with pytest.raises(ValueError, match="the study 'search' was not made by algoformer search"):
            read()


def test_a_study_whose_creator_was_killed_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("algoformer.search.study.PATIENCE", 0.1)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / JOURNAL))
    optuna.create_study(study_name="search", storage=optuna.storages.JournalStorage(backend))
    study = open_study(settings(), tmp_path / JOURNAL, "search")
    assert [trial.state.name for trial in study.trials] == ["WAITING"]
    assert len(open_study(settings(), tmp_path / JOURNAL, "search").trials) == 1


def test_a_line_of_the_journal_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    search(settings(), trials=1, out=tmp_path)
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 5, "tri')
    result = search(settings(), trials=2, out=tmp_path)
    assert result.count("trained", "pruned") == 2
    assert journal.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("postgresql+nosuchdriver://ann:secret@127.0.0.1:1/studies", "cannot be opened"),
        ("nosuchdatabase://ann:secret@127.0.0.1/studies", "cannot be opened"),
        ("postgresql+psycopg://ann:secret@127.0.0.1:1/studies", "cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_line_without_the_password(
    storage: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("algoformer.search.study.ATTEMPTS", 1)
    if "psycopg" in storage:
        pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match=r"^the storage [^\n]*$") as caught:
        search(settings(), trials=1, storage=storage)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "ann:***@127.0.0.1" in str(caught.value)


def test_what_is_not_there_or_not_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; it is the journal file of a search"):
        read_result(tmp_path / "nothing.log")
    open_study(settings(), tmp_path / JOURNAL, "search")
    with pytest.raises(ValueError, match="has no study named 'other'"):
        load_study(tmp_path / JOURNAL, "other")
    (tmp_path / "notes.txt").write_text("dear diary\nsecond line")
    with pytest.raises(ValueError, match=r"notes.txt is not the journal of a study"):
        search(settings(), trials=1, storage=tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("postgresql://host/name", "postgresql://host/name"),
        ("mysql://me:p@ss:w@host:3306/name", "mysql://me:***@host:3306/name"),
        ("runs/journal.log", "runs/journal.log"),
    ],
)
def test_passwords_are_never_shown(storage: str, shown: str) -> None:
    assert shown_storage(storage) == shown


def test_settings_survive_the_storage(tmp_path: Path) -> None:
    found = settings(tolerance=0.3, sampler="random", flops=3e5)
    open_study(found, tmp_path / JOURNAL, "search")
    assert read_result(tmp_path / JOURNAL).settings == found
