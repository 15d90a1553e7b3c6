"""Muon for all matrices together: those of one shape are orthogonalized in the same launches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from algoformer.training.average import move_towards

MOMENTUM = 0.95
"""Nesterov momentum, the value of its authors."""

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton–Schulz iteration: steep at zero, so that five take singular values near 1."""

ITERATIONS = 5
LEAST_NORM = 1e-7


class TensorRateMuon(torch.optim.Muon):
    """PyTorch's Muon with a learning rate that is read from a tensor at every step.

    PyTorch's own takes the rate as a number, which a captured graph would keep for ever, and one matrix after
    the other: 25 launches for each, which for small models takes longer than forward and backward. Updates
    are scaled to the size of Adam's (0.2 √max(rows, columns) times an orthogonal matrix, arXiv 2502.16982),
    so that one learning rate suits both.
    """

    def __init__(self, matrices: Sequence[Tensor], *, rate: Tensor, weight_decay: float) -> None:
        super().__init__(
            matrices, lr=1.0, weight_decay=weight_decay, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"
        )
        self.matrices, self.rate, self.weight_decay = list(matrices), rate, weight_decay
        self.sharded = any(hasattr(matrix, "placements") for matrix in matrices)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient by the rate that the tensor holds now."""
        if self.sharded:
            self._step_of_pieces()
            return
        grads = {matrix: matrix.grad for matrix in self.matrices if matrix.grad is not None}
        if not grads:
            return
        moved = list(grads)
        buffers = [self._momentum(matrix) for matrix in moved]
        torch._foreach_lerp_(buffers, list(grads.values()), 1 - MOMENTUM)
        updates = orthogonalized(torch._foreach_lerp(list(grads.values()), buffers, MOMENTUM))
        torch._foreach_mul_(updates, [0.2 * math.sqrt(max(matrix.shape)) for matrix in moved])
        torch._foreach_mul_(updates, self.rate)
        if self.weight_decay:
            torch._foreach_mul_(moved, 1 - self.rate * self.weight_decay)
        torch._foreach_sub_(moved, updates)

    def _momentum(self, matrix: Tensor) -> Tensor:
        kept: dict[str, Tensor] = self.state[matrix]
        if "momentum_buffer" not in kept:
            kept["momentum_buffer"] = torch.zeros_like(matrix)
        return kept["momentum_buffer"]

    def _step_of_pieces(self) -> None:
        """The same where each process has a piece of every matrix: PyTorch's own step knows how.

        It is linear in the rate, decay included: take the one of rate 1, and go that share of the way.
        """
        moved = [matrix.clone() for matrix in self.matrices]
        super().step()
        move_towards(moved, self.matrices, self.rate)
        # piece by piece: sharded tensors have no copy of many at once
        for matrix, target in zip(self.matrices, moved, strict=True):
            matrix.to_local().copy_(target.to_local())  # type: ignore[attr-defined]


def orthogonalized(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Each matrix with its singular values made about 1 (0.7 to 1.2), in the order given.

    Matrices of one shape, or of its transpose, are stacked. Products are in bf16 on CUDA; a CPU, where that
    takes ten times as long, keeps the matrices' own precision.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for place, matrix in enumerate(matrices):
        rows, columns = sorted(matrix.shape)
        alike.setdefault((rows, columns), []).append(place)
    found = list(matrices)
    for places in alike.values():
        flat = [matrices[place].T if _is_tall(matrices[place]) else matrices[place] for place in places]
        for place, one in zip(places, _newton_schulz(torch.stack(flat)), strict=True):
            # laid out as the matrices are: then many are moved in one launch
            found[place] = torch.empty_like(matrices[place])
            found[place].copy_(one.T if _is_tall(matrices[place]) else one)
    return found


def _is_tall(matrix: Tensor) -> bool:
    return matrix.shape[0] > matrix.shape[1]


def _newton_schulz(stack: Tensor) -> Tensor:
    """X ← aX + (bA + cA²)X with A = XXᵀ, for each matrix X of a stack."""
    first, third, fifth = COEFFICIENTS
    if stack.is_cuda:
        stack = stack.bfloat16()
    # the largest singular value is at most 1 then
    stack = stack / torch.linalg.vector_norm(stack, dim=(1, 2), keepdim=True).clamp(min=LEAST_NORM)
    for _ in range(ITERATIONS):
        gram = stack @ stack.mT
        stack = torch.baddbmm(
            stack, torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth), stack, beta=first
        )
    return stack
