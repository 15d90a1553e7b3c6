"""What is shown of a run while it trains."""

import io
import re
from collections.abc import Iterable

import pytest
from rich.console import Console

from algoformer.cli import main
from algoformer.training.progress import training_bars
from tiny import TINY

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _row(step: int, seconds: float, **more: float) -> dict[str, float]:
    return {
        "step": float(step),
        "loss": 0.12345,
        "error": 0.5,
        "steps_per_second": 4.0,
        "seconds": seconds,
    } | more


def _shown(rows: Iterable[dict[str, float]], total: int, *, terminal: bool, width: int = 120) -> str:
    out = io.StringIO()
    screen = Console(file=out, force_terminal=terminal, width=width, color_system=None, highlight=False)
    with training_bars({"training": total}, screen) as show:
        for row in rows:
            show("training", int(row["step"]), total, row)
    return out.getvalue()


def _last_line(text: str) -> str:
    return re.split(r"\r|\n", CONTROL.sub("\r", text).strip())[-1].rstrip()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_terminal_shows_all_numbers_beside_one_another(width: int) -> None:
    rows = [_row(400_000, 100_000.0), _row(400_100, 100_025.0, peak_memory=2.31e9)]
    line = _last_line(_shown(rows, 500_000, terminal=True, width=width))
    # 99,900 steps at 4 a second
    assert line.startswith("training")
    assert line.endswith("400100/500000 loss 0.123 error 0.5 4 steps/s 2.3 GB 6:56:15 left")
    assert len(line) <= width
    assert ("━" in line) == (width >= 100)


def test_memory_is_shown_only_where_it_is_measured() -> None:
    assert "GB" not in _shown([_row(10, 1.0)], 20, terminal=True)


def test_the_time_left_follows_from_the_pace_of_this_stretch_not_from_the_steps_done_before() -> None:
    # taken up at step 900 of 1000: 10 steps a second since then, whatever came before
    rows = [_row(900 + 10 * k, 5000.0 + k, steps_per_second=1.0) for k in range(5)]
    assert _last_line(_shown(rows, 1000, terminal=True)).endswith("0:00:06 left")
    # a single row knows its own pace only: 100 steps at 1 a second
    assert _last_line(_shown(rows[:1], 1000, terminal=True)).endswith("0:01:40 left")


def test_the_time_left_forgets_the_pace_of_long_ago() -> None:
    slow = [_row(k, 100.0 * k) for k in range(1, 101)]
    quick = [_row(100 + 10 * k, 10_000.0 + k) for k in range(1, 31)]
    assert _last_line(_shown(slow + quick, 1000, terminal=True)).endswith("0:01:00 left")


@pytest.mark.parametrize(("pace", "words"), [(0.01234, "0.0123"), (12.345, "12.3"), (1234.5, "1234")])
def test_the_pace_is_read_without_powers_of_ten(pace: float, words: str) -> None:
    assert f" {words} steps/s" in _shown([_row(1, 1.0, steps_per_second=pace)], 2, terminal=True)


def test_a_log_has_a_few_plain_lines() -> None:
    rows = [_row(10 * k, 2.5 * k) for k in range(1, 101)]
    text = _shown(rows, 1000, terminal=False, width=40)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert [int(line.split()[2]) for line in lines] == [10, 200, 400, 600, 800, 1000]
    assert lines[1] == "training: step 200 of 1000, loss 0.123, error 0.5, 4 steps/s, 0:03:20 left"
    assert lines[-1] == "training: step 1000 of 1000, loss 0.123, error 0.5, 4 steps/s, 0:04:10 in total"


def test_a_log_hears_of_a_slow_run_before_a_part_of_it_has_passed() -> None:
    rows = [_row(k, 60.0 * k) for k in range(1, 12)]
    lines = _shown(rows, 10_000, terminal=False).splitlines()
    assert [int(line.split()[2]) for line in lines] == [1, 6, 11]


def test_runs_side_by_side_are_told_apart() -> None:
    out = io.StringIO()
    screen = Console(file=out, force_terminal=False, width=40)
    with training_bars({"one": 10, "[two]": 10}, screen) as show:
        show("one", 5, 10, _row(5, 1.0))
        show("[two]", 10, 10, _row(10, 2.0, loss=7.0))
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        "one: step 5 of 10",
        "[two]: step 10 of 10",
    ]
    assert "loss 7" in out.getvalue().splitlines()[1]


def test_training_tells_its_progress_on_standard_error(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*TINY, "--steps", "4", "--no-evaluate", "--out", f"{tmp_path}/run"]
    assert main(["train", *options]) == 0
    printed = capsys.readouterr()
    assert "training: step 4 of 4, loss " in printed.err
    assert printed.err.rstrip().endswith(" in total")
    assert printed.out == f"{tmp_path}/run\n"
