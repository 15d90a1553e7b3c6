"""Distil a textbook algorithm into a small loop, pass by pass, and identify the result.

A positive control among trained models: after pass t the loop is trained to answer like step t of the
algorithm. The student is one layer of linear attention over (x, y) tokens, applied again and again; all of
its matrices start at random. Each pass is weighted by what the teacher has left to least squares there,
which is what identification measures against.

    python scripts/distill.py newton --out results/insight/distilled-newton
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from algoformer import Prompt, Trace, Unroll, tasks
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import identify

PASSES, BATCH, LEARNING_RATE, STEP_SIZE, ALPHA = 4, 64, 5e-3, 0.25, 0.15


class LinearAttentionLoop(nn.Module):
    """A loop u_j ← A u_j + Σ_h W_h Σ_i u_i (u_i · B_h u_j)/n over the examples i."""

    def __init__(self, *, dim: int, width: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Linear(dim + 1, width, bias=False)
        self.keep = nn.Parameter(torch.eye(width))
        self.scores, self.values = (nn.Parameter(0.03 * torch.randn(heads, width, width)) for _ in range(2))
        self.read_scores = nn.Parameter(0.03 * torch.randn(width, width))
        self.read_out = nn.Parameter(0.1 * torch.randn(2, width))

    def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the answers to the last question after each pass."""
        count = prompt.reads[-1] // 2
        inputs, labels = prompt.part(0)[:, : count + 1], prompt.part(1)[:, :count, :1]
        labels = torch.cat([labels, torch.zeros_like(inputs[:, :1, :1])], dim=1)  # the question has none
        stream, answers = self.embed(torch.cat([inputs, labels], dim=-1)), []
        for _ in range(unroll.steps):
            shown = stream[:, :count]
            weights = (shown[:, None] @ self.scores) @ stream.mT[:, None] / count
            read = weights.mT @ (shown[:, None] @ self.values)
            stream = stream @ self.keep + read.sum(1)
            answers.append(self._answer(stream, count))
        found = torch.stack(answers)[unroll.first_step - 1 :]
        return Trace(predictions=found[:, :, None, None], first_step=unroll.first_step)

    def _answer(self, stream: Tensor, count: int) -> Tensor:
        shown, question = stream[:, :count], stream[:, count]
        weights = (shown @ (question @ self.read_scores.mT)[..., None])[..., 0] / count
        return question @ self.read_out[0] + (weights * (shown @ self.read_out[1])).sum(-1)


def teacher_weights(teacher: str, gram: Tensor, cross: Tensor) -> Iterator[Tensor]:
    """Yield the teacher's weights after each step, from S = XᵀX/n and Xᵀy/n."""
    weights, inverse = torch.zeros_like(cross), ALPHA * torch.eye(gram.shape[-1]).expand_as(gram)
    while True:
        if teacher == "newton":
            inverse = 2 * inverse - inverse @ gram @ inverse
            weights = inverse @ cross
        else:
            weights = weights - STEP_SIZE * (gram @ weights - cross)
        yield weights


def loss_of(student: nn.Module, teacher: str, task: tasks.Task, generator: torch.Generator) -> Tensor:
    """Return the mean of log(1 + squared distance to the teacher over what it has left to least squares).

    The logarithm keeps single prompts, whose polynomials of the inputs are huge, from deciding a step.
    """
    prompt = task.sample(BATCH, generator=generator).prefix()
    count = prompt.reads[-1] // 2
    inputs, labels = prompt.part(0)[:, :count], prompt.part(1)[:, :count, :1]
    question = prompt.part(0)[:, count]
    gram, cross = inputs.mT @ inputs / count, inputs.mT @ labels / count
    solved = torch.linalg.pinv(inputs) @ labels
    steps = teacher_weights(teacher, gram, cross)
    wanted = torch.stack([next(steps) for _ in range(PASSES)])  # (pass, batch, feature, 1)
    left = (wanted - solved).square().sum((2, 3)).mean(1)
    answers = torch.einsum("tbf,bf->tb", wanted[..., 0], question)
    gap = student(prompt, Unroll(steps=PASSES)).predictions[:, :, 0, 0] - answers
    return (gap.square() / left[:, None]).log1p().mean()


def train(
    student: nn.Module, teacher: str, task: tasks.Task, *, steps: int, seed: int, keep: Path
) -> list[float]:
    """Train and return the loss, smoothed, every 500 steps; `keep` gets the weights."""
    optimizer = torch.optim.Adam(student.parameters())
    generator = torch.Generator().manual_seed(2 * seed)  # even seeds are for training
    smooth, history, start = math.nan, [], time.process_time()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / 200) * 0.5 * (1 + math.cos(math.pi * step / steps))
        loss = loss_of(student, teacher, task, generator)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 0.1)
        optimizer.step()
        value = float(loss.detach())
        smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
        if step % 500 == 0:
            history.append(smooth)
            print(f"{step}: {smooth:.2e} ({time.process_time() - start:.0f} s)", flush=True)
            torch.save(student.state_dict(), keep)
    return history


def main() -> None:
    """Train, identify, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", choices=("gradient-descent", "newton"))
    parser.add_argument("--out", type=Path, required=True, help="Folder for identification.json.")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("student.pt"), help="File for the weights.")
    chosen = parser.parse_args()
    task = tasks.LinearRegression(dim=chosen.dim, points=4 * chosen.dim + 1, noise=0.5)
    torch.manual_seed(chosen.seed)
    student = LinearAttentionLoop(dim=task.dim, width=chosen.width, heads=2)
    history = train(student, chosen.teacher, task, steps=chosen.steps, seed=chosen.seed, keep=chosen.keep)
    found = identify(student.eval().requires_grad_(False), task, steps=PASSES, prompts=96)
    options = f"--steps {chosen.steps} --dim {chosen.dim} --width {chosen.width} --seed {chosen.seed}"
    setting = {
        "command": f"python scripts/distill.py {chosen.teacher} {options} --out {chosen.out}",
        "commit": source_commit(),
        "device": "cpu",
        "torch": torch.__version__,
        "loss_every_500_steps": history,
        "teacher": chosen.teacher,
    }
    found = replace(found, setting=found.setting | setting)
    print(found)
    write_json(chosen.out / "identification.json", found.to_data())


if __name__ == "__main__":
    main()
