import ast
import io
from pathlib import Path

import pytest
from rich.console import Console

from algoformer.evaluation import Table
from algoformer.report import tables, terminal_table

REPORT = Path(tables.__file__).parent


def printed(table: Table, width: int = 60) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(terminal_table(table))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_words_stand_left_and_numbers_right() -> None:
    text = printed(
        Table(columns=("solver", "error"), rows=(("a", 1e-5), ("longer", None)), title="T", note="N")
    )
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "T"
    assert [line for line in lines if line.startswith(" a ")] == [" a        1.00e-5"]
    assert [line for line in lines if line.startswith(" longer")] == [" longer         –"]
    assert lines[-1] == "N"


def test_labels_are_not_markup() -> None:
    table = Table(columns=("[bold]solver[/]",), rows=(("[red]x[/red] [link=a]",),), title="[i]t", note="[/]")
    text = printed(table)
    for label in ("[bold]solver[/]", "[red]x[/red] [link=a]", "[i]t", "[/]"):
        assert label in text


def test_numbers_are_never_broken() -> None:
    table = Table(columns=("solver", "error"), rows=(("a very long name for a solver", 1.23456e-5),))
    assert "1.23e-5" in printed(table, width=24)


@pytest.mark.parametrize("path", sorted(REPORT.glob("*.py")), ids=lambda path: path.stem)
def test_nothing_optional_is_imported_before_it_is_needed(path: Path) -> None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert module.split(".")[0] not in ("rich", "matplotlib", "jinja2", "markupsafe")


def test_a_cell_from_a_file_cannot_drive_the_terminal() -> None:
    table = Table(columns=("a\x1b",), rows=(("\x1b]0;title\x07 b",),), title="\x1b", note="\x9b")
    shown = printed(table)
    assert "\\x1b]0;title\\x07 b" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_columns_that_do_not_fit_go_below_and_no_name_is_cut() -> None:
    names = ("a solver with a long name", "another solver, with a longer name")
    columns = ("solver", *(f"{count} samples" for count in (1, 3, 7, 15)), "5 %", "95 %")
    table = Table(columns=columns, rows=tuple((name, *(0.123,) * 6) for name in names), note="N")
    parts = tables.fitted(table, 80)
    assert [column for part in parts for column in part.columns[1:]] == list(columns[1:])
    assert all(part.columns[0] == "solver" for part in parts)
    assert [bool(part.note) for part in parts] == [False] * (len(parts) - 1) + [True]
    for part in parts:
        lines = printed(part, width=80).splitlines()
        assert max(len(line.rstrip()) for line in lines) <= 80
        assert "…" not in "".join(lines)
        assert sum("0.123" in line for line in lines) == len(names)
    assert tables.fitted(table, 200) == [table]
