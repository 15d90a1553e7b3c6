"""`import algoformer` needs torch, numpy and jaxtyping, and nothing else."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import algoformer

OPTIONAL = [
    "safetensors",
    "tyro",
    "rich",
    "matplotlib",
    "jinja2",
    "tokenizers",
    "sacrebleu",
    "transformers",
    "tensorboard",
    "optuna",
    "sqlalchemy",
    "pandas",
    "scipy",
    "sklearn",
    "datasets",
    "beartype",
    "pytest",
    "hypothesis",
]
PUBLIC = [
    "AlgoFormer",
    "Layers",
    "Loop",
    "Parallel",
    "Program",
    "Prompt",
    "Unroll",
    "Trace",
    "Solver",
    "evaluate",
]
ROOMS = [
    "algorithms",
    "data",
    "evaluation",
    "insight",
    "language",
    "model",
    "nn",
    "onnx",
    "programs",
    "report",
    "search",
    "tasks",
    "theory",
    "training",
]
LAZY = ["data", "language", "model", "search", "training"]
"""Packages whose names are imported when they are first used."""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_the_package_works_where_everything_optional_is_hidden() -> None:
    code = f"""
import sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None
import torch
import algoformer
from algoformer import AlgoFormer, Prompt, Unroll, programs
model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=8, width=8)
print(model(Prompt.of_pairs(torch.ones(1, 4, 3), torch.ones(1, 4, 1)), Unroll(steps=3)).predictions.shape)
print(all(hasattr(algoformer, name) for name in {PUBLIC + ROOMS!r}))
"""
    assert run(code).splitlines() == ["torch.Size([3, 1, 4, 1])", "True"]


def test_importing_the_package_leaves_everything_optional_alone() -> None:
    present = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    assert "safetensors" in present, "nothing optional is installed that could be left alone"
    code = f"""
import sys
import torch
before = set(sys.modules)
import algoformer
print(sorted({{name.split('.')[0] for name in set(sys.modules) - before}} & set({present!r})))
"""
    assert run(code) == "[]"


def test_all_names_can_be_taken_at_once() -> None:
    code = f"""
import algoformer
from algoformer import *
print(all(globals()[name] is getattr(algoformer, name) for name in {PUBLIC + ROOMS!r}))
print(set({PUBLIC + ROOMS!r}) <= set(dir(algoformer)), hasattr(algoformer, "nothing"))
"""
    assert run(code).splitlines() == ["True", "True False"]


def test_a_room_that_needs_an_extra_is_imported_when_it_is_used_only() -> None:
    code = """
import sys
sys.modules["transformers"] = None
import algoformer
from algoformer import *
print("hf" in dir(algoformer))
try:
    algoformer.hf
except ModuleNotFoundError as error:
    print(error)
"""
    listed, message = run(code).splitlines()
    assert listed == "False"
    assert message.endswith("pip install 'algoformer[hf]'")


@pytest.mark.parametrize("name", PUBLIC + ROOMS)
def test_the_public_names_exist(name: str) -> None:
    assert getattr(algoformer, name) is not None


def test_the_rooms_hold_what_the_readme_uses() -> None:
    for preset in ("standard", "looped", "algoformer", "nested", "two_loops"):
        assert callable(getattr(algoformer.programs, preset))
    assert algoformer.__version__


def imported_by(command: list[str]) -> set[str]:
    """Return the modules of the package that a command has imported when it is done."""
    code = f"""
import sys
from algoformer.cli import main
main({command!r})
print()
print(*sorted(name for name in sys.modules if name.split(".")[0] == "algoformer"))
"""
    return set(run(code).splitlines()[-1].split())


def test_translating_imports_no_trainer_and_at_most_70_modules(tmp_path: Path) -> None:
    (tmp_path / "german.txt").write_text("Ich bin müde.\n", encoding="utf-8")
    found = imported_by(["translate", "tatoeba_de_en", str(tmp_path / "german.txt"), "--device", "cpu"])
    assert "algoformer.language.translate" in found
    assert not [name for name in found if name.startswith("algoformer.training")]
    assert len(found) <= 70, sorted(found)


@pytest.mark.parametrize(
    "command",
    [["classify", "dbpedia", "--classes"], ["info", "linear"], ["info", "tatoeba_de_en"], ["info", "books"]],
)
def test_using_a_model_imports_no_trainer(command: list[str]) -> None:
    found = imported_by(command)
    assert "algoformer.checkpoint" in found
    assert not [name for name in found if name.startswith("algoformer.training")]


@pytest.mark.parametrize("package", ["algoformer", *(f"algoformer.{room}" for room in LAZY)])
def test_a_lazy_package_has_every_name_that_it_lists(package: str) -> None:
    code = f"""
import importlib
package = importlib.import_module({package!r})
for name in package.__all__:
    assert getattr(package, name) is not None, name
    assert name in dir(package)
print(len(package.__all__) > 0, hasattr(package, "nothing"))
print({{"TYPE_CHECKING", "lazy_attribute", "lazy_dir", "partial"}} & set(dir(package)))
"""
    assert run(code).splitlines() == ["True False", "set()"]


@pytest.mark.parametrize("room", LAZY)
def test_no_submodule_hides_a_name_of_a_lazy_package(room: str) -> None:
    package = importlib.import_module(f"algoformer.{room}")
    modules = {info.name for info in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)
