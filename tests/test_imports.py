"""`import algoformer` needs torch, numpy and jaxtyping, and nothing else."""

import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
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


FORKS = """
import json, os, sys, traceback
import torch
for line in sys.stdin:
    code, output = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        try:
            exec(code, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""A process that has imported PyTorch, and nothing of this package, runs each code in a copy of itself."""


class Fresh:
    """Runs code as in a new process, without the second that importing PyTorch takes."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder, self.count = process, folder, 0

    def run(self, code: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.count += 1
        output = self.folder / f"output{self.count}"
        print(json.dumps([code, str(output)]), file=self.process.stdin, flush=True)
        status, printed = self.process.stdout.readline(), output.read_text(encoding="utf-8")
        assert status == "0\n", printed
        return printed.strip()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Fresh(process, tmp_path_factory.mktemp("fresh"))


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["torch.Size([3, 1, 4, 1])", "True"], done.stderr


def test_importing_the_package_leaves_everything_optional_alone(fresh: Fresh) -> None:
    present = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    assert "safetensors" in present, "nothing optional is installed that could be left alone"
    code = f"""
import sys
import torch
before = set(sys.modules)
import algoformer
print(sorted({{name.split('.')[0] for name in set(sys.modules) - before}} & set({present!r})))
"""
    assert fresh.run(code) == "[]"


def test_all_names_can_be_taken_at_once(fresh: Fresh) -> None:
    code = f"""
import algoformer
from algoformer import *
print(all(globals()[name] is getattr(algoformer, name) for name in {PUBLIC + ROOMS!r}))
print(set({PUBLIC + ROOMS!r}) <= set(dir(algoformer)), hasattr(algoformer, "nothing"))
"""
    assert fresh.run(code).splitlines() == ["True", "True False"]


def test_a_room_that_needs_an_extra_is_imported_when_it_is_used_only(fresh: Fresh) -> None:
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
    listed, message = fresh.run(code).splitlines()
    assert listed == "False"
    assert message.endswith("pip install 'algoformer[hf]'")


@pytest.mark.parametrize("name", PUBLIC + ROOMS)
def test_the_public_names_exist(name: str) -> None:
    assert getattr(algoformer, name) is not None


def test_the_rooms_hold_what_the_readme_uses() -> None:
    for preset in ("standard", "looped", "algoformer", "nested", "two_loops"):
        assert callable(getattr(algoformer.programs, preset))
    assert algoformer.__version__


def imported_by(fresh: Fresh, command: list[str]) -> set[str]:
    """Return the modules of the package that a command has imported when it is done."""
    code = f"""
import sys
from algoformer.cli import main
main({command!r})
print()
print(*sorted(name for name in sys.modules if name.split(".")[0] == "algoformer"))
"""
    return set(fresh.run(code).splitlines()[-1].split())


def test_translating_imports_no_trainer_and_at_most_70_modules(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "german.txt").write_text("Ich bin müde.\n", encoding="utf-8")
    found = imported_by(
        fresh, ["translate", "tatoeba_de_en", str(tmp_path / "german.txt"), "--device", "cpu"]
    )
    assert "algoformer.language.translate" in found
    assert not [name for name in found if name.startswith("algoformer.training")]
    assert len(found) <= 70, sorted(found)


@pytest.mark.parametrize(
    "command",
    [["classify", "dbpedia", "--classes"], ["info", "linear"], ["info", "tatoeba_de_en"], ["info", "books"]],
)
def test_using_a_model_imports_no_trainer(fresh: Fresh, command: list[str]) -> None:
    found = imported_by(fresh, command)
    assert "algoformer.checkpoint" in found
    assert not [name for name in found if name.startswith("algoformer.training")]


@pytest.mark.parametrize("package", ["algoformer", *(f"algoformer.{room}" for room in LAZY)])
def test_a_lazy_package_has_every_name_that_it_lists(fresh: Fresh, package: str) -> None:
    code = f"""
import importlib
package = importlib.import_module({package!r})
for name in package.__all__:
    assert getattr(package, name) is not None, name
    assert name in dir(package)
print(len(package.__all__) > 0, hasattr(package, "nothing"))
print({{"TYPE_CHECKING", "lazy_attribute", "lazy_dir", "partial"}} & set(dir(package)))
"""
    assert fresh.run(code).splitlines() == ["True False", "set()"]


@pytest.mark.parametrize("room", LAZY)
def test_no_submodule_hides_a_name_of_a_lazy_package(room: str) -> None:
    package = importlib.import_module(f"algoformer.{room}")
    modules = {info.name for info in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)
