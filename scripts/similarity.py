"""Published similarity measures on a trained model, on least squares and on random weights.

The measure is the cosine of errors over the questions of a prompt. It is high for every method that
converges, which is why `algoformer.insight` does not use it.

    python scripts/similarity.py checkpoints/linear.safetensors --out results/insight/similarity.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

from algoformer import AlgoFormer, Unroll, algorithms
from algoformer.common.devices import source_commit
from algoformer.evaluation import evaluation_prompts
from algoformer.training import load_checkpoint

PASSES, NEWTON_STEPS, PROMPTS = 8, 24, 48


def similarity(errors: Tensor, others: Tensor) -> Tensor:
    """Return the best mean cosine over the steps of `others`, for each pass of `errors`."""
    one = errors / errors.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    two = others / others.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("tbp,kbp->tkb", one, two).mean(-1).amax(1)


@torch.no_grad()
def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    checkpoint = load_checkpoint(chosen.model)
    model, task = checkpoint.model.eval(), checkpoint.task
    assert task is not None
    torch.manual_seed(0)
    random = AlgoFormer(model.program, dim=model.dim, out=model.out, context=model.context, width=model.width)
    prompt = evaluation_prompts(task, count=PROMPTS, seed=7)
    target = prompt.targets[..., 0]

    def errors(solver: object, steps: int) -> Tensor:
        assert callable(solver)
        return solver(prompt, Unroll(steps=steps)).predictions[..., 0] - target

    newton, exact = errors(algorithms.Newton(), NEWTON_STEPS), errors(algorithms.LeastSquares(), 1)
    found, untrained = errors(model, PASSES), errors(random.eval(), PASSES)
    late = slice(25, None)
    table = {
        "trained and Newton": similarity(found[..., 1:], newton[..., 1:]),
        "trained and least squares": similarity(found[..., 1:], exact[..., 1:]),
        "random weights and Newton": similarity(untrained[..., 1:], newton[..., 1:]),
        "trained and Newton, 25 examples or more": similarity(found[..., late], newton[..., late]),
    }
    data = {name: [round(value, 4) for value in values.tolist()] for name, values in table.items()}
    setting = {
        "command": f"python scripts/similarity.py {chosen.model}",
        "commit": source_commit(),
        "device": "cpu",
        "prompts": PROMPTS,
        "seed": 7,
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(
        json.dumps({"by_pass": data, "setting": setting}, indent=1) + "\n", encoding="utf-8"
    )
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
