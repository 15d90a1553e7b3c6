from collections.abc import Iterator

import pytest
import torch
from torch import nn

from algoformer.evaluation import evaluate
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll, constant_trace
from evaluation.known import pairs


class Witness(nn.Module):
    """Notes the circumstances under which it is called."""

    def __init__(self, fail: bool = False) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2).eval()
        self.fail = fail
        self.seen: list[tuple] = []

    def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
        self.seen.append((*circumstances(), self.training, self.inner.training))
        if self.fail:
            raise RuntimeError("as planned")
        return constant_trace(prompt.targets, unroll)


def circumstances() -> tuple:
    products = torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision
    return *products, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


@pytest.fixture(params=["highest", "high", "medium"])
def before(request: pytest.FixtureRequest) -> Iterator[str]:
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("fail", [False, True])
def test_measuring_is_exact_and_leaves_no_trace(before: str, fail: bool) -> None:
    witness = Witness(fail)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outside = circumstances()
        if fail:
            with pytest.raises(RuntimeError, match="as planned"):
                evaluate(witness, pairs(), steps=1)
        else:
            evaluate(witness, pairs(), steps=1)
        assert circumstances() == outside
    assert witness.seen == [("ieee", "ieee", False, False, False, False)]
    assert (witness.training, witness.inner.training, witness.frozen.training) == (True, True, False)
    assert torch.get_float32_matmul_precision() == before
