"""Notebooks and examples as pages: cells of words and code, with what the code printed and drew."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: words in Markdown, or code."""

    text: str
    is_code: bool


@dataclass(frozen=True)
class Output:
    """What a code cell gave: printed text, and drawings as HTML."""

    printed: str = ""
    drawings: tuple[str, ...] = ()


def notebook_cells(path: Path) -> list[Cell]:
    """Read the cells of a Jupyter notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]


def script_cells(path: Path) -> list[Cell]:
    """Read the cells of a script with `# %%` marks."""
    found = []
    for part in re.split(r"^# %%", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        kind, _, text = part.partition("\n")
        if "[markdown]" in kind:
            found.append(Cell(re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip(), is_code=False))
        else:
            found.append(Cell(text.strip(), is_code=True))
    return found


def run_cells(cells: list[Cell]) -> list[Output]:
    """Run the code of a notebook in order, in an empty folder, and return what every cell gave."""
    module = ModuleType("notebook")
    sys.modules["notebook"] = module  # dataclasses look their module up
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        return [_run(cell.text, vars(module)) if cell.is_code else Output() for cell in cells]


def _run(source: str, names: dict[str, Any]) -> Output:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    drawings: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            drawing = _drawn(value)
            if drawing:
                drawings.append(drawing)
            elif value is not None:
                print(repr(value))
    return Output(printed.getvalue(), tuple(drawings))


def _drawn(value: Any) -> str:
    if hasattr(value, "_repr_svg_"):
        return str(value._repr_svg_())
    if hasattr(value, "savefig"):
        file = io.BytesIO()
        value.savefig(file, format="png", dpi=110, bbox_inches="tight")
        coded = base64.b64encode(file.getvalue()).decode()
        return f'<img alt="figure" src="data:image/png;base64,{coded}">'
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    return ""


def cells_page(cells: list[Cell], outputs: list[Output] | None = None) -> str:
    """Return a page with the cells and, if there are any, their outputs."""
    shown = outputs or [Output()] * len(cells)
    parts = []
    for cell, output in zip(cells, shown, strict=True):
        parts.append(f"```python\n{cell.text}\n```" if cell.is_code else cell.text)
        if output.printed.strip():
            parts.append(f"```{{code-block}} text\n:class: output\n\n{output.printed.rstrip()}\n```")
        drawings = (drawing.replace("\n", " ") for drawing in output.drawings)
        parts += [f'```{{raw}} html\n<div class="program">{drawing}</div>\n```' for drawing in drawings]
    return "\n\n".join(parts) + "\n"


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
