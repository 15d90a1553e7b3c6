"""A model's training step through hand-written kernels: bf16 products, gradients of weights once per step."""

from __future__ import annotations

import importlib.util
import math
from types import ModuleType

import torch
from torch import Tensor, nn

from algoformer.kernels import operations
from algoformer.kernels.body import iterate
from algoformer.kernels.operations import Heads
from algoformer.kernels.sizes import Plan
from algoformer.kernels.weights import PARAMETERS
from algoformer.model.algoformer import AlgoFormer, row_index
from algoformer.model.injections import INJECTIONS
from algoformer.model.parts import LayersModule, LoopModule
from algoformer.model.program import Layers
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS, Attention, FeedForward, Layer, LearnedPositions
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll

WIDTHS = (64, 128, 256)
"""Streams whose whole rows fit into a block."""

HEAD_WIDTHS = (16, 32, 64)
"""Heads that the attention kernels know."""

HIDDEN_MULTIPLE = 128
"""Feed-forward networks are cut into blocks of this many hidden units."""


def why_not_fused(model: AlgoFormer) -> str | None:
    """Return what about the model the kernels do not cover; None if they cover all of it."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if model.width not in WIDTHS:
        return f"the stream's width is {model.width}, not one of {', '.join(map(str, WIDTHS))}"
    for part in model.body.parts:
        if isinstance(part, LoopModule):
            if not INJECTIONS[part.settings.inject].fused or part.settings.start_kind != "zeros":
                return f"there is no kernel for a loop with inject {part.settings.inject!r}"
            if part.settings.damp != 1 or part.settings.step_signal != "none":
                return "there is no kernel for a loop with damping or a step signal"
            if part.settings.halt != "none":
                return f"there is no kernel for a loop with halt {part.settings.halt!r}"
            if len(part.body.parts) != 1 or not isinstance(part.body.parts[0], LayersModule):
                return "a loop's body is more than one module of layers"
        module = part.body.parts[0] if isinstance(part, LoopModule) else part
        if not isinstance(module, LayersModule):
            return "the program has parallel branches"
        if module.final_norm is None or not module.layers:
            return "a module has no layers or no final norm"
        for reason in (_why_not_words(module.settings), *map(_why_not_layer, module.layers)):
            if reason is not None:
                return reason
    return _why_not_untouched(model.body)


UNTOUCHED = (nn.Linear, nn.LayerNorm, nn.ModuleList, Layer, Attention, FeedForward, LearnedPositions)
"""Classes whose modules the kernels replace; of another class, or with hooks, a module must be called."""


def _why_not_untouched(body: nn.Module) -> str | None:
    for name, module in body.named_modules():
        ours = type(module).__module__.startswith("algoformer.model.") or type(module) in UNTOUCHED
        if not ours:
            return f"{name} is a {type(module).__name__}, which the kernels would not call"
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            return f"{name} has hooks, which the kernels would not call"
    return None


def _why_not_words(layers: Layers) -> str | None:
    for table in (NORMS, POSITIONS, ACTIVATIONS):
        word = getattr(layers, table.kind)
        if not table[word].fused:
            return f"there is no kernel for {table.kind} {word!r}"
    if layers.bias is not True:
        return "a layer has no bias"
    plain = Layers(1)
    for field in ("norm_at", "norm_eps", "kv_heads", "qk_norm", "output_gate", "gated"):
        if getattr(layers, field) != getattr(plain, field):
            return f"there is no kernel for {field} {getattr(layers, field)!r}"
    return None


def _why_not_layer(layer: Layer) -> str | None:
    attention, network = layer.attention, layer.feedforward
    if type(layer) is not Layer or type(attention) is not Attention or type(network) is not FeedForward:
        return "a layer is not the pre-norm layer of this library"
    if layer.dropout or attention.dropout:
        return "a layer has dropout"
    if attention.head_width not in HEAD_WIDTHS or not math.isclose(
        attention.scale, attention.head_width**-0.5
    ):
        return f"heads are {attention.head_width} wide, not one of {', '.join(map(str, HEAD_WIDTHS))}"
    if network.up.out_features % HIDDEN_MULTIPLE or attention.output.in_features % HEAD_WIDTHS[-1]:
        return "a layer's hidden width is not a multiple of what a block holds"
    return None


class FusedBody:
    """Answers like `HalfBody`, with every module of layers and every loop as one hand-written function.

    The last module computes only the rows that are read, from its last layer's attention on.
    """

    def __init__(
        self, model: AlgoFormer, *, dtype: torch.dtype = torch.bfloat16, operations: ModuleType | None = None
    ) -> None:
        reason = why_not_fused(model)
        if reason is not None:
            raise ValueError(f"engine 'fused' does not fit: {reason}; choose 'compiled' or 'auto'")
        self.model, self.dtype = model, dtype
        self.operations = operations or _kernels(next(model.parameters()).device)

    def answer(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the model's answers after each iteration in the unroll's window."""
        if unroll.gradient_checkpointing:
            raise ValueError(
                "engine 'fused' keeps what gradient_checkpointing=True would drop; "
                "choose 'compiled' or 'auto'"
            )
        if unroll.inner or unroll.carry is not None or unroll.depths is not None:
            raise ValueError("engine 'fused' has no inner, carry or depths; run the model itself")
        model, body = self.model, self.model.body
        if unroll.keep or body.edits:
            raise ValueError("engine 'fused' has no hidden states to keep or edit; run the model itself")
        model.check(prompt)
        stream = model.read_in(prompt.rows)
        read_rows = row_index(prompt.reads, model.blanks[0], stream.device)
        every = torch.arange(stream.shape[1], device=stream.device)
        states: Tensor | None = None  # (window, batch, token, width) from the traced loop on
        for number, part in enumerate(body.parts):
            rows = read_rows if number + 1 == len(body.parts) else every
            if number == body.traced:
                assert isinstance(part, LoopModule)
                states = self._run(part, stream, unroll, rows=every)
                continue
            here = Unroll(steps=part.steps if isinstance(part, LoopModule) else 1, window=1)
            if states is None:
                stream = self._run(part, stream, here, rows=rows).squeeze(0)
            else:
                # one state, taken by its shape: the gradient of an index is a copy of everything
                last = self._run(part, states.flatten(0, 1), here, rows=rows).squeeze(0)
                states = last.unflatten(0, states.shape[:2])
        if states is None:
            states = stream.expand(unroll.length, *stream.shape)
        predictions = model.read_out(states)
        if body.traced == len(body.parts) - 1:
            # a loop at the end has all rows: choosing among answers moves far less than among states
            predictions = predictions.index_select(2, read_rows)
        return Trace(predictions=predictions, first_step=unroll.first_step)

    def _run(self, part: nn.Module, stream: Tensor, unroll: Unroll, *, rows: Tensor) -> Tensor:
        module = part.body.parts[0] if isinstance(part, LoopModule) else part
        assert isinstance(module, LayersModule)
        assert isinstance(module.final_norm, nn.LayerNorm)
        attention = module.layers[0].attention
        plan = Plan(
            heads=Heads(count=attention.heads, width=attention.head_width, causal=attention.causal),
            steps=unroll.steps,
            tracked=unroll.steps if unroll.grad_steps is None else unroll.grad_steps,
            window=unroll.length,
            read_rows=rows,
            dtype=self.dtype,
            operations=self.operations,
        )
        added = module.positions
        positions: Tensor | None = added.table if isinstance(added, LearnedPositions) else None
        if positions is not None and len(positions) > stream.shape[1]:
            positions = positions[: stream.shape[1]]
        layers = [[layer.get_parameter(name) for name in PARAMETERS] for layer in module.layers]
        return iterate(plan, stream, positions, (module.final_norm.weight, module.final_norm.bias), layers)


def _kernels(device: torch.device) -> ModuleType:
    if device.type != "cuda":
        return operations
    from algoformer.kernels import launch  # needs Triton

    return launch
