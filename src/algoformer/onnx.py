"""Models as ONNX files whose loop is a `Loop` node and whose number of steps is an input.

    to_onnx(model, "model.onnx")

needs the extra `onnx`. What runs the file needs neither this library nor PyTorch.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

from algoformer.common.files import write_atomically
from algoformer.extras import require
from algoformer.language.token_model import TokenModel
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.parts import LoopModule, ProgramModule
from algoformer.nn import LearnedPositions

LARGEST = 2**31 - 2**20
"""The most bytes that one ONNX file can hold, with room for the graph."""


class LoopedGraph(nn.Module):
    """A model as a function of its input and the number of steps, with a loop that tracers can see."""

    def __init__(self, model: AlgoFormer | TokenModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: Tensor, steps: Tensor | None = None) -> Tensor:
        """Return the answers at every row, or the scores of the token after each token."""
        if isinstance(self.model, AlgoFormer):
            stream = run_program(self.model.body, self.model.read_in(given), steps)
            before = self.model.blanks[0]
            return self.model.read_out(stream[:, before : before + given.shape[1]])
        trunk = self.model.trunk
        if not self.model.tied:
            return self.model.scores(trunk.finish(run_program(trunk.body, trunk.embedding(given), steps)))
        # a product is stored with its weight transposed, so the embedding is read in that form, too
        table = trunk.embedding.weight.T
        stream = table.index_select(1, given.flatten()).T.unflatten(0, given.shape).contiguous()
        return trunk.finish(run_program(trunk.body, stream, steps)) @ table


def run_program(body: ProgramModule, stream: Tensor, steps: Tensor | None) -> Tensor:
    """Run a program whose traced loop runs `steps` times; None for a program without a loop."""
    if body.traced is None or steps is None:
        return body(stream)
    loop, _ = body.traced_loop()
    entry = body.before(stream)

    def unfinished(iteration: Tensor, state: Tensor) -> Tensor:
        return iteration < steps

    def iterate(iteration: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if loop.settings.step_signal != "none":
            state = state + loop.signal(iteration[None] + 1).to(state)
        return iteration + 1, loop.step(state, entry)

    first = torch.zeros((), dtype=torch.int64, device=stream.device)
    _, state = while_loop(unfinished, iterate, (first, loop.initial_state(entry)))
    return body.after(loop.visible(state)[None])[0]


def to_onnx(model: AlgoFormer | TokenModel, path: str | Path) -> None:
    """Write a model as an ONNX file with dynamic sizes, whose number of steps is chosen when it runs.

    The inputs are `rows` (batch, row, dim) of a model of prompts or `input_ids` (batch, token) of a language
    model, and `steps`, a whole number of at least 1, if the program has a loop. The output is `answers`
    (batch, row, out), one for each row, of which those at `prompt.reads` answer questions, or `logits`
    (batch, token, vocabulary). Language models read no mask: padding stands at the end. The traced loop is a
    `Loop` node, and loops before it or inside it are written out; weights are stored once.

    Raises:
        ValueError: the model cannot be written; the message says why.
        ModuleNotFoundError: the extra `onnx` is not installed.
    """
    _check(model)
    for package in ("onnx", "onnxscript"):
        require(package, extra="onnx")
    passes = require("onnx_ir.passes.common", extra="onnx")
    prompts, looped, training = isinstance(model, AlgoFormer), model.body.traced is not None, model.training
    steps = {"steps": torch.tensor(2)} if looped else {}
    with _quiet():
        exported = torch.onnx.export(
            LoopedGraph(model).eval(),
            (_example(model), *steps.values()),
            dynamo=True,
            input_names=["rows" if prompts else "input_ids", *steps],
            output_names=["answers" if prompts else "logits"],
            dynamic_shapes={"given": _dynamic(model), **{name: {} for name in steps}},
            verbose=False,
        )
    model.train(training)
    assert exported is not None
    passes.DeduplicateInitializersPass(size_limit=LARGEST)(exported.model)
    passes.ClearMetadataAndDocStringPass()(exported.model)  # the lines of Python behind every node
    write_atomically(Path(path), lambda temporary: exported.save(str(temporary)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter says about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _check(model: Any) -> None:
    if not isinstance(model, AlgoFormer | TokenModel):
        raise ValueError(f"to_onnx writes an AlgoFormer or a TokenModel, got {type(model).__name__}")
    if isinstance(model, TokenModel) and model.prefix_lm:
        raise ValueError("to_onnx writes causal models; this one was built with prefix_lm=True")
    body = model.body
    if body.traced is not None and not isinstance(body.parts[body.traced], LoopModule):
        raise ValueError("to_onnx needs a program whose last looping part is a Loop of its own")
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if size > LARGEST:
        raise ValueError(f"an ONNX file holds at most 2 GB, the weights have {size / 1e9:.1f} GB; use half()")


def _example(model: AlgoFormer | TokenModel) -> Tensor:
    weight = next(model.parameters())
    if isinstance(model, AlgoFormer):
        return torch.zeros(2, model.context, model.dim, dtype=weight.dtype, device=weight.device)
    return torch.zeros(2, max(2, model.context // 2), dtype=torch.int64, device=weight.device)


def _dynamic(model: AlgoFormer | TokenModel) -> dict[int, Any]:
    batch = torch.export.Dim("batch", min=1, max=2**20)
    if isinstance(model, AlgoFormer) and (model.exact_context or model.row_maps > 1):
        return {0: batch}
    limited = any(isinstance(module, LearnedPositions) for module in model.modules())
    return {0: batch, 1: torch.export.Dim("length", min=2, max=model.context if limited else 2**20)}
