"""Warnings of this repository are errors in tests; those of PyTorch's compiler about itself are not."""

import warnings

import pytest


@pytest.mark.parametrize("module", ["algoformer.training.step", "tests.small", "numpy", "torchmetrics"])
def test_a_warning_is_an_error(module: str) -> None:
    with pytest.raises(UserWarning, match="words"):
        warnings.warn_explicit("words", UserWarning, "file.py", 1, module=module)


@pytest.mark.parametrize("kind", [UserWarning, DeprecationWarning, FutureWarning])
@pytest.mark.parametrize("module", ["torch", "torch._inductor.compile_fx", "triton.runtime", "sympy.core"])
def test_a_warning_from_inside_pytorch_and_its_compilers_is_none(module: str, kind: type[Warning]) -> None:
    warnings.warn_explicit("words", kind, "file.py", 1, module=module)
