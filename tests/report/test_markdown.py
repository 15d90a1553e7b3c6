import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.evaluation import Table
from algoformer.report import markdown_table


@given(st.text())
def test_a_cell_stays_one_cell_without_markup(text: str) -> None:
    lines = markdown_table(Table(columns=("a", "b"), rows=((text, 1.0),))).split("\n")
    assert len(lines) == 4
    assert lines[-1] == ""
    unescaped = lines[2].replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 3
    assert "<" not in lines[2]
    assert not any(ord(character) < 32 for character in lines[2])


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a & b", "a &amp; b"),
        ("x\x1b[31m", "x\\x1b[31m"),
        ("two\nlines", "two lines"),
    ],
)
def test_html_and_control_characters_are_escaped(cell: str, shown: str) -> None:
    assert f"| {shown} |" in markdown_table(Table(columns=("a",), rows=((cell,),)))
