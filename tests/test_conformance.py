"""Both kinds of models work in other people's machinery: on prompts, and on tokens as transformers see them.

`tests/model/test_transforms.py` has the transforms of `torch.func` with closed formulas; here every tool gets
one check on each kind of model, and the answer is always compared with the plain model's.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader

from algoformer.language import TokenModel
from algoformer.model import AlgoFormer, presets
from algoformer.prompt import Prompt
from algoformer.trace import Unroll

# warnings of the tools about themselves; those of this library are errors
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning:(torch|lightning|accelerate|transformers|onnx|copyreg).*"
    ),
]
KINDS = pytest.mark.parametrize("kind", ["prompts", "tokens"])
DIM, POINTS, VOCABULARY, WIDTH = 3, 5, 11, 8


class OnPrompts(nn.Module):
    """An AlgoFormer as a function of two tensors, which every tool can handle."""

    def __init__(self) -> None:
        super().__init__()
        program = presets.algoformer(heads=2, steps=2)
        self.model = AlgoFormer(program, dim=DIM, out=1, context=2 * POINTS, width=WIDTH)

    def forward(self, rows: Tensor, targets: Tensor) -> Tensor:
        return self.model(Prompt.of_pairs(rows, targets), Unroll(steps=2)).final


class OnTokens(nn.Module):
    """A language model as transformers see it, as a function of tokens."""

    def __init__(self) -> None:
        super().__init__()
        pytest.importorskip("transformers")
        from algoformer.hf import to_hf

        program = presets.algoformer(heads=2, steps=2)
        self.model = to_hf(TokenModel(program, vocabulary=VOCABULARY, context=POINTS + 1, width=WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids).logits


def built(kind: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model with lively weights, and a batch of four inputs."""
    torch.manual_seed(0)
    model: nn.Module = OnPrompts() if kind == "prompts" else OnTokens()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval(), inputs(kind)


def inputs(kind: str, count: int = 4, seed: int = 1) -> tuple[Tensor, ...]:
    numbers = torch.Generator().manual_seed(seed)
    if kind == "tokens":
        return (torch.randint(VOCABULARY, (count, POINTS), generator=numbers),)
    rows = torch.randn(count, POINTS, DIM, generator=numbers)
    return rows, torch.randn(count, POINTS, 1, generator=numbers)


def loss_of(output: Tensor) -> Tensor:
    return output.float().square().mean()


def gradients(model: nn.Module, given: tuple[Tensor, ...]) -> dict[str, Tensor]:
    model.zero_grad()
    loss_of(model(*given)).backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in model.named_parameters()}


@KINDS
def test_dynamic_quantization_rounds_the_products_alone(kind: str) -> None:
    model, given = built(kind)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    plain, rounded = model(*given), quantized(*given)
    assert not torch.equal(plain, rounded)
    # eight bits: about a percent of the largest answer in each product
    assert (plain - rounded).abs().max() < 0.1 * plain.abs().max()


# sizes are checked when the module is traced, and are constants from then on
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_traced_module_answers_other_inputs_as_the_model() -> None:
    model, given = built("prompts")
    traced = torch.jit.trace(model, given, check_trace=False)
    other = inputs("prompts", seed=2)
    torch.testing.assert_close(traced(*other), model(*other))


@KINDS
def test_grad_jacrev_and_jvp_of_torch_func_agree_with_backward(kind: str) -> None:
    model, given = built(kind)
    expected, weights = gradients(model, given), weights_of(model)

    def loss(values: dict[str, Tensor]) -> Tensor:
        return loss_of(functional_call(model, values, given))

    with sdpa_kernel(SDPBackend.MATH):
        found, jacobian = grad(loss)(weights), jacrev(loss)(weights)
        ones = {name: torch.ones_like(weight) for name, weight in weights.items()}
        _, slope = jvp(loss, (weights,), (ones,))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(jacobian[name], value, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(slope, sum(value.sum() for value in expected.values()), rtol=1e-3, atol=1e-5)


@KINDS
def test_a_hessian_of_torch_func_is_the_difference_quotient_of_gradients(kind: str) -> None:
    model, given = built(kind)
    model, given = model.double(), tuple(one.double() if one.is_floating_point() else one for one in given)
    weights = weights_of(model)
    name = next(name for name in weights if name.endswith("norm.weight"))

    def loss(value: Tensor) -> Tensor:
        return functional_call(model, {**weights, name: value}, given).square().mean()

    direction = torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        found = hessian(loss)(weights[name]) @ direction
        ahead, behind = (grad(loss)(weights[name] + sign * 1e-4 * direction) for sign in (1, -1))
    assert float(found.abs().max()) > 1e-3
    torch.testing.assert_close(found, (ahead - behind) / 2e-4, rtol=1e-4, atol=1e-6)


@KINDS
def test_vmap_over_the_batch_is_the_batch(kind: str) -> None:
    model, given = built(kind)
    found = vmap(lambda *one: model(*(value[None] for value in one))[0])(*given)
    torch.testing.assert_close(found, model(*given), rtol=0, atol=1e-5)


@KINDS
def test_lora_reaches_every_layer_and_merges_to_the_same_answers(kind: str) -> None:
    peft = pytest.importorskip("peft", reason="pip install algoformer[conformance]")
    model, given = built(kind)
    before = model(*given).detach()
    adapted = peft.inject_adapter_in_model(
        peft.LoraConfig(target_modules=["qkv", "up", "down"], r=2, init_lora_weights=False), model
    )
    after = adapted(*given)
    assert float((after - before).detach().abs().max()) > 1e-3
    loss_of(after).backward()
    tuned = {name: weight for name, weight in adapted.named_parameters() if "lora_" in name}
    assert len(tuned) == 2 * 3 * 3  # two matrices for each of three projections in each of three layers
    assert all(weight.grad is not None and bool(weight.grad.any()) for weight in tuned.values())
    for module in adapted.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.merge()
    torch.testing.assert_close(adapted(*given), after, rtol=0, atol=1e-5)


@KINDS
def test_hooks_on_every_projection_are_called_and_obeyed(kind: str) -> None:
    model, given = built(kind)
    before, called = model(*given), []
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    for name in names:
        module = model.get_submodule(name)

        def double(_module: Any, _inputs: Any, output: Tensor, name: str = name) -> Tensor:
            called.append(name)
            return 2 * output

        hook = module.register_forward_hook(double)
        changed = float((model(*given) - before).detach().abs().max())
        assert called[-1] == name
        assert changed > 1e-6, f"a hook on {name} changes nothing"
        hook.remove()


@KINDS
def test_a_deep_copy_trains_on_its_own(kind: str) -> None:
    model, given = built(kind)
    expected, twin = model(*given), copy.deepcopy(model)
    assert torch.equal(twin(*given), expected)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.equal(twin(*given), expected)


@KINDS
def test_bf16_weights_give_answers_and_gradients_near_those_of_fp32(kind: str) -> None:
    model, given = built(kind)
    expected = model(*given)
    small = copy.deepcopy(model).bfloat16()
    cast = tuple(value.bfloat16() if value.is_floating_point() else value for value in given)
    found = small(*cast)
    assert found.dtype == torch.bfloat16
    spread = float(expected.detach().abs().max())
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05 * spread)
    assert all(bool(value.isfinite().all()) for value in gradients(small, cast).values())


def check_compiled(kind: str) -> None:
    """Compare a compiled model with the plain one, answers and gradients."""
    model, given = built(kind)
    expected = gradients(model, given)
    compiled = torch.compile(model, fullgraph=kind == "prompts", backend="aot_eager")
    torch.testing.assert_close(compiled(*given), model(*given), rtol=0, atol=1e-5)
    model.zero_grad()
    loss_of(compiled(*given)).backward()
    for name, weight in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(weight.grad, expected[name], rtol=1e-4, atol=1e-6)


def test_compile_gives_the_same_answers_and_gradients() -> None:
    """In a process of its own: the hook that checks shapes in these tests is not for the compiler."""
    pytest.importorskip("transformers", reason="pip install algoformer[hf]")
    root = Path(__file__).parents[1]
    script = (
        "from tests.test_conformance import check_compiled; [*map(check_compiled, ['prompts', 'tokens'])]"
    )
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=root
    )
    assert done.returncode == 0, done.stderr[-2000:]


def batch_sizes(given: tuple[Tensor, ...]) -> tuple[dict[int, Any], ...]:
    batch = torch.export.Dim("batch", min=2, max=64)
    return tuple({0: batch} for _ in given)


class Bare(nn.Module):
    """The token model without the wrapper of transformers, whose output is an object."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.model.model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(ids)


def exportable(kind: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    model, given = built(kind)
    return (Bare(model).eval() if kind == "tokens" else model), given


@KINDS
def test_an_exported_program_answers_other_batches_of_another_size(kind: str) -> None:
    model, given = exportable(kind)
    exported = torch.export.export(model, given, dynamic_shapes=batch_sizes(given)).module()
    other = inputs(kind, count=7, seed=5)
    torch.testing.assert_close(exported(*other), model(*other), rtol=0, atol=1e-5)


@KINDS
def test_onnx_runtime_gives_the_same_answers(kind: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="pip install algoformer[conformance]")
    pytest.importorskip("onnxscript", reason="pip install algoformer[conformance]")
    model, given = exportable(kind)
    path = tmp_path / "model.onnx"
    program = torch.onnx.export(
        model, given, dynamo=True, dynamic_shapes=batch_sizes(given), verbose=False, optimize=True
    )
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    other = inputs(kind, count=7, seed=5)
    names = [one.name for one in session.get_inputs()]
    (found,) = session.run(None, {name: value.numpy() for name, value in zip(names, other, strict=True)})
    torch.testing.assert_close(torch.from_numpy(found), model(*other).detach(), rtol=0, atol=1e-4)


def plain_training(kind: str, steps: int) -> nn.Module:
    model, _ = built(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model(*inputs(kind, seed=step))).backward()
        optimizer.step()
    return model


def assert_same_weights(found: nn.Module, expected: nn.Module) -> None:
    for (name, one), (_, other) in zip(found.named_parameters(), expected.named_parameters(), strict=True):
        torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-4, atol=1e-6, msg=name)


@KINDS
def test_lightning_takes_the_same_steps_as_a_plain_loop(kind: str, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="pip install algoformer[conformance]")
    model, _ = built(kind)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def training_step(self, batch: Any, number: int) -> Tensor:
            return loss_of(self.inner(*batch))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    batches = [inputs(kind, seed=step) for step in range(3)]
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(batches, batch_size=None))
    assert_same_weights(model, plain_training(kind, 3))


@KINDS
def test_accelerate_takes_the_same_steps_as_a_plain_loop(kind: str) -> None:
    accelerate = pytest.importorskip("accelerate", reason="pip install algoformer[hf]")
    model, _ = built(kind)
    accelerator = accelerate.Accelerator(cpu=True)
    prepared, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward(loss_of(prepared(*inputs(kind, seed=step))))
        optimizer.step()
    assert_same_weights(accelerator.unwrap_model(prepared), plain_training(kind, 3))


class ForTrainer(nn.Module):
    """What the Trainer of transformers needs: keywords in, a loss out."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, one: Tensor, two: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": loss_of(self.inner(one) if two is None else self.inner(one, two))}


@KINDS
def test_the_trainer_of_transformers_takes_the_same_steps_as_a_plain_loop(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install algoformer[hf]")
    model, _ = built(kind)
    rows = [
        dict(zip(("one", "two"), values, strict=False))
        for step in range(3)
        for values in zip(*inputs(kind, seed=step), strict=True)
    ]

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_: Any) -> None:
            return None

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=4, max_steps=3, learning_rate=0.1, use_cpu=True,
        lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], save_strategy="no", disable_tqdm=True,
        optim="sgd", logging_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    InOrder(model=ForTrainer(model), args=arguments, train_dataset=rows).train()
    assert_same_weights(model, plain_training(kind, 3))


def _ddp(rank: int, meeting: str, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for kind in ("prompts", "tokens"):
        _ddp_training(rank, kind, folder)
    torch.distributed.barrier()  # none closes a connection that the other one still reads from
    torch.distributed.destroy_process_group()


def _ddp_training(rank: int, kind: str, folder: str) -> None:
    """Take three steps on this process's half of every batch; rank zero writes the weights."""
    model, _ = built(kind)
    shared = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
    for step in range(3):
        share = tuple(value[2 * rank : 2 * rank + 2] for value in inputs(kind, seed=step))
        optimizer.zero_grad()
        loss_of(shared(*share)).backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), f"{folder}/{kind}.pt")


def test_two_processes_of_ddp_take_the_same_steps_as_one(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="pip install algoformer[hf]")
    mp.spawn(_ddp, args=(str(tmp_path / "meeting"), str(tmp_path)), nprocs=2)
    for kind in ("prompts", "tokens"):
        model, _ = built(kind)
        model.load_state_dict(torch.load(tmp_path / f"{kind}.pt", weights_only=True))
        assert_same_weights(model, plain_training(kind, 3))
