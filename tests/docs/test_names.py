"""What is public is explained."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import algoformer
import benchmarks
import paper

pytestmark = pytest.mark.docs
MODULES = [
    info.name
    for package in (algoformer, paper, benchmarks)
    for info in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    if not info.name.endswith("__main__")
]


def public_things(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, thing in vars(module).items():
        at_home = getattr(thing, "__module__", None) == module.__name__
        if name.startswith("_") or not at_home or not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield name, thing
        if inspect.isclass(thing):
            for inner, member in vars(thing).items():
                # the default of a field may be a function too, which the docstring of the class explains
                default = getattr(member, "__name__", "") == "<lambda>"
                kinds = property | classmethod | staticmethod | type(public_things)
                if not inner.startswith("_") and not default and isinstance(member, kinds):
                    yield f"{name}.{inner}", member


@pytest.mark.parametrize("name", ["algoformer", "paper", "benchmarks", *MODULES])
def test_every_public_name_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} says nothing about itself"
    silent = [
        inner
        for inner, thing in public_things(module)
        if not (inspect.getdoc(thing) or "").strip() or written_by_dataclass(thing)
    ]
    assert not silent, f"{name}: no docstring for {', '.join(silent)}"


def written_by_dataclass(thing: object) -> bool:
    # a dataclass without a docstring is given its signature as one
    text = getattr(thing, "__doc__", None) or ""
    return inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
