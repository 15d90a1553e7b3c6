"""TensorBoard is shown what metrics.jsonl says, and can never stop a run."""

import importlib
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from algoformer.training import read_metrics, train
from algoformer.training.run_folder import TensorBoard
from training.small import same_weights, small, told

Points = dict[str, list[tuple[int, float]]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Points]:
    """Bring TensorBoard back, and read what it would show of a run: points (step, number) by name."""
    monkeypatch.delitem(sys.modules, "tensorboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("tensorboard", reason="TensorBoard (the extra tb) is not installed")
        accumulators = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    def read(folder: Path) -> Points:
        # 0: all points, not a sample of them
        events = accumulators.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
        events.Reload()
        return {
            name: [(point.step, point.value) for point in events.Scalars(name)]
            for name in events.Tags()["scalars"]
        }

    return read


def _expected(rows: list[Mapping[str, float]]) -> Points:
    names = set(rows[0]) - {"step", "seconds"}
    return {name: [(int(row["step"]), pytest.approx(row[name], rel=1e-6)) for row in rows] for name in names}


def test_every_row_of_the_metrics_is_shown(shown: Callable[[Path], Points], tmp_path: Path) -> None:
    run = train(small(), tmp_path / "run")
    points = shown(tmp_path / "run")
    assert points == _expected(list(run.metrics))
    assert {"loss", "error", "lr", "steps_per_second"} <= set(points)


def test_a_run_that_was_stopped_shows_each_step_once_and_none_that_it_will_take_again(
    shown: Callable[[Path], Points], tmp_path: Path
) -> None:
    folder = tmp_path / "run"

    class Stop(Exception):
        pass

    def stop(done: int, total: int, metrics: Mapping[str, float]) -> None:
        if done >= 10:
            raise Stop

    # rows at 5 and 10, but the last checkpoint is at 8: the row at 10 is to be written again
    with pytest.raises(Stop):
        train(small(), folder, callbacks=told(stop))
    assert [step for step, _ in shown(folder)["loss"]] == [5, 10]
    run = train(small(), folder, resume=True)
    assert shown(folder) == _expected(list(run.metrics))
    assert [step for step, _ in shown(folder)["loss"]] == [5, 10, 12]


def test_a_file_that_a_kill_cut_off_and_a_part_without_tensorboard_leave_no_gap(
    shown: Callable[[Path], Points], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train(small(log_every=1), folder, max_minutes=1e-9)
    (file,) = (folder / "tensorboard").iterdir()
    os.truncate(file, file.stat().st_size - 7)
    for _ in range(3):
        train(small(log_every=1), folder, resume=True, max_minutes=1e-9, tensorboard=False)
    run = train(small(log_every=1), folder, resume=True)
    assert [step for step, _ in shown(folder)["loss"]] == [*range(1, 13)]
    assert shown(folder) == _expected(list(run.metrics))
    assert len(list((folder / "tensorboard").iterdir())) == 1


def test_a_viewer_that_was_open_all_the_time_forgets_what_is_written_again(
    shown: Callable[[Path], Points], tmp_path: Path
) -> None:
    # both files are there for a moment: the points of the older one must not be shown beside the new ones
    folder = tmp_path / "run"
    rows = [{"step": float(step), "seconds": float(step), "loss": 1.0 / step} for step in range(1, 9)]
    TensorBoard(folder / "tensorboard", rows).close()
    (old,) = (folder / "tensorboard").iterdir()
    content = old.read_bytes()
    TensorBoard(folder / "tensorboard", rows[:4]).close()
    # an older file is read first
    (folder / "tensorboard" / "events.out.tfevents.0000000001.host").write_bytes(content)
    assert [step for step, _ in shown(folder)["loss"]] == [1, 2, 3, 4]


@pytest.mark.usefixtures("shown")
def test_nothing_is_written_where_it_is_switched_off(tmp_path: Path) -> None:
    train(small(), tmp_path / "run", tensorboard=False)
    assert not (tmp_path / "run" / "tensorboard").exists()


@pytest.mark.usefixtures("shown")
def test_without_a_folder_tensorboard_is_not_even_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    train(small())
    assert "torch.utils.tensorboard" not in sys.modules


@pytest.mark.usefixtures("shown")
def test_a_writer_that_fails_later_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter

    def fail(*arguments: object, **options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(writer, "add_scalar", fail)
    run = train(small(), tmp_path / "run")
    assert run.finished
    assert _warnings(caplog) == 1
    assert "No space left on device" in caplog.text


def test_without_tensorboard_there_is_no_word_and_no_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert train(small(), tmp_path / "run").finished
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert _warnings(caplog) == 0


@pytest.mark.parametrize("fault", ["raise TypeError('protobuf')", "import something_it_needs", "x = 1"])
def test_a_broken_tensorboard_costs_a_warning_and_nothing_else(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(small())
    (tmp_path / "site" / "tensorboard").mkdir(parents=True)
    (tmp_path / "site" / "tensorboard" / "__init__.py").write_text(fault)
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in [name for name in sys.modules if "tensorboard" in name and "algoformer" not in name]:
        monkeypatch.delitem(sys.modules, name)
    run = train(small(), tmp_path / "run")
    assert same_weights(run.model, whole.model)
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [5, 10, 12]
    assert _warnings(caplog) == 1
    assert "TensorBoard does not work here" in caplog.text


def _warnings(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.levelno >= logging.WARNING for record in caplog.records)


def test_rows_without_a_clock_are_shown_too(shown: Callable[[Path], Points], tmp_path: Path) -> None:
    # metrics.jsonl may have been written by hand, or by an older version
    TensorBoard(tmp_path / "tensorboard", [{"step": 1.0, "loss": math.pi}]).close()
    assert shown(tmp_path) == {"loss": [(1, pytest.approx(math.pi))]}
