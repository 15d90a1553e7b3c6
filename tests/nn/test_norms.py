import warnings

import pytest
import torch
from torch import Tensor, nn

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.nn import NORMS, LayerSizes, register_activation, register_norm
from algoformer.prompt import Prompt
from algoformer.trace import Unroll
from tests.model.test_cost import SIZES, measured_flops, measured_memory


def test_rms_norm_is_its_formula() -> None:
    norm = NORMS["rms"].build(LayerSizes(width=5)).double()
    nn.init.normal_(norm.weight)
    stream = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = stream / (stream.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight
    torch.testing.assert_close(norm(stream), expected, rtol=0, atol=1e-14)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


@pytest.mark.parametrize("qk_norm", ["head", "full", "plain"])
def test_rms_norms_in_bf16_products_do_not_warn(qk_norm: str) -> None:
    layers = Layers(1, heads=2, norm="rms", norm_at="in+out+after", qk_norm=qk_norm)
    model = AlgoFormer(Program(Loop(layers, steps=2)), dim=3, out=1, context=6, width=8)
    prompt = Prompt.of_pairs(torch.randn(2, 3, 3), torch.randn(2, 3, 1))
    exact = model(prompt, Unroll(steps=2)).final
    with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("error")
        rounded = model(prompt, Unroll(steps=2)).final
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rms_norm_of_equal_precision_is_that_of_pytorch(dtype: torch.dtype) -> None:
    ours = NORMS["rms"].build(LayerSizes(width=5)).to(dtype)
    theirs = nn.RMSNorm(5, eps=1e-5).to(dtype)
    stream = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    torch.testing.assert_close(ours(stream), theirs(stream), rtol=0, atol=0)


def test_every_norm_of_a_module_is_of_its_kind() -> None:
    program = Program(Loop(Layers(2, heads=2, norm="rms"), steps=3))
    model = AlgoFormer(program, dim=3, out=1, context=6, width=8)
    assert sum(isinstance(module, nn.RMSNorm) for module in model.modules()) == 5
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
    assert "RMS norm" in str(program)
    assert model.cost().parameters == sum(parameter.numel() for parameter in model.parameters())


def test_cost_counts_what_rms_norms_keep() -> None:
    unroll = Unroll(steps=3)
    program = Program(Layers(2, heads=2, norm="rms"), Loop(Layers(1, heads=2, norm="rms"), 3))
    model = AlgoFormer(program, **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)


class Doubled(nn.Module):
    def forward(self, stream: Tensor) -> Tensor:
        return 2 * stream


def test_a_registered_norm_is_built_counted_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NORMS, "doubled", None)
    del NORMS["doubled"]  # registered below, and removed after the test
    text = Program(Layers(1, heads=2, norm="layer")).to_json().replace('"layer"', '"doubled"')
    with pytest.raises(ValueError, match=r"unknown norm 'doubled'; choose from .*register_norm"):
        Program.from_json(text)
    register_norm("doubled", lambda sizes: Doubled())
    program = Program.from_json(text)
    assert str(program) == "1 layer × 2 heads, doubled norm"
    model = AlgoFormer(program, dim=3, out=1, context=6, width=8)
    assert isinstance(model.body.parts[0].layers[0].attention_norm, Doubled)
    assert model.cost().parameters == sum(parameter.numel() for parameter in model.parameters())
    prompt = Prompt.of_pairs(torch.randn(2, 3, 3), torch.randn(2, 3, 1))
    assert model(prompt, Unroll(steps=1)).final.isfinite().all()
    register_norm("doubled", lambda sizes: Doubled())  # as in a cell of a notebook that is run again
    with pytest.raises(ValueError, match="'doubled' is registered already"):
        register_norm("doubled", another_build)


def another_build(sizes: LayerSizes) -> nn.Module:
    return Doubled()


@pytest.mark.parametrize(("old", "new"), [(True, "layer"), (False, "none")])
def test_the_booleans_of_older_programs_are_still_read(old: bool, new: str) -> None:
    data = Program(Layers(1, norm=new)).to_json().replace(f'"{new}"', str(old).lower(), 1)
    assert Program.from_json(data) == Program(Layers(1, norm=new))
    assert Program.from_json(data).parts[0].norm == new


def test_an_activation_with_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="'prelu' has parameters, which all layers would share"):
        register_activation("prelu", nn.PReLU())
