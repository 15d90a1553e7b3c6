"""Every option that a page mentions exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from algoformer.cli import choose
from algoformer.cli.parse import known_flags
from algoformer.cli.train import HELP, TrainOptions
from algoformer.tasks import TASKS
from tests.docs.pages import PAGES, ROOT

pytestmark = pytest.mark.docs
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*(?:\.[a-z0-9_-]+)*")
EVERYWHERE = {"--help", "--help-all"}
"""Options that every command has."""


class Recorded(Exception):
    """Raised in place of parsing, once the options of a command are known."""


def training_flags(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The options of `algoformer train` for every kind of data."""
    found: set[str] = set()

    def record(kind: type, *arguments: object, **settings: object) -> None:
        found.update(known_flags(kind))
        raise Recorded

    monkeypatch.setattr(choose, "parse", record)
    for data in [*([task] for task in TASKS), ["translation"], ["labels"], ["text", "book.txt"]]:
        with pytest.raises(Recorded):
            choose.read_experiment(["--data", *data], TrainOptions, command="train", short_help=HELP)
    return found | {f"--{name}" for name in choose.CURRICULA}  # with None, which turns one off


def declared_flags(folder: Path) -> Iterator[str]:
    """The options of the commands in a folder: fields of dataclasses, and arguments of argparse."""
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Options"):
                names = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
                yield from (f"--{name.id.replace('_', '-')}" for name in names if isinstance(name, ast.Name))
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def test_every_option_on_a_page_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    known = training_flags(monkeypatch) | EVERYWHERE
    for folder in ("src/algoformer/cli", "paper", "benchmarks", "scripts", "scripts/studies", "torture"):
        known |= set(declared_flags(ROOT / folder))
    assert {"--lr", "--data.dim", "--model.loop.steps", "--iterations", "--only"} <= known
    for page in PAGES:
        # commands in console blocks are run, and some of them are wrong on purpose
        text = re.sub(r"```console.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for flag in FLAG.findall(text):
            spelled = re.sub(r"(--|\.)no-", r"\1", flag)
            assert {flag, spelled} & known, f"{page.name} mentions {flag}, which no command has"
