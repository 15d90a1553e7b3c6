"""Distil an algorithm into a loop, then identify it: a positive control among trained models.

A student is trained to answer after pass t what the algorithm answers after step t. One student is a layer of
linear attention over (x, y) tokens, u_j ← A u_j + Σ_h W_h Σ_i u_i (u_i · B_h u_j)/n, whose matrices start
random: theory says that such a layer can hold both algorithms. The other is an AlgoFormer with softmax
attention and MLPs, like the shipped models but smaller. Labels are noisy, so that least squares, the
algorithm and the truth differ. With --series the AlgoFormer answers what follows a series.

    python scripts/distill.py newton --out results/insight/distilled-newton
    python scripts/distill.py gradient-descent --algoformer --out results/insight/distilled-softmax
    python scripts/distill.py gradient-descent --series --dim 2 --width 32 --out FOLDER
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from algoformer import AlgoFormer, Prompt, Trace, Unroll, programs, tasks
from algoformer.algorithms.prefixes import Prefixes, trace_of_iteration
from algoformer.common.devices import source_commit
from algoformer.common.files import write_json
from algoformer.insight import identify
from algoformer.problems import Problems, View, pairs
from algoformer.training.optimizer import hidden_matrices

PASSES, BATCH, STEP_SIZE, ALPHA = 4, 64, 0.25, 0.15
TEACHERS = ("gradient-descent", "newton")
UNIT = 0.15
"""The teacher divides features of a series by √UNIT, so that its step size is STEP_SIZE/UNIT on theirs."""


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


def scaled(task: tasks.Task, prompt: Prompt) -> Problems:
    """Return the problems of a series with features of a size that suits the teacher."""
    found = task.problems(prompt)
    return replace(found, features=found.features / UNIT**0.5)


def teacher_answers(teacher: str, prompt: Prompt, view: View = pairs) -> Tensor:
    """Return the teacher's answers (step, batch, point, 1) to every question of a prompt."""

    def iterates(prefixes: Prefixes) -> Iterator[Tensor]:
        gram, cross = prefixes.gram / prefixes.divisor, prefixes.cross / prefixes.divisor
        weights, inverse = torch.zeros_like(cross), ALPHA * torch.eye(gram.shape[-1]).to(gram).expand_as(gram)
        while True:
            if teacher == "newton":
                inverse = 2 * inverse - inverse @ gram @ inverse
                weights = inverse @ cross
            else:
                weights = weights - STEP_SIZE * (gram @ weights - cross)
            yield weights

    return trace_of_iteration(iterates, view(prompt), Unroll(steps=PASSES)).predictions


def relative_loss(student: nn.Module, teacher: str, prompt: Prompt) -> Tensor:
    """Return the mean of log(1 + squared distance to the teacher over what it has left to least squares).

    It is about the last question. The logarithm keeps single prompts, whose polynomials of the inputs are
    huge, from deciding a step.
    """
    asked = prompt.prefix()
    count = asked.reads[-1] // 2
    inputs, labels = asked.part(0)[:, :count], asked.part(1)[:, :count, :1]
    solved = (asked.part(0)[:, count, None] @ (torch.linalg.pinv(inputs) @ labels))[:, 0, 0]
    wanted = teacher_answers(teacher, asked)[:, :, 0, 0]
    left = (wanted - solved).square().mean(1, keepdim=True)
    gap = student(asked, Unroll(steps=PASSES)).predictions[:, :, 0, 0] - wanted
    return (gap.square() / left).log1p().mean()


def geometric_loss(student: nn.Module, teacher: str, prompt: Prompt, view: View = pairs) -> Tensor:
    """Return the mean over passes and later questions of the logarithm of the mean squared distance."""
    first = 2 * prompt.dim
    gap = student(prompt, Unroll(steps=PASSES)).predictions - teacher_answers(teacher, prompt, view)
    return (gap[:, :, first:].square().mean((1, 3)) + 1e-12).log().mean()


def train(student: nn.Module, teacher: str, task: tasks.Task, *, steps: int, seed: int) -> list[float]:
    """Train and return the loss, smoothed, every 500 steps."""
    softmax = isinstance(student, AlgoFormer)
    view: View = partial(scaled, task) if task.parts == 1 else pairs
    matrices = hidden_matrices(student) if softmax else []
    chosen = {id(matrix) for matrix in matrices}
    others = [weight for weight in student.parameters() if id(weight) not in chosen]
    peak = 3e-3 if softmax else 5e-3
    optimizers: list[torch.optim.Optimizer] = [torch.optim.Adam(others)]
    if matrices:
        optimizers.append(torch.optim.Muon(matrices, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    generator = torch.Generator().manual_seed(2 * seed)  # even seeds are for training
    smooth, history, start = math.nan, [], time.process_time()
    for step in range(1, steps + 1):
        rate = peak * min(1.0, step / 200) * 0.5 * (1 + math.cos(math.pi * step / steps))
        prompt = task.sample(BATCH, generator=generator)
        if softmax:
            loss = geometric_loss(student, teacher, prompt, view)
        else:
            loss = relative_loss(student, teacher, prompt)
        student.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 1.0 if softmax else 0.1)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        value = float(loss.detach())
        smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
        if step % 500 == 0:
            history.append(smooth)
            print(f"{step}: {smooth:.3g} ({time.process_time() - start:.0f} s)", flush=True)
    return history


def distilled(
    teacher: str,
    *,
    softmax: bool = False,
    series: bool = False,
    steps: int = 3000,
    dim: int = 3,
    width: int = 10,
    seed: int = 0,
) -> tuple[nn.Module, tasks.Task, list[float]]:
    """Return a student, the task it was trained on and its losses; on series it is an AlgoFormer."""
    task: tasks.Task = tasks.LinearRegression(dim=dim, points=4 * dim + 1, noise=0.5)
    if series:
        task = tasks.AutoregressiveWithRepresentation(
            dim=dim, points=6 * dim + 2, order=1, slope=1.0, noise=0.5, bound=4.0
        )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        student: nn.Module = LinearAttentionLoop(dim=dim, width=width, heads=2)
        if softmax or series:
            program = programs.algoformer(steps=PASSES, heads=4)
            student = AlgoFormer(program, dim=dim, out=task.out, context=task.context, width=width)
        history = train(student, teacher, task, steps=steps, seed=seed)
    return student.eval().requires_grad_(False), task, history


def main() -> None:
    """Train, identify, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", choices=TEACHERS)
    parser.add_argument("--out", type=Path, required=True, help="Folder for identification.json.")
    parser.add_argument("--algoformer", action="store_true", help="Softmax attention in place of linear.")
    parser.add_argument("--series", action="store_true", help="An AlgoFormer on series.")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    sizes = {name: getattr(chosen, name) for name in ("steps", "dim", "width", "seed")}
    start = time.process_time()
    student, task, history = distilled(
        chosen.teacher, softmax=chosen.algoformer, series=chosen.series, **sizes
    )
    seconds = round(time.process_time() - start, 1)
    found = identify(student, task, steps=PASSES)
    kinds = [f"--{name}" for name in ("algoformer", "series") if getattr(chosen, name)]
    options = " ".join([*kinds, *(f"--{name} {value}" for name, value in sizes.items())])
    setting = {
        "command": f"python scripts/distill.py {chosen.teacher} {options} --out {chosen.out}",
        "commit": source_commit(),
        "device": "cpu",
        "torch": torch.__version__,
        "loss_every_500_steps": history,
        "training_cpu_seconds": seconds,
        "teacher": chosen.teacher,
    }
    found = replace(found, setting=found.setting | setting)
    print(found)
    write_json(chosen.out / "identification.json", found.to_data())


if __name__ == "__main__":
    main()
