"""ONNX files whose loop is a `Loop` node, run by onnxruntime."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from algoformer import AlgoFormer, Layers, Loop, Parallel, Program, Unroll, programs, tasks
from algoformer.language import TokenModel
from algoformer.onnx import to_onnx

onnx = pytest.importorskip("onnx", reason="pip install algoformer[conformance]")
runtime = pytest.importorskip("onnxruntime", reason="pip install algoformer[conformance]")
pytest.importorskip("onnxscript", reason="pip install algoformer[conformance]")

pytestmark = pytest.mark.usefixtures("as_a_user")  # types are checked by code that the exporter cannot trace
TASK = tasks.LinearRegression(dim=3, points=6)
DEPTHS = (3, 7, 50)


def shaken(model: Any) -> Any:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model.eval()


def prompts_model(program: Program, **options: Any) -> AlgoFormer:
    torch.manual_seed(0)
    return shaken(AlgoFormer(program, dim=3, out=1, context=TASK.context, width=16, **options))


def token_model(program: Program, **options: Any) -> TokenModel:
    torch.manual_seed(0)
    return shaken(TokenModel(program, vocabulary=40, context=24, width=16, **options))


def run(path: Path, **given: Any) -> Tensor:
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {name: torch.as_tensor(value).numpy() for name, value in given.items()})
    return torch.from_numpy(found)


def stored_numbers(graph: Any) -> Iterator[int]:
    """Yield the sizes of the tensors of a graph and of the graphs inside it."""
    for tensor in graph.initializer:
        yield int(torch.Size(tensor.dims).numel())
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "value":
                yield int(torch.Size(attribute.t.dims).numel())
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from stored_numbers(attribute.g)


def test_the_depth_of_a_model_of_prompts_is_chosen_when_the_file_runs(tmp_path: Path) -> None:
    model, path = prompts_model(programs.algoformer(heads=2, steps=4), blanks=(1, 2)), tmp_path / "model.onnx"
    to_onnx(model, path)
    for batch, steps in zip((7, 1, 3), DEPTHS, strict=True):
        prompt = TASK.sample(batch, generator=torch.Generator().manual_seed(batch))
        expected = model(prompt, Unroll(steps=steps, window=1)).final
        found = run(path, rows=prompt.rows, steps=steps)[:, list(prompt.reads)]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert [node.op_type for node in onnx.load(path).graph.node].count("Loop") == 1


LLAMA = {"heads": 4, "kv_heads": 2, "norm": "rms", "positions": "rope", "activation": "silu", "gated": True}
TOKEN_PROGRAMS = {
    "RoPE, grouped heads and a signal": Program(
        Layers(1, **LLAMA, final_norm=False),
        Loop(Layers(1, **LLAMA), steps=2, inject="concat", damp=0.5, step_signal="sinusoid"),
    ),
    "halting and a signal": Program(
        Loop(Layers(1, heads=2), steps=2, halt="act", step_signal="sinusoid"), Layers(1, heads=2)
    ),
    "two states": programs.hrm_text(1, steps=2, low_steps=3, heads=2, head_width=8),
}


@pytest.mark.parametrize("name", TOKEN_PROGRAMS)
def test_the_scores_of_a_language_model_are_the_same_at_every_depth_and_length(
    name: str, tmp_path: Path
) -> None:
    tied = name == "two states"
    model, path = token_model(TOKEN_PROGRAMS[name], tied=tied).train(), tmp_path / "model.onnx"
    to_onnx(model, path)
    assert model.training
    for length, steps in zip((24, 5, 9), DEPTHS, strict=True):
        ids = torch.randint(40, (length % 4 + 1, length), generator=torch.Generator().manual_seed(1))
        expected = model.eval()(ids, Unroll(steps=steps, window=1))[0]
        torch.testing.assert_close(run(path, input_ids=ids, steps=steps), expected, rtol=0, atol=1e-4)
    numbers = sum(weight.numel() for weight in model.parameters())
    assert sum(stored_numbers(onnx.load(path).graph)) < numbers + 200  # every weight is stored once


def test_a_program_without_a_loop_has_no_input_for_its_depth(tmp_path: Path) -> None:
    model, path = token_model(programs.standard(1, heads=2)), tmp_path / "model.onnx"
    to_onnx(model, path)
    ids = torch.randint(40, (3, 7))
    torch.testing.assert_close(run(path, input_ids=ids), model(ids)[0], rtol=0, atol=1e-4)


def test_what_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    loop = Program(Parallel(Loop(Layers(1, heads=2), steps=2), Layers(1, heads=2)))
    for model, message in (
        (torch.nn.Linear(2, 2), "to_onnx writes an AlgoFormer or a TokenModel, got Linear"),
        (token_model(programs.standard(1, heads=2), prefix_lm=True), "was built with prefix_lm=True"),
        (prompts_model(loop), "a program whose last looping part is a Loop of its own"),
    ):
        with pytest.raises(ValueError, match=message):
            to_onnx(model, tmp_path / "model.onnx")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
