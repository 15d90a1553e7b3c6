"""Models whose matrix products are in bf16, and what stays in single precision."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig
from algoformer.data.protocol import Data, Loss
from algoformer.model.algoformer import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll


class RoundedBody(nn.Module):
    """A model that is run with its body's weights in bf16; a subclass's `forward` says how.

    Every weight is rounded once in a step, before the first iteration and with its gradient tracked, and
    all iterations use that copy. Autocast's own cache would keep the copies that iterations without a
    graph make, and the gradients of all later ones would silently be lost: switch it off in `forward`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        inside = {id(part) for part in cast(nn.Module, model.body).modules() if isinstance(part, nn.Linear)}
        linears = [(name, part) for name, part in model.named_modules() if id(part) in inside]
        self.names = [f"model.{name}.{kind}" for name, part in linears for kind, _ in part.named_parameters()]

    def call(self, *arguments: Any) -> Any:
        """Return what `forward` makes of the arguments, with rounded weights in the body."""
        weights = [self.get_parameter(name) for name in self.names]
        rounded = cast(tuple[Tensor, ...], RoundWeights.apply(*weights))
        copies = dict(zip(self.names, rounded, strict=True))
        return torch.func.functional_call(self, copies, arguments)


class HalfBody(RoundedBody):
    """A model whose body multiplies in bf16. Weights, stream, norms, read-in and read-out stay fp32."""

    model: AlgoFormer

    def answer(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the model's answers, with rounded weights in its body."""
        return cast(Trace, self.call(prompt, unroll))

    def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Run the model; to be called by `answer`, which puts the rounded weights in place."""
        model = self.model
        stream = model.read_in(prompt.rows)
        with torch.autocast(stream.device.type, dtype=torch.bfloat16, cache_enabled=False):
            states, kept, halting = model.run_body(stream, prompt, unroll)
        predictions = model.read_out(states.float())
        return Trace(predictions=predictions, first_step=unroll.first_step, states=kept, halting=halting)


class RoundWeights(torch.autograd.Function):
    """fp32 weights to bf16 and their gradients back, all of them in one launch each way."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        """Copies in bf16."""
        return _all_to(weights, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Gradients in fp32."""
        return _all_to(gradients, torch.float32)


def _all_to(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty(tensor.shape, dtype=dtype, device=tensor.device) for tensor in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)


class HalfLoss(RoundedBody):
    """The loss of a model whose products are in bf16; weights, residual stream, norms and loss stay fp32."""

    def __init__(self, model: nn.Module, data: Data, training: TrainConfig) -> None:
        super().__init__(model)
        self.data, self.training_config = data, training

    def forward(self, batch: Any, unroll: Unroll) -> Loss:
        """Compute the loss; to be called by `call`, which puts the rounded weights in place."""
        device = next(self.model.parameters()).device.type
        with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False):
            return self.data.loss(self.model, batch, unroll, self.training_config)
