"""Distil a textbook algorithm into a small loop, iteration by iteration, and identify the result.

A positive control among trained models: after pass t the loop is trained to answer like step t of the
algorithm.

    python scripts/distill.py gradient-descent --out results/insight/distilled-gradient-descent.json
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch

from algoformer import AlgoFormer, Unroll, algorithms, programs, tasks
from algoformer.common.provenance import source_commit
from algoformer.insight import identify
from algoformer.trace import Solver

TEACHERS: dict[str, Solver] = {
    "gradient-descent": algorithms.GradientDescent(step_size=0.25),
    "newton": algorithms.Newton(),
}
PASSES, FIRST_QUESTION, BATCH = 5, 4, 64


def train(
    teacher: Solver, task: tasks.Task, *, steps: int, seconds: float, seed: int
) -> tuple[AlgoFormer, float, int]:
    """Return the student, its last mean squared distance to the teacher, and the steps taken."""
    torch.manual_seed(seed)
    program = programs.algoformer(heads=4, steps=PASSES)
    student = AlgoFormer(program, dim=task.dim, out=1, context=task.context, width=32)
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=0.0, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(2 * seed)  # even seeds are for training
    start, smooth, step = time.monotonic(), math.nan, 0
    for step in range(1, steps + 1):
        prompt = task.sample(BATCH, generator=generator)
        unroll = Unroll(steps=PASSES)
        with torch.no_grad():
            wanted = teacher(prompt, unroll).predictions[:, :, FIRST_QUESTION:]
        gap = student(prompt, unroll).predictions[:, :, FIRST_QUESTION:] - wanted
        share = max(step / steps, (time.monotonic() - start) / seconds)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, step / 100) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
        loss = gap.square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        value = float(loss.detach())
        smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
        if step % 200 == 0:
            print(f"step {step}: distance to the teacher {smooth:.2e}", flush=True)
        if share >= 1:
            break
    return student.eval(), smooth, step


def main() -> None:
    """Train, identify, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", choices=TEACHERS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=900.0, help="The schedule ends by then.")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    task = tasks.LinearRegression(dim=2, points=9)
    start = time.monotonic()
    student, distance, steps = train(
        TEACHERS[chosen.teacher], task, steps=chosen.steps, seconds=chosen.seconds, seed=chosen.seed
    )
    trained = time.monotonic() - start
    found = identify(student, task, steps=PASSES, prompts=192)
    print(found)
    setting = {
        "command": f"python scripts/distill.py {chosen.teacher} --steps {chosen.steps} --seed {chosen.seed}",
        "commit": source_commit(),
        "device": "cpu",
        "torch": torch.__version__,
        "steps": steps,
        "training_seconds": round(trained, 1),
        "distance_to_teacher": distance,
        "teacher": chosen.teacher,
    }
    data = found.to_data()
    data["setting"] |= setting
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
