"""`import algoformer` needs torch, numpy and jaxtyping, and nothing else."""

import importlib.util
import subprocess
import sys

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
ROOMS = ["programs", "tasks", "algorithms"]


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


@pytest.mark.parametrize("name", PUBLIC + ROOMS)
def test_the_public_names_exist(name: str) -> None:
    assert getattr(algoformer, name) is not None


def test_the_rooms_hold_what_the_readme_uses() -> None:
    for preset in ("standard", "looped", "algoformer", "nested", "two_loops"):
        assert callable(getattr(algoformer.programs, preset))
    assert algoformer.__version__
