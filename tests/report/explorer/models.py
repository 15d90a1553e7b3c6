"""Small models with random weights, and what PyTorch answers."""

import torch
from torch import Tensor

from algoformer.model import AlgoFormer, Program
from algoformer.prompt import Prompt
from algoformer.trace import Unroll


def random_model(program: Program, *, seed: int = 0, std: float = 0.4, **sizes: object) -> AlgoFormer:
    settings = {"dim": 1, "out": 1, "context": 9, "width": 8} | sizes
    model = AlgoFormer(program, **settings).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(std * torch.randn(weight.shape, generator=generator))
    return model


@torch.no_grad()
def answers(model: AlgoFormer, rows: list[list[float]], reads: list[int], steps: int) -> Tensor:
    """What PyTorch answers after each step, (step, question · number)."""
    dtype = model.read_out.weight.dtype
    prompt = Prompt(
        rows=torch.tensor([rows], dtype=dtype),
        targets=torch.zeros(1, len(reads), model.out, dtype=dtype),
        reads=tuple(reads),
        parts=model.row_maps,
    )
    return model(prompt, Unroll(steps=steps)).predictions[:, 0].flatten(1)


def relative_error(found: list[list[float]], expected: Tensor) -> float:
    """The largest difference, relative to the largest answer."""
    scale = expected.abs().max().item()
    assert scale > 0
    return (torch.tensor(found, dtype=torch.float64) - expected.double()).abs().max().item() / scale
