from pathlib import Path

import pytest

from algoformer.experiments.summary import (
    BEGIN,
    END,
    ablation_table,
    all_items,
    run_table,
    target_table,
    verdict_table,
    write_page,
)
from experiments.constructed import constructed

ITEMS = {item.name: item for item in all_items("short")}


def test_a_missed_number_is_called_missed() -> None:
    errors = {"linear/algoformer": 3e-4, "representation/algoformer": 0.004, "chain/algoformer": 0.2}
    results = {name: constructed(ITEMS[name], error, growth=1.2) for name, error in errors.items()}
    table = target_table(results)
    words = [str(row[5]) for row in table.rows]
    assert words[:4] == ["needed reached", "aim reached", "not run", "missed"]
    assert words[4:6] == ["missed", "missed"], "the error at 200 is 1.2 times that at 20"
    assert table.rows[0][6] == "45,000 steps in 6.7 min on NVIDIA H200"


def test_depth_that_holds_reaches_the_aim() -> None:
    results = {"linear/algoformer": constructed(ITEMS["linear/algoformer"], growth=0.98)}
    assert [row[5] for row in target_table(results).rows[4:6]] == ["aim reached", "aim reached"]


def test_tables_have_a_row_for_each_thing() -> None:
    results = {name: constructed(item) for name, item in ITEMS.items()}
    assert len(verdict_table(results).rows) == 13
    assert len(ablation_table(results).rows) == 7
    trained = [name for name in ITEMS if results[name].steps is not None]
    assert [row[0] for row in run_table(results).rows] == sorted(trained)


def test_the_page_is_written_between_marks_and_what_stands_around_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# Mine\n\nBefore.\n")
    (tmp_path / "fig2.svg").write_text("<svg/>")
    write_page({}, "short", tmp_path)
    first = path.read_text()
    assert first.startswith(f"# Mine\n\nBefore.\n\n{BEGIN}")
    assert "![fig2](fig2.svg)" in first
    path.write_text(first + "After.\n")
    write_page({"chain/looped": constructed(ITEMS["chain/looped"])}, "short", tmp_path)
    second = path.read_text()
    assert second.startswith("# Mine\n\nBefore.\n\n")
    assert second.endswith(f"{END}\nAfter.\n")
    assert second.count(BEGIN) == second.count(END) == 1
    assert "| chain/looped |" in second
    write_page({"chain/looped": constructed(ITEMS["chain/looped"])}, "short", tmp_path)
    assert path.read_text() == second, "writing again changes nothing"


def test_a_page_that_lost_its_end_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Mine\n\n{BEGIN}\nold\n\nwritten by hand\n")
    with pytest.raises(ValueError, match="has lost the line"):
        write_page({}, "short", tmp_path)
    assert "written by hand" in (tmp_path / "README.md").read_text()
