import re

import pytest

from algoformer.cli.say import say
from algoformer.common.tables import Table

NOTE = "A note of the table that is far wider than its last column is."


def test_the_note_of_a_table_in_parts_is_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "70"}.items():
        monkeypatch.setenv(name, value)
    names = tuple(f"a long column {number}" for number in range(5))
    say(Table(columns=("solver", *names), rows=(("newton", *range(5)),), note=NOTE))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert sum("solver" in line for line in shown) == 2  # in two parts
    assert shown[-1].rstrip() == NOTE
    assert max(map(len, shown)) <= 70
