"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib import import_module
from typing import Any

HELPERS = {"TYPE_CHECKING", "lazy_attribute", "lazy_dir", "partial"}
"""Names that a package imports in order to be lazy, and that are not its own."""


def lazy_attribute(package: str, name: str) -> Any:
    """Import a public name of a package: bound to the package, its `__getattr__` (PEP 562).

    The names are those that the package imports under `if TYPE_CHECKING:`, so that they are listed once, in
    the form that type checkers and editors read:

        if TYPE_CHECKING:
            from package.module import name as name
        else:
            __getattr__ = partial(lazy_attribute, __name__)
            __dir__ = partial(lazy_dir, __name__)

    `import package.module as module` there makes a module available that is in neither `__all__` nor `dir`,
    because it cannot be imported without an optional package.

    A submodule must not have the name of something that is imported this way: once it is loaded, Python
    makes it an attribute of the package.
    """
    if name == "__all__":
        return _listed(package)
    homes = _homes(package)
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, attribute = homes[name]
    found: Any = import_module(module)
    if attribute and module != package and hasattr(found, attribute):
        found = getattr(found, attribute)
    elif attribute:
        found = import_module(f"{module}.{attribute}")
    setattr(sys.modules[package], name, found)
    return found


def lazy_dir(package: str) -> list[str]:
    """Return the names in a package: bound to the package, its `__dir__`."""
    return sorted({*vars(sys.modules[package]), *_listed(package)} - HELPERS)


def _listed(package: str) -> list[str]:
    return [name for name, (_, attribute) in _homes(package).items() if attribute]


@cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Return each name under `if TYPE_CHECKING:` with its module and its name there, empty for a module."""
    loader: Any = sys.modules[package].__spec__.loader  # type: ignore[union-attr]
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(loader.get_source(package)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    homes |= {one.asname or one.name: (line.module, one.name) for one in line.names}
                elif isinstance(line, ast.Import):
                    homes |= {one.asname: (one.name, "") for one in line.names if one.asname}
    return homes
