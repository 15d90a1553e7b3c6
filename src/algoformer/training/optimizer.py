"""Optimizers: Adam, AdamW and Muon, and the moving average of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig
from algoformer.model.parts import LoopModule
from algoformer.training.config import Experiment, cuts_gradient, sees_input_once

MOMENTUM = 0.95
"""Nesterov momentum, the value of its authors."""

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton–Schulz iteration: steep at zero, so that five take singular values near 1."""

ITERATIONS = 5
LEAST_NORM = 1e-7


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """Return the weights of the linear maps in the model's `body`: those that decay, and that Muon moves.

    Biases, norms, gates and positions are not among them. Neither are read-in and read-out, which are
    embeddings in effect: these are customarily neither decayed nor orthogonalized.
    """
    body: nn.Module = model.body  # type: ignore[assignment]
    linears = [part for part in body.modules() if isinstance(part, nn.Linear)]
    return list(dict.fromkeys(linear.weight for linear in linears))


def start_weights(model: nn.Module) -> list[Tensor]:
    """Return the weights of learned initial states of loops: a step may not reach them."""
    loops = [part for part in model.modules() if isinstance(part, LoopModule)]
    starts = [getattr(loop, name, None) for loop in loops for name in ("start", "low_start")]
    return [weight for start in starts if isinstance(start, nn.Module) for weight in start.parameters()]


def may_miss_weights(model: nn.Module, experiment: Experiment) -> bool:
    """Return whether the loss of some steps does not depend on all weights."""
    program, training = experiment.program, experiment.training
    if training.loss == "gate":
        return True
    skips_start = training.segments > 1 or cuts_gradient(program, training)
    return skips_start and (bool(start_weights(model)) or sees_input_once(program))


class ModelOptimizer:
    """The optimizer of a model as its config asks for: Adam, AdamW, or Muon beside AdamW.

    "adamw" decays the hidden matrices and nothing else. "muon" moves those matrices by Muon, with decay,
    and all other weights by AdamW, without. Nothing in a step waits for the device, and on CUDA the learning
    rate is a tensor, so that a captured step follows it.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        device = next(model.parameters()).device
        on_cuda = device.type == "cuda"
        # single precision whatever the weights are: the fused kernels read no other
        self.rate = torch.tensor(config.lr, device=device, dtype=torch.float32)
        self.weights = list(model.parameters())
        matrices = hidden_matrices(model)
        inside = {id(matrix) for matrix in matrices}
        others = [weight for weight in model.parameters() if id(weight) not in inside]
        common: dict[str, Any] = {
            "lr": self.rate if on_cuda else config.lr,
            "betas": config.betas,
            "fused": True,
            "capturable": on_cuda,
        }
        self.muon: TensorRateMuon | None = None
        if config.optimizer == "adam":
            self.adam = torch.optim.Adam(model.parameters(), **common)
            return
        groups: list[dict[str, Any]] = [{"params": others, "weight_decay": 0.0}]
        if config.optimizer == "adamw":
            groups.append({"params": matrices, "weight_decay": config.weight_decay})
        elif not matrices:
            raise ValueError("optimizer 'muon' moves the body's matrices, and this one has none; use 'adamw'")
        else:
            self.muon = TensorRateMuon(matrices, rate=self.rate, weight_decay=config.weight_decay)
        self.adam = torch.optim.AdamW(groups, **common)

    @property
    def state(self) -> dict[Tensor, dict[str, Tensor]]:
        """The optimizer state of each weight, by name; empty before the first step."""
        return {weight: kept for rule in self._rules() for weight, kept in rule.state.items()}

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of all further steps."""
        self.rate.fill_(rate)
        for group in self.adam.param_groups:
            if not isinstance(group["lr"], Tensor):
                group["lr"] = rate

    def zero_grad(self) -> None:
        """Drop the gradients of all weights."""
        # not PyTorch's own zero_grad, which for small models on a CPU takes longer than this loop
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        """Move all weights along their gradients."""
        for rule in self._rules():
            rule.step()

    def state_like(self, weight: Tensor) -> dict[str, Tensor]:
        """Return tensors with the shapes and types of the optimizer state of a weight after a step."""
        if self._rule(weight) is self.muon:
            return {"momentum_buffer": weight}
        return {"step": torch.zeros((), device=weight.device), "exp_avg": weight, "exp_avg_sq": weight}

    def load_state(self, weight: Tensor, kept: Mapping[str, Tensor]) -> None:
        """Set the optimizer state of a weight, as a checkpoint has it."""
        self._rule(weight).state[weight] = dict(kept)

    def _rule(self, weight: Tensor) -> torch.optim.Optimizer:
        if self.muon is not None and any(weight is matrix for matrix in self.muon.matrices):
            return self.muon
        return self.adam

    def _rules(self) -> list[torch.optim.Optimizer]:
        return [self.adam] if self.muon is None else [self.adam, self.muon]


@torch.no_grad()
def move_towards(values: Sequence[Tensor], targets: Sequence[Tensor], share: Tensor) -> None:
    """Move values by a share of the distance to their targets, in three launches for all of them together.

    The share stays on the device: a captured graph reads whatever it holds at the time.

    >>> values = [torch.tensor([0.0, 10.0])]
    >>> move_towards(values, [torch.tensor([4.0, 10.0])], torch.tensor(0.25))
    >>> values
    [tensor([ 1., 10.])]
    """
    ways = torch._foreach_sub(list(targets), list(values))
    torch._foreach_mul_(ways, share)
    torch._foreach_add_(list(values), ways)


class Average:
    """An exponential moving average of a model's weights, as a model of its own.

    After each step the average goes max(1 - decay, 9 / (10 + t)) of its way to the weights, t being the
    steps before. So a decay of 0.999 looks back about 1000 steps, but never over more than the last tenth
    or so of those there were: after n steps the first weights count for 1 / C(n + 9, 9), less than a
    millionth at n = 15, where they would count for 0.985 otherwise.
    """

    def __init__(
        self, model: nn.Module, decay: float, copied: Callable[[nn.Module], nn.Module] = copy.deepcopy
    ) -> None:
        self.model = copied(model)
        self.decay = decay
        self.updates = torch.zeros((), dtype=torch.int64, device=next(model.parameters()).device)

    def update(self, model: nn.Module) -> None:
        """Take the weights after a step into the average; nothing waits for the device."""
        share = (9 / (10 + self.updates)).clamp_(min=1 - self.decay)
        move_towards(list(self.model.parameters()), list(model.parameters()), share)
        self.updates.add_(1)

    def tensors(self) -> list[Tensor]:
        """Return every tensor that an update changes."""
        return [*self.model.parameters(), self.updates]


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
        """Take the same step where each process has a piece of every matrix, by PyTorch's own implementation.

        The step is linear in the rate, decay included: take it with rate 1, and keep that share of it.
        """
        moved = [matrix.clone() for matrix in self.matrices]
        super().step()
        move_towards(moved, self.matrices, self.rate)
        # piece by piece: sharded tensors have no copy of many at once
        for matrix, target in zip(self.matrices, moved, strict=True):
            matrix.to_local().copy_(target.to_local())  # type: ignore[attr-defined]


def orthogonalized(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return each matrix with its singular values made about 1 (0.7 to 1.2), in the order given.

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
    """Iterate X ← aX + (bA + cA²)X with A = XXᵀ for each matrix X of a stack."""
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
