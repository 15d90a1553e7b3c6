"""Workers: resume, several on one study, kills, interruptions."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")

from algoformer.search import Outcome, SearchCallback, SearchResult, read_result, search
from algoformer.search.liveness import BEAT, Watch
from algoformer.search.study import JOURNAL, load_study
from algoformer.training import load_experiment, read_metrics
from tests.search.small import SPACE, settings

WORKER = Path(__file__).with_name("one_worker.py")


def start(storage: Path | str, out: Path, trials: int, *kill_at: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(WORKER), str(storage), str(out), str(trials), *map(str, kill_at)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*workers: subprocess.Popen[str]) -> None:
    complaints = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), complaints


def essence(result: SearchResult) -> list[tuple[Any, ...]]:
    return [(one.number, one.state, one.point, one.error, dict(one.curve)) for one in result.outcomes]


class Interrupted(SearchCallback):
    """Presses Ctrl-C at the first validation of a trial after the first rung."""

    def __init__(self, number: int) -> None:
        self.number = number

    def on_log(self, number: int, step: int, steps: int, error: float) -> None:
        if number == self.number and step > 1:
            raise KeyboardInterrupt


def test_a_search_goes_on_where_it_stopped_and_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    whole = search(settings(), trials=4, out=tmp_path / "whole")
    search(settings(), trials=2, out=tmp_path / "parts")
    parts = search(settings(), trials=4, out=tmp_path / "parts")
    assert essence(parts) == essence(whole)
    assert whole.count("trained", "pruned") == 4
    # nothing is left to do
    assert essence(search(settings(), trials=4, out=tmp_path / "parts")) == essence(whole)
    assert essence(read_result(tmp_path / "parts" / JOURNAL)) == essence(whole)


def test_the_hand_made_program_is_the_first_trial(tmp_path: Path) -> None:
    result = search(settings(), trials=1, out=tmp_path)
    first = result.outcomes[0]
    assert first.state == "trained"
    assert first.point == SPACE.hand_made(settings().experiment)
    assert result.hand_made == result.best == first
    trained = load_experiment(tmp_path / "trials" / "0000")
    assert trained.program == settings().experiment.program == result.program
    rows = read_metrics(tmp_path / "trials" / "0000")
    assert first.curve == {int(row["step"]): row["valid_error"] for row in rows}
    assert first.error == rows[-1]["valid_error"]


def test_halving_stops_what_is_behind_at_a_rung() -> None:
    result = search(settings(), trials=8)
    pruned = [one for one in result.outcomes if one.state == "pruned"]
    trained = [one for one in result.outcomes if one.state == "trained"]
    assert pruned
    for one in pruned:
        last = max(one.curve)
        assert last in (1, 3)  # the rungs of nine steps
        rivals = [other.curve[last] for other in result.outcomes if last in other.curve]
        assert one.curve[last] > min(rivals)
    assert all(max(one.curve) == 9 for one in trained)
    assert search(settings(rungs=0), trials=3).count("pruned") == 0


def test_an_interrupted_trial_is_resumed(tmp_path: Path) -> None:
    plain = search(settings(rungs=1), trials=1, out=tmp_path / "plain")
    with pytest.raises(KeyboardInterrupt):
        search(settings(rungs=1), trials=1, out=tmp_path / "stopped", callback=Interrupted(0))
    between = read_result(tmp_path / "stopped" / JOURNAL)
    assert [one.state for one in between.outcomes] == ["failed", "waiting"]
    result = search(settings(rungs=1), trials=1, out=tmp_path / "stopped")
    assert [one.state for one in result.outcomes] == ["failed", "trained"]
    assert sorted(path.name for path in (tmp_path / "stopped" / "trials").iterdir()) == ["0000"]
    # exactly the weights and errors of a run that was never stopped
    assert result.best.curve == plain.best.curve
    assert result.best.point == plain.best.point


def test_a_search_out_of_time_gives_its_trial_back(tmp_path: Path) -> None:
    result = search(settings(), trials=3, out=tmp_path, max_minutes=1e-9)
    assert result.count("trained", "pruned", "running") == 0
    assert search(settings(), trials=1, out=tmp_path).count("trained") == 1


def check_shared(result: SearchResult, trials: int) -> None:
    numbers = [one.number for one in result.outcomes]
    assert numbers == list(range(len(numbers)))
    assert result.count("trained", "pruned") == trials
    assert result.count("running", "waiting") == 0
    superfluous = [one.reason for one in result.outcomes if one.state == "failed"]
    assert set(superfluous) <= {"the study had its trials already", "another worker drew the same"}
    points = Counter(one.point for one in result.outcomes if one.state != "failed")
    assert points.most_common(1)[0][1] == 1, "two workers trained the same point"


def test_two_workers_share_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.log"
    workers = [start(journal, tmp_path, 6) for _ in range(2)]
    finish(*workers)
    check_shared(read_result(journal), 6)


def test_two_workers_share_a_database(postgresql: str, tmp_path: Path) -> None:
    workers = [start(postgresql, tmp_path, 4) for _ in range(2)]
    finish(*workers)
    check_shared(read_result(postgresql), 4)


def test_a_killed_worker_loses_its_own_trial_and_another_takes_it_up(tmp_path: Path) -> None:
    journal = tmp_path / "journal.log"
    worker = start(journal, tmp_path, 4, 1)
    worker.communicate()
    assert worker.returncode == -9
    before = read_result(journal)
    lost = next(one for one in before.outcomes if one.state == "running")
    finished = [one for one in before.outcomes if one.state != "running"]
    result = search(settings(), trials=4, out=tmp_path, storage=journal, interval=0.01, grace=0.05)
    # what was finished before is as it was, and the lost trial was trained again in its own folder
    assert essence(result)[: len(finished)] == essence(before)[: len(finished)]
    assert result.outcomes[lost.number].state == "failed"
    again = [one for one in result.outcomes if one.point == lost.point and one.state != "failed"]
    assert len(again) == 1
    # the same weights give the same errors; at a rung it meets the rivals of now, and may be pruned there
    common = again[0].curve.keys() & lost.curve.keys()
    assert common
    assert {step: again[0].curve[step] for step in common} == {step: lost.curve[step] for step in common}
    assert not (tmp_path / "trials" / f"{again[0].number:04d}").exists()
    assert result.count("trained", "pruned") == 4


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Running:
    def __init__(self, number: int, beat: int | None) -> None:
        self.number, self.user_attrs = number, {BEAT: beat}


def test_a_worker_counts_as_dead_after_the_grace_period_without_a_beat() -> None:
    clock = Clock()
    watch = Watch(grace=10.0, clock=clock)
    silent, alive = Running(0, None), Running(1, 0)
    both: Any = [silent, alive]
    assert watch.stale(both) == []
    assert watch.undecided(both)
    for beat in range(1, 5):
        clock.now += 6.0
        alive.user_attrs[BEAT] = beat
        assert watch.stale(both) == ([silent] if clock.now > 10 else [])
    assert not watch.undecided([alive])  # type: ignore[list-item]


def test_a_silent_worker_that_lives_on_is_not_counted_twice(tmp_path: Path) -> None:
    """Its trial was taken up by another one; what it tells at last is dropped."""

    class TakenUp(SearchCallback):
        def on_log(self, number: int, step: int, steps: int, error: float) -> None:
            if number == 0 and step == 1:
                from optuna.trial import TrialState

                load_study(tmp_path / JOURNAL, "search").tell(0, state=TrialState.FAIL)

    result = search(settings(), trials=2, out=tmp_path, callback=TakenUp())
    assert result.outcomes[0].state == "failed"
    assert result.count("trained", "pruned") == 2


def test_a_failing_trial_is_told_and_three_in_a_row_end_the_worker(tmp_path: Path) -> None:
    class Broken(SearchCallback):
        seen: list[Outcome] = []  # noqa: RUF012

        def on_log(self, number: int, step: int, steps: int, error: float) -> None:
            raise RuntimeError("out of memory")

        def on_outcome(self, outcome: Outcome, done: int, trials: int) -> None:
            self.seen.append(outcome)

    with pytest.raises(RuntimeError, match="out of memory"):
        search(settings(), trials=9, out=tmp_path, callback=Broken())
    result = read_result(tmp_path / JOURNAL)
    failed = [one for one in result.outcomes if one.state == "failed"]
    assert len(failed) == 3
    assert failed[0].reason == "RuntimeError: out of memory"
    assert [one.number for one in Broken.seen] == [one.number for one in failed[:2]]


def test_a_trial_that_diverges_is_pruned_with_the_reason(tmp_path: Path) -> None:
    wild = replace(SPACE, lr=(1e20, 1e20), kind=("algoformer",), inject=("add",))
    result = search(settings(space=wild), trials=1, out=tmp_path)
    assert result.outcomes[-1].state == "pruned"
    assert "not finite" in result.outcomes[-1].reason
    with pytest.raises(ValueError, match="no trial of this search has been trained to its end yet"):
        _ = result.best


def test_a_space_without_any_possible_program_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("algoformer.search.worker.IMPOSSIBLE", 5)
    # one iteration is far below the budget and two are far above
    odd = replace(SPACE, kind=("nested",), pre=(0,), post=(0,), width=(64,), heads=(1,), inner_steps=(40,))
    found = settings(
        space=odd, flops=settings(space=odd, flops=1e8).flops_of(odd.point(_first(odd)), 1) * 1.4
    )
    with pytest.raises(ValueError, match=r"5 points of the space in a row fit no budget of .* FLOPs"):
        search(found, trials=1)


def _first(space: Any) -> dict[str, Any]:
    return {name: getattr(space, name)[0] for name in space.names}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"interval": 5.0, "grace": 1.0}, "grace must be longer than interval"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(settings(), **wrong)
