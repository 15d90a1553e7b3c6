import re
import sys
import tomllib
from pathlib import Path

import pytest

from algoformer.extras import require


def test_a_package_that_is_there_is_imported() -> None:
    assert require("os.path", extra="viz") is sys.modules["os.path"]


def test_a_missing_package_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'nowhere'.*pip install 'algoformer\[viz\]'"):
        require("nowhere.at.all", extra="viz")


def test_a_hidden_package_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"algoformer\[text\]"):
        require("tokenizers", extra="text")


def test_what_a_broken_package_misses_is_not_blamed_on_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_it_needs"):
        require("broken_package", extra="viz")


def test_every_extra_that_is_named_exists() -> None:
    root = Path(__file__).parents[1]
    files = [path for folder in ("src", "paper") for path in (root / folder).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    named = set(re.findall(r'extra="(\w+)"', source)) | set(re.findall(r"algoformer\[(\w+)\]", source))
    known = set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert {"viz", "text", "hub"} <= named <= known
