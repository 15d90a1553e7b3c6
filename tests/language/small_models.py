"""Small token models with lively weights, and batches of unequal length."""

from typing import Any

import torch
from torch import Tensor

from algoformer import Layers, Loop, Parallel, Program, TwoStates, programs
from algoformer.language import TokenModel

VOCABULARY = 13

PROGRAMS: dict[str, Program] = {
    "standard": programs.standard(3, heads=2),
    "looped": programs.looped(heads=2, steps=4),
    "algoformer": programs.algoformer(heads=2, steps=4),
    "algoformer_gate": programs.algoformer(heads=2, steps=3, inject="gate"),
    "nested": programs.nested(heads=2, steps=2, inner_steps=3),
    "two_loops": programs.two_loops(heads=2, first_steps=2, steps=3),
    "parallel": Program(
        Layers(1, heads=2),
        Parallel(Loop(Layers(1, heads=4), 3), [Loop(Layers(1, heads=2), 2), Layers(1, heads=1)]),
        Layers(1, heads=2),
    ),
    "two_states": Program(
        TwoStates((Loop(Layers(1, heads=2), 2, name="low"), Layers(1, heads=2, name="high")), 3)
    ),
    "step_signal": Program(Loop(Layers(1, heads=2), 4, step_signal="sinusoid"), Layers(1, heads=2)),
    "plain_branches": Program(Parallel(Layers(1, heads=2), Layers(2, heads=2)), Loop(Layers(1, heads=2), 2)),
}


def lively(model: torch.nn.Module, scale: float = 0.1) -> None:
    """Weights large enough that every token matters for every score."""
    numbers = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=numbers, dtype=torch.float64)
        parameter.data = parameter.data + (scale * noise).to(parameter.dtype)


def token_model(program: Program, *, double: bool = False, context: int = 24, **options: Any) -> TokenModel:
    torch.manual_seed(0)
    model = TokenModel(program, vocabulary=VOCABULARY, context=context, width=8, **options).eval()
    if double:
        model = model.double()
    lively(model, scale=0.3)
    return model


def padded(lengths: tuple[int, ...], side: str, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sequences of these lengths, padded left or right with whatever; which tokens are real."""
    numbers = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    ids = torch.randint(VOCABULARY, (len(lengths), longest), generator=numbers)
    places, counts = torch.arange(longest), torch.tensor(lengths)[:, None]
    return ids, places >= longest - counts if side == "left" else places < counts


def alone(ids: Tensor, real: Tensor, row: int) -> Tensor:
    """One sequence without its padding."""
    return ids[row][real[row]][None]
