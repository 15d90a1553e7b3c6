"""Bodies of layers with large random weights, run by the library's modules and by hand."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor, nn

from algoformer.kernels.body import iterate
from algoformer.kernels.operations import Heads
from algoformer.kernels.sizes import Plan
from algoformer.kernels.weights import PARAMETERS
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.parts import LayersModule, LoopModule
from algoformer.model.presets import looped
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Case:
    """A loop over so many layers, and which of its states and rows are wanted."""

    layers: int
    steps: int = 1
    tracked: int = 1
    window: int = 1
    read_rows: tuple[int, ...] | None = None
    causal: bool = True
    batch: int = 2
    tokens: int = 10
    width: int = 32
    heads: int = 2

    @property
    def rows(self) -> list[int]:
        return list(range(self.tokens)) if self.read_rows is None else list(self.read_rows)


DIFFERENT = (
    Case(layers=1),
    Case(layers=1, causal=False),
    Case(layers=3, read_rows=(0, 2, 4, 9)),
    Case(layers=1, read_rows=(9,)),
    Case(layers=1, steps=4, tracked=4, window=3),
    Case(layers=2, steps=3, tracked=2, window=2, causal=False),
    Case(layers=1, steps=5, tracked=3, window=1),
)
"""One layer, several, full attention, few read_rows rows, loops with and without iterations off the tape."""


def loop_of(case: Case) -> LoopModule:
    """The same weights for the same case, large enough that every term of a gradient counts."""
    torch.manual_seed(0)
    program = looped(case.layers, steps=case.steps, heads=case.heads, causal=case.causal)
    model = AlgoFormer(program, dim=4, out=1, context=case.tokens, width=case.width)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    loop = model.body.parts[0]
    assert isinstance(loop, LoopModule)
    return loop


def by_modules(case: Case) -> tuple[Tensor, list[Tensor]]:
    """The read_rows states, and the gradients of a random sum of them, by automatic differentiation."""
    loop = loop_of(case)
    entry = entry_of(case)
    unroll = Unroll(steps=case.steps, window=case.window, grad_steps=case.tracked)
    states = loop.unroll(entry, unroll)[0][:, :, case.rows]
    return states.detach(), gradients(states, entry, loop)


def by_hand(
    case: Case, operations: ModuleType, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, list[Tensor]]:
    """The same from `kernels.body`."""
    loop = loop_of(case)
    entry = entry_of(case)
    module = loop.body.parts[0]
    assert isinstance(module, LayersModule)
    assert module.positions is not None
    assert module.final_norm is not None
    plan = Plan(
        heads=Heads(count=case.heads, width=case.width // case.heads, causal=case.causal),
        steps=case.steps,
        tracked=case.tracked,
        window=case.window,
        read_rows=torch.tensor(case.rows),
        dtype=dtype,
        operations=operations,
    )
    layers = [[layer.get_parameter(name) for name in PARAMETERS] for layer in module.layers]
    final = (module.final_norm.weight, module.final_norm.bias)
    states = iterate(plan, entry, module.positions.table, final, layers)
    return states.detach(), gradients(states, entry, loop)


def entry_of(case: Case) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(case.batch, case.tokens, case.width, generator=generator).requires_grad_()


def gradients(states: Tensor, entry: Tensor, loop: LoopModule) -> list[Tensor]:
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
    return list(torch.autograd.grad((states * weights).sum(), [entry, *loop.parameters()]))
