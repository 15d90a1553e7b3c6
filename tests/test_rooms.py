"""Imports point one way. A line that needs an arrow not listed here is in the wrong room."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "algoformer"
BESIDE = ("paper", "benchmarks", "torture")
"""Packages beside the library: they import it, and neither it nor each other imports them."""
SOLVING = {"prompt", "trace", "problems"}
# `common` is at the bottom: every room may import it, beside the rooms that are listed for it
MAY_IMPORT: dict[str, set[str]] = {
    "common": set(),
    "extras": set(),
    "prompt": set(),
    "trace": {"prompt"},
    "problems": {"prompt"},
    "depth": set(),
    "config": {"depth"},
    "tasks": SOLVING,
    "algorithms": SOLVING,
    "nn": set(),
    "kernels": set(),
    "model": {"prompt", "trace", "nn"},
    "theory": SOLVING | {"nn", "model"},
    "evaluation": {"prompt", "trace", "tasks"},
    "language": {"trace", "extras", "nn", "kernels", "model"},
    "data": {"config", "prompt", "trace", "tasks", "model", "evaluation", "extras", "language"},
    "checkpoint": {"data", "language", "model"},
    "shipped": {"checkpoint"},
    "training": {"config", "depth", "prompt", "trace", "tasks", "nn", "kernels", "model", "language"}
    | {"data", "checkpoint", "shipped"},
    "search": {"config", "tasks", "model", "evaluation", "data", "training", "extras"},
    "insight": SOLVING | {"tasks", "algorithms", "evaluation", "model"},
    "hf": {"trace", "extras", "model", "language"},
    "onnx": {"extras", "nn", "model", "language"},
    "report": {"model", "evaluation", "insight", "extras"},
}
EVERYTHING = set(MAY_IMPORT)
# what stands on top sees all that is below it
MAY_IMPORT["cli"] = EVERYTHING
MAY_IMPORT["__main__"] = {"cli"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def allowed(path: Path) -> set[str]:
    room = room_of(path)
    within = path.relative_to(PACKAGE).parts
    # a verification of a theorem sets the weights beside the textbook method, on a task
    checks = {"algorithms", "tasks"} if room == "theory" and within[1].startswith("verify") else set()
    return MAY_IMPORT[room] | checks | {room, "common"}


def modules_imported(source: str, package: str = "algoformer") -> set[str]:
    """Every module of the package that the source names, in whichever way an import can be written."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [alias.name for alias in node.names if not alias.name.startswith("__")]
            found |= {f"{module}.{name}" for name in names} if module == "algoformer" else {module}
    return {name for name in found if name.split(".")[0] == "algoformer"}


def rooms_imported(source: str, package: str = "algoformer") -> set[str]:
    modules = modules_imported(source, package)
    assert "algoformer" not in modules, "import the room, not the whole package"
    return {module.split(".")[1] for module in modules}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    inside = ("algoformer", *path.relative_to(PACKAGE).parts[:-1])
    strangers = rooms_imported(path.read_text(), ".".join(inside)) - allowed(path)
    assert not strangers, f"{room_of(path)} may not import {sorted(strangers)}"


def packages_imported(source: str) -> set[str]:
    """The top-level packages that the source names."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named.add(node.module.split(".")[0])
    return named


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_library_imports_nothing_that_stands_beside_it(path: Path) -> None:
    assert not packages_imported(path.read_text()) & set(BESIDE)


@pytest.mark.parametrize("package", BESIDE)
def test_packages_beside_the_library_import_only_the_library(package: str) -> None:
    modules = sorted((ROOT / package).glob("*.py"))
    assert modules
    for path in modules:
        assert not packages_imported(path.read_text()) & (set(BESIDE) - {package}), path


def test_every_arrow_points_down() -> None:
    """No two rooms may import each other, however long the way round."""

    def below(room: str) -> set[str]:
        direct = MAY_IMPORT[room] - {room}
        return direct | {deeper for inner in direct for deeper in below(inner)}

    assert all(room not in below(room) for room in MAY_IMPORT)


@pytest.mark.parametrize(
    "line",
    [
        "from algoformer.training import Trainer",
        "from algoformer.training.trainer import Trainer",
        "import algoformer.training",
        "import algoformer.training.trainer as trainer",
        "from algoformer import training",
        "def late():\n    from algoformer.training import Trainer",
        "from ..training import Trainer",
        "from .. import training",
        "from ..training.trainer import Trainer",
    ],
)
def test_a_planted_import_is_caught(line: str) -> None:
    path = PACKAGE / "nn" / "planted.py"
    strangers = rooms_imported(line, "algoformer.nn") - allowed(path)
    assert strangers == {"training"}


@pytest.mark.parametrize(
    "line",
    ["import torch", "from algoformer.nn import Layer", "from .layer import Layer", "from . import layer"],
)
def test_what_is_at_home_or_from_outside_is_not(line: str) -> None:
    assert not rooms_imported(line, "algoformer.nn") - allowed(PACKAGE / "nn" / "planted.py")


def test_only_verifications_set_theorems_beside_algorithms() -> None:
    assert "algorithms" in allowed(PACKAGE / "theory" / "verify.py")
    assert "algorithms" not in allowed(PACKAGE / "theory" / "newton.py")


def test_the_whole_package_is_not_imported_from_inside() -> None:
    with pytest.raises(AssertionError, match="import the room"):
        rooms_imported("import algoformer")


def test_every_room_has_its_row() -> None:
    assert {room_of(path) for path in MODULES} <= set(MAY_IMPORT)
