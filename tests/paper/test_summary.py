from dataclasses import replace
from pathlib import Path

import pytest

from algoformer.evaluation import Cell
from made_up_results import constructed
from paper.archive import Results
from paper.runs import RunSpec
from paper.summary import (
    BEGIN,
    END,
    ablation_table,
    all_items,
    coverage_table,
    headline_table,
    page_lines,
    run_table,
    textbook_table,
    verdict_table,
    write_page,
)

ITEMS = {item.name: item for item in all_items("short")}


def headline(results: Results, words: str) -> dict[str, Cell]:
    """The one row of the table of headlines whose task begins with these words."""
    table = headline_table(results)
    (row,) = (row for row in table.rows if str(row[0]).startswith(words))
    return dict(zip(table.columns, row, strict=True))


def test_our_error_stands_beside_what_was_published_and_what_a_textbook_has() -> None:
    errors = {
        "linear/algoformer": 3e-4,
        "linear/oracle": 1e-14,
        "representation/oracle": 0.001,
        "representation/linear-in-x": 0.231,
        "representation/gd": 0.09,
        "autoregressive/zero": 1.624,
        "autoregressive/oracle": 1.133,
    }
    results = {name: constructed(ITEMS[name], error, growth=1.2) for name, error in errors.items()}
    linear = headline(results, "linear regression, ")
    assert linear["ours"] == "3.00e-4"
    assert str(linear["published"]).startswith("the paper: around 1e-3; Yang et al., 500,000 steps")
    assert linear["textbook, on the same prompts"] == "least squares 1.00e-14"
    assert (linear["at 200 ÷ at T"], linear["at 1000 ÷ at T"]) == ("1.20000", "1.20000")
    assert linear["trained"] == "20,000 steps on NVIDIA H200"
    assert headline(results, "regression with representation")["textbook, on the same prompts"] == (
        "least squares on Φ* 0.00100; 20 steps of gradient descent on Φ* 0.0900; best linear in x 0.231"
    )
    assert headline(results, "AR(3)")["textbook, on the same prompts"] == (
        "ridge with Φ* known 1.13; predict zero 1.62"
    )


def test_every_seed_has_its_number() -> None:
    name = "linear/algoformer-tf32"
    first, second = ITEMS[name], ITEMS[f"{name}-seed1"]
    results = {
        first.name: constructed(first, error=9e-5, growth=0.9),
        second.name: constructed(second, error=2e-4, growth=1.00001),
    }
    row = headline(results, "linear regression as recommended, in TF32")
    assert row["ours"] == "9.00e-5, 2.00e-4"
    assert row["at 200 ÷ at T"] == "0.90000, 1.00001"


def test_what_was_not_run_is_called_so_and_what_is_beyond_the_paper_is_left_out() -> None:
    table = headline_table({})
    assert table.column("ours") == ("not run",) * 4
    assert table.column("textbook, on the same prompts") == ("",) * 4
    results = {"linear/algoformer-log": constructed(ITEMS["linear/algoformer-log"], 9e-5)}
    assert headline(results, "linear regression by log loss")["ours"] == "9.00e-5"


def test_tables_have_a_row_for_each_thing() -> None:
    results = {name: constructed(item) for name, item in ITEMS.items()}
    assert len(verdict_table(results).rows) == 13
    assert len(ablation_table(results).rows) == 10
    trained = [name for name in ITEMS if results[name].steps is not None]
    assert [row[0] for row in run_table(results).rows] == sorted(trained)


def test_a_run_that_two_figures_share_is_listed_once() -> None:
    own = constructed(ITEMS["representation/algoformer"])
    results = {"representation/algoformer": own, "layers/algoformer-1": own}
    assert [row[0] for row in run_table(results).rows] == ["representation/algoformer"]
    assert [row[0] for row in run_table({"layers/algoformer-1": own}).rows] == ["layers/algoformer-1"]


def test_the_ablation_says_over_how_many_steps_and_leaves_out_what_was_not_run() -> None:
    held, fixed = (ITEMS[f"depth-linear/{name}"] for name in ("holding", "fixed"))
    assert isinstance(held, RunSpec)
    results = {
        held.name: constructed(held.with_steps(45_000), growth=0.9),
        fixed.name: constructed(fixed, growth=300),
    }
    rows = {row[0]: row[1:] for row in ablation_table(results).rows}
    assert list(rows) == ["random burn-in", "fixed depth"]
    assert [row[0] for row in rows.values()] == ["45,000", "5,000"]
    assert rows["fixed depth"][2:4] == ("0.300", "300")
    assert rows["random burn-in"][4:] == (None,) * 4, "not run on the other task"


def test_the_ablation_has_a_number_for_each_seed() -> None:
    first, second = ITEMS["depth-linear/holding"], ITEMS["depth-linear/holding-seed1"]
    results = {
        first.name: constructed(first, error=1e-3, growth=0.9),
        second.name: constructed(second, error=2e-3, growth=1.25),
    }
    (row,) = ablation_table(results).rows
    assert row[1:5] == ("5,000", "0.00100, 0.00200", "9.00e-4, 0.00250", "0.900, 1.25")
    assert isinstance(second, RunSpec)
    results[second.name] = constructed(second.with_steps(9_000))
    assert ablation_table(results).rows[0][2] == "0.00100", "another length is no other seed"
    del results[first.name]
    assert ablation_table(results).rows[0][1] == "9,000", "the second alone is shown as well"


def test_what_is_there_and_what_is_missing_is_counted() -> None:
    chain, loop = ITEMS["chain/algoformer"], ITEMS["chain/looped"]
    assert isinstance(chain, RunSpec)
    results = {chain.name: constructed(chain.with_steps(9_000)), loop.name: constructed(loop)}
    rows = {str(row[0]): row for row in coverage_table(results, "short").rows}
    assert rows["fig2"][1:3] == ("1 of 68", "chain/algoformer (9,000 steps)")
    assert "chain/standard" in str(rows["fig2"][3])
    assert str(rows["fig2"][3]).endswith(" and 58 more")
    assert rows["fig5"][1] == "0 of 11"


def test_textbook_methods_have_a_row_for_each_noise_with_the_step_that_was_chosen() -> None:
    names = ("fixed-step", "gd", "newton", "oracle")
    results = {
        f"{group}/{name}": constructed(ITEMS[f"{group}/{name}"], error=0.01)
        for group in ("linear", "representation", "representation-noise-1")
        for name in names
    }
    chosen = results["linear/fixed-step"]
    results["linear/fixed-step"] = replace(chosen, provenance={**chosen.provenance, "step size": 0.44})
    rows = textbook_table(results).rows
    assert [row[:2] for row in rows[::4]] == [
        ("linear", "0"),
        ("representation", "0"),
        ("representation", "1"),
    ]
    assert rows[0][2] == "gradient descent, one step for all, 0.440"
    assert rows[0][4] == pytest.approx(0.01)
    assert rows[3][3:] == (0.01, 0.01, 0.01), "the oracle does not iterate"


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


def test_the_small_scale_decides_nothing_and_says_so(tmp_path: Path) -> None:
    said = {
        scale: "decides nothing" in "\n".join(page_lines({}, scale, tmp_path)) for scale in ("tiny", "short")
    }
    assert said == {"tiny": True, "short": False}


def test_a_page_that_lost_its_end_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Mine\n\n{BEGIN}\nold\n\nwritten by hand\n")
    with pytest.raises(ValueError, match="has lost the line"):
        write_page({}, "short", tmp_path)
    assert "written by hand" in (tmp_path / "README.md").read_text()
