"""Modules on the meta device have shapes, and need neither memory nor PyTorch's compiler."""

import subprocess
import sys

import torch
from torch import nn

from algoformer import programs
from algoformer.common.meta import on_meta
from algoformer.language import TokenModel


def test_a_model_on_meta_has_the_shapes_of_the_real_one() -> None:
    sizes = {"vocabulary": 11, "context": 8, "width": 8}
    with on_meta():
        blank = TokenModel(programs.algoformer(heads=2), **sizes)
    real = TokenModel(programs.algoformer(heads=2), **sizes)
    assert {tensor.device.type for tensor in blank.state_dict().values()} == {"meta"}
    shapes = [{name: tuple(one.shape) for name, one in each.state_dict().items()} for each in (blank, real)]
    assert shapes[0] == shapes[1]


def test_outside_values_are_drawn_as_ever() -> None:
    with on_meta():
        nn.Linear(3, 3)
    torch.manual_seed(0)
    first = nn.Embedding(5, 3).weight.detach().clone()
    torch.manual_seed(0)
    assert torch.equal(first, torch.empty(5, 3).normal_())


def test_loading_a_model_does_not_import_the_compiler() -> None:
    code = "import sys, algoformer; algoformer.load('linear'); print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
