"""What is timed: the models, their sizes, and the work a step of each takes."""

from __future__ import annotations

from dataclasses import dataclass

from algoformer.config import Backprop, Precision
from algoformer.model import Program, presets
from algoformer.model.cost import Cost, cost
from algoformer.tasks import ChainOfThought, LinearRegression, Task
from algoformer.training import Experiment, Ramp, TrainConfig
from algoformer.training.config import unroll_at


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is, and how often it is timed. The defaults are the paper's."""

    batch: int = 64
    points: int = 40
    """Pairs in a prompt of linear regression: two rows each."""
    dim: int = 20
    chain_points: int = 41
    chain_layers: int = 6
    """With 41 samples of x and six states a prompt has 287 rows."""
    width: int = 256
    heads: int = 8
    steps: int = 20
    """T, iterations of the loop."""
    window: int = 15
    """ΔT, those that the loss reads."""
    layers: int = 12
    """Of the standard model."""
    blocks: int = 8
    """How many blocks of steps are timed; the median block counts."""
    block: int = 10
    """Steps in a block."""
    cpu_blocks: int = 60
    """Blocks of the demo's steps, timed in turns."""
    cpu_compiled: bool = True
    """Whether they are also compared with a compiled step: a C++ compiler is busy for minutes."""
    compared: int = 20
    """Steps whose losses are compared between engines."""
    together_seconds: float = 8.0
    """How long simultaneous runs are counted."""
    depths: tuple[int, ...] = (20, 40, 80, 160)
    """T for memory."""
    evaluated_steps: int = 200
    evaluated_prompts: int = 1280
    sequences: int = 32
    """Sequences that are continued at once, in decoding."""
    prefix: int = 32
    generated: int = 100
    """Tokens that are given and generated, in each of them."""
    vocabulary: int = 8000
    decoded_steps: int = 10
    """T of the language models."""
    gpt_layers: int = 12
    """Layers of GPT-2, whose training step is compared with that of `transformers`; 124 million weights."""
    gpt_width: int = 768
    gpt_heads: int = 12
    gpt_vocabulary: int = 50_304
    """GPT-2's 50,257 tokens, padded to a multiple of 64 for both libraries."""
    gpt_context: int = 1024
    gpt_batch: int = 8
    """Sequences in a batch of that step."""
    lines: int = 1000
    """Short lines that the commands for text read."""
    line_turns: int = 3
    """How often each command is run."""


FULL = Size()
"""The paper's size."""

QUICK = Size(
    batch=4,
    points=5,
    dim=3,
    chain_points=3,
    chain_layers=2,
    width=16,
    heads=2,
    steps=4,
    window=3,
    layers=3,
    blocks=2,
    block=2,
    cpu_blocks=2,
    cpu_compiled=False,
    compared=5,
    together_seconds=0.2,
    depths=(4, 8),
    evaluated_steps=6,
    evaluated_prompts=8,
    sequences=3,
    prefix=4,
    generated=6,
    vocabulary=50,
    decoded_steps=3,
    gpt_layers=2,
    gpt_width=32,
    gpt_heads=2,
    gpt_vocabulary=300,
    gpt_context=16,
    gpt_batch=2,
    lines=3,
    line_turns=1,
)
"""Tiny sizes: to see that everything runs, anywhere and in seconds."""

CASES = ("algoformer_full", "algoformer_window", "looped_window", "looped_full", "standard", "chain")
"""The models that can be timed, by name; `chain` is the AlgoFormer on prompts of 287 rows."""

DEFAULT_CASES = ("algoformer_full", "algoformer_window", "looped_window", "standard", "chain")


def experiment(
    case: str, size: Size, precision: Precision = "fp32", *, steps: int | None = None
) -> Experiment:
    """The case as an experiment with clipping, curricula and a cosine, so that the whole step is timed.

    `steps` replaces T.

    Raises:
        ValueError: there is no such case.
    """
    if case not in CASES:
        raise ValueError(f"cases are {', '.join(CASES)}, got {case!r}")
    task: Task = LinearRegression(dim=size.dim, points=size.points)
    if case == "chain":
        task = ChainOfThought(dim=size.dim, points=size.chain_points, layers=size.chain_layers)
    backprop: Backprop = "window" if case.endswith("_window") else "full"
    training = TrainConfig(
        batch_size=size.batch,
        window=size.window,
        backprop=backprop,
        precision=precision,
        clip_norm=1.0,
        schedule="cosine",
        dims=Ramp(start=min(5, size.dim), increment=1) if task.takes_dims else None,
        samples=Ramp(start=min(11, size.points), increment=2),
    )
    program = program_of(case, size, size.steps if steps is None else steps)
    return Experiment(program=program, data=task, width=size.width, training=training)


def program_of(case: str, size: Size, steps: int) -> Program:
    """The architecture of a case, whatever it is trained on."""
    if case == "standard":
        return presets.standard(size.layers, heads=size.heads)
    if case.startswith("looped"):
        return presets.looped(steps=steps, heads=size.heads)
    return presets.algoformer(steps=steps, heads=size.heads)


def first_step(timed: Experiment) -> int:
    """Where in the run timing begins: in its middle, when all curricula have come to their end."""
    return timed.training.steps // 2


def bill(timed: Experiment) -> Cost:
    """What one training step costs by formula."""
    task = timed.task
    questions = task.context // task.parts * max(1, task.parts - 1)
    return cost(
        timed.program,
        dim=task.dim,
        out=task.out,
        context=task.context,
        width=timed.width,
        unroll=unroll_at(timed.program, timed.training, first_step(timed)),
        batch=timed.training.batch_size,
        points=questions,
    )
