"""The same training step as one would write it by hand today: plain PyTorch modules in a plain loop.

This is what the library's step is compared with. It follows nanoGPT: a block of two norms, one product for
queries, keys and values, PyTorch's fused attention, a GELU network; learned positions and a final norm. The
loop calls the block again and again, reads out inside the window, and adds up the losses. Nothing here is
the library's own; Adam is the fused one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.model import AlgoFormer, Layers, Loop
from algoformer.tasks import ChainOfThought, LinearRegression
from algoformer.training import Experiment


class Block(nn.Module):
    """Causal attention and a network on each token, each behind a norm and added to the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The stream after the block."""
        batch, tokens, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (y.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(batch, tokens, width))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Positions, blocks, a final norm."""

    def __init__(self, layers: int, *, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """The stream after all blocks."""
        x = x + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class PlainModel(nn.Module):
    """A looped transformer by hand; one without `pre` and `loop` is a standard transformer."""

    def __init__(self, timed: Experiment) -> None:
        super().__init__()
        task, width = timed.task, timed.width
        self.read_in = nn.Linear(task.dim, width)
        stacks: list[Transformer | None] = [None, None, None]
        place = 0 if any(isinstance(part, Loop) for part in timed.program) else 2
        for part in timed.program:
            inner = part.body.parts[0] if isinstance(part, Loop) else part
            place = 1 if isinstance(part, Loop) else place
            assert isinstance(inner, Layers), "the timed programs are plain ones"
            stacks[place] = Transformer(inner.count, width=width, heads=inner.heads, context=task.context)
            place = 2 if isinstance(part, Loop) else place
        self.pre, self.loop, self.post = stacks
        self.read_out = nn.Linear(width, task.out)

    def forward(self, rows: Tensor, reads: Tensor, steps: int, window: int, grad_steps: int) -> list[Tensor]:
        """The answers after each iteration of the window."""
        entry = self.read_in(rows)
        if self.loop is None:
            return [self._answer(entry, reads)]
        if self.pre is not None:
            entry = self.pre(entry)
        state = torch.zeros_like(entry)
        answers = []
        for step in range(1, steps + 1):
            with torch.set_grad_enabled(torch.is_grad_enabled() and step > steps - grad_steps):
                state = self.loop(state + entry)
            if step > steps - window:
                answers.append(self._answer(state, reads))
        return answers

    def _answer(self, state: Tensor, reads: Tensor) -> Tensor:
        if self.post is not None:
            state = self.post(state)
        return self.read_out(state[:, reads])


def copy_weights(model: AlgoFormer, plain: PlainModel) -> None:
    """Give the plain model the weights of ours: both hold them in the order in which they are used."""
    with torch.no_grad():
        for own, other in zip(plain.parameters(), model.parameters(), strict=True):
            assert own.shape == other.shape
            own.copy_(other)


def loss_of(answers: list[Tensor], targets: Tensor) -> Tensor:
    """The mean squared error over the window."""
    return torch.stack([F.mse_loss(answer, targets) for answer in answers]).mean()


@torch.no_grad()
def errors_of(plain: PlainModel, rows: Tensor, targets: Tensor, reads: Tensor, steps: int) -> Tensor:
    """Squared errors after each iteration, for each question, as means over the prompts; 64 at a time."""
    sums = torch.zeros(steps, len(reads), device=rows.device)
    for given, wanted in zip(rows.split(64), targets.split(64), strict=True):
        for step, answer in enumerate(plain(given, reads, steps, steps, 0)):
            sums[step] += (answer - wanted).square().sum(dim=(0, 2))
    return sums / len(rows)


class PlainData:
    """Fresh prompts by hand, and the rows at which their answers are read."""

    def __init__(self, timed: Experiment, generator: torch.Generator) -> None:
        self.task, self.batch, self.generator = timed.task, timed.training.batch_size, generator
        kept = max(1, self.task.parts - 1)
        asked = [row for row in range(self.task.context) if row % self.task.parts < kept]
        self.reads = torch.tensor(asked, device=generator.device)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Rows and targets."""
        task, device = self.task, self.generator.device
        assert isinstance(task, LinearRegression | ChainOfThought)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=self.generator, device=device)

        xs = normal(self.batch, task.points, task.dim)
        if isinstance(task, LinearRegression):
            ys = xs @ normal(self.batch, task.dim, 1)
            rows = torch.zeros(self.batch, task.points, 2, task.dim, device=device)
            rows[:, :, 0], rows[:, :, 1, :1] = xs, ys
            return rows.flatten(1, 2), ys
        states, scale = [xs], (2 / ((1 + task.slope**2) * task.dim)) ** 0.5
        for weight in normal(task.layers, self.batch, task.dim, task.dim) * scale:
            states.append(F.leaky_relu(states[-1] @ weight, task.slope))
        samples = torch.stack(states, dim=2)
        return samples.flatten(1, 2), samples[:, :, 1:].flatten(1, 2)
