"""Which rule moves which weight, and all that the rules remember between two steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig
from algoformer.training.muon import TensorRateMuon


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """The weights of the linear maps in the model's `body`: what is decayed, and what Muon moves.

    Biases, norms, gates and positions are not among them, nor are read-in and read-out: these hold what a
    row or an answer looks like, as embeddings do, and are customarily neither decayed nor orthogonalized.
    """
    body: nn.Module = model.body  # type: ignore[assignment]
    linears = [part for part in body.modules() if isinstance(part, nn.Linear)]
    return list(dict.fromkeys(linear.weight for linear in linears))


class ModelOptimizer:
    """The optimizer of a model as its config asks for: Adam, AdamW, or Muon beside AdamW.

    "adamw" decays the hidden matrices and nothing else. "muon" moves those matrices by Muon, with decay,
    and all other weights by AdamW, without. Nothing in a step reads a value back, and on CUDA the learning
    rate lives in a tensor, so that a captured step follows it.
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
        """The state of the rules for each weight, by name; nothing before the first step."""
        return {weight: kept for rule in self._rules() for weight, kept in rule.state.items()}

    def set_rate(self, rate: float) -> None:
        """Take the steps from now on with this learning rate."""
        self.rate.fill_(rate)
        for group in self.adam.param_groups:
            if not isinstance(group["lr"], Tensor):
                group["lr"] = rate

    def zero_grad(self) -> None:
        """Forget the gradients of all weights."""
        # not the rules' own: they look up how, which for small models on a CPU takes longer than doing it
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        """Move all weights along their gradients."""
        for rule in self._rules():
            rule.step()

    def state_like(self, weight: Tensor) -> dict[str, Tensor]:
        """Tensors of the shapes and types of what is remembered for a weight once a step was taken."""
        if self._rule(weight) is self.muon:
            return {"momentum_buffer": weight}
        return {"step": torch.zeros((), device=weight.device), "exp_avg": weight, "exp_avg_sq": weight}

    def load_state(self, weight: Tensor, kept: Mapping[str, Tensor]) -> None:
        """Remember this for a weight, as if the steps before had been taken here."""
        self._rule(weight).state[weight] = dict(kept)

    def _rule(self, weight: Tensor) -> torch.optim.Optimizer:
        if self.muon is not None and any(weight is matrix for matrix in self.muon.matrices):
            return self.muon
        return self.adam

    def _rules(self) -> list[torch.optim.Optimizer]:
        return [self.adam] if self.muon is None else [self.adam, self.muon]
