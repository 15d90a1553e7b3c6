"""The API reference: one page for each public package, grouped by the module that defines a name."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from sphinx.pycode import ModuleAnalyzer

from scripts.site.docstrings import as_restructured_text

ROOMS: dict[str, str] = {
    "algoformer": "the names to begin with",
    "algoformer.model": "programs, the loop driver, stopping rules, addresses",
    "algoformer.model.presets": "named programs, also as `algoformer.programs`",
    "algoformer.nn": "layers: attention, norms, positions, activations",
    "algoformer.tasks": "distributions over prompts",
    "algoformer.algorithms": "textbook solvers",
    "algoformer.theory": "theorems as weights",
    "algoformer.evaluation": "errors with confidence bands",
    "algoformer.training": "experiments, training, checkpoints",
    "algoformer.data": "data to train on",
    "algoformer.language": "text: tokenizer, models, decoding, scores",
    "algoformer.insight": "which algorithm a loop runs",
    "algoformer.search": "programs found by search",
    "algoformer.hf": "conversion to and from Hugging Face models",
    "algoformer.report": "plots, tables, pages",
    "algoformer.report.diagram": "programs as SVG",
    "algoformer.report.explorer": "pages in which a model runs",
}
"""Public packages and modules, with what each is about."""


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every page of the reference."""
    rows = [f"| [`{room}`]({page_of(room)}.rst) | {words} |" for room, words in ROOMS.items()]
    table = "\n".join(["| package | what it has |", "|---|---|", *rows])
    intro = "Every public name, from its docstring. Each page begins with a table of its names."
    yield "reference/index.md", f"# API reference\n\n{intro}\n\n{table}\n"
    for room in ROOMS:
        yield f"reference/{page_of(room)}.rst", _page(room)


def page_of(room: str) -> str:
    """Return the name of a package's page.

    >>> page_of("algoformer"), page_of("algoformer.report.diagram")
    ('algoformer', 'report-diagram')
    """
    return room.removeprefix("algoformer.").replace(".", "-")


def public_names(room: str) -> list[str]:
    """Return the public names of a package: its `__all__`, or what it defines and re-exports."""
    module = import_module(room)
    if hasattr(module, "__all__"):
        names = list(module.__all__)
    else:
        names = [name for name, value in vars(module).items() if _is_ours(name, value, module)]
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def _is_ours(name: str, value: object, module: ModuleType) -> bool:
    if name.startswith("_") or inspect.ismodule(value):
        return False
    if inspect.isclass(value) or inspect.isfunction(value):
        package = module.__name__ if hasattr(module, "__path__") else f"{module.__name__}$"
        home = f"{value.__module__}$"
        return home.startswith(package) or _reexported(name, module)
    documented = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
    return _reexported(name, module) or ("", name) in documented


def _reexported(name: str, module: ModuleType) -> bool:
    return re.search(rf"^from \S+ import \w+ as {name}$", inspect.getsource(module), re.MULTILINE) is not None


def home_of(room: str, name: str) -> str:
    """Return the module that defines a public name; constants are looked up in the imports of the package."""
    module = import_module(room)
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return str(value.__module__)
    found = re.search(rf"^from (\S+) import \w+ as {name}$", inspect.getsource(module), re.MULTILINE)
    return found[1] if found else room


def _page(room: str) -> str:
    groups: dict[str, list[str]] = {}
    for name in public_names(room):
        groups.setdefault(home_of(room, name), []).append(name)
    lines = [room, "=" * len(room), "", f".. automodule:: {room}", "   :no-index:", "", *_table(room, groups)]
    if room == "algoformer":
        # the other names are documented in their package; two entries for one thing would be ambiguous
        groups = {
            home: [name for name in names if full_name(room, name).count(".") == 1]
            for home, names in groups.items()
        }
    shown = {home: names for home, names in groups.items() if names}
    for home, names in shown.items():
        lines += _group(room, home, names, alone=len(shown) == 1)
    return "\n".join(lines) + "\n"


def full_name(room: str, name: str) -> str:
    """Return the name under which a public name has its entry in the reference.

    >>> full_name("algoformer", "Loop"), full_name("algoformer", "Prompt")
    ('algoformer.model.Loop', 'algoformer.Prompt')
    """
    if room != "algoformer":
        return f"{room}.{name}"
    value = getattr(import_module(room), name)
    rooms = [other for other in list(ROOMS)[1:] if getattr(import_module(other), name, None) is value]
    return f"{rooms[0] if rooms else room}.{name}"


def _table(room: str, groups: dict[str, list[str]]) -> Iterator[str]:
    yield from (".. list-table::", "   :widths: 1 3", "   :class: names", "")
    for home, names in groups.items():
        for name in names:
            words = as_restructured_text([_first_sentence(docstring(room, home, name))])[0]
            yield from (f"   * - :py:obj:`~{full_name(room, name)}`", f"     - {words}")
    yield ""


def docstring(room: str, home: str, name: str) -> str:
    """Return the docstring of a public name; that of a constant is the string below its definition."""
    value = getattr(import_module(room), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return inspect.getdoc(value) or ""
    found = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    return "\n".join(found).strip()


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?:]) (?=[A-ZΑ-Ω`])", paragraph)[0]


def _group(room: str, home: str, names: list[str], *, alone: bool) -> Iterator[str]:
    if not alone:
        title = home.removeprefix(f"{room}.").removeprefix("algoformer.").replace("_", " ")
        first = (sys.modules[home].__doc__ or "").strip().split("\n\n")[0].splitlines()
        yield from (title, "-" * len(title), "", *as_restructured_text(first), "")
    for name in names:
        yield from _entry(room, home, name)


def _entry(room: str, home: str, name: str) -> Iterator[str]:
    value, full = getattr(import_module(room), name), f"{room}.{name}"
    if inspect.isclass(value):
        yield from (f".. autoclass:: {full}", "   :members:", "   :member-order: bysource", "")
    elif inspect.isfunction(value):
        yield from (f".. autofunction:: {full}", "")
    else:
        lines = as_restructured_text(docstring(room, home, name).splitlines())
        yield from (f".. py:data:: {name}", f"   :module: {room}", "", *(f"   {line}" for line in lines), "")
