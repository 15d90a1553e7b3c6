"""Answers at chosen depths in one run: the loop runs once, the rest only where somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.model.address import Notebook
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.parts import LoopModule
from algoformer.prompt import Prompt
from algoformer.trace import Unroll


def answers_at(
    model: AlgoFormer, prompt: Prompt, depths: Sequence[int]
) -> Iterator[tuple[int, Float[Tensor, "batch point out"]]]:
    """The answers after each of a few numbers of iterations, from one pass through the deepest.

    An unroll reads a window; to look at 20, 200 and 1000 iterations it would have to run thrice, or
    run what stands after the loop a thousand times. A program without a loop answers the same at every
    depth.

    >>> from algoformer import programs, tasks
    >>> task = tasks.LinearRegression(dim=3, points=6)
    >>> model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=16)
    >>> prompt = task.sample(4, generator=torch.Generator().manual_seed(0))
    >>> [(depth, tuple(answers.shape)) for depth, answers in answers_at(model, prompt, (1, 30))]
    [(1, (4, 6, 1)), (30, (4, 6, 1))]
    """
    if not depths or list(depths) != sorted(set(depths)) or depths[0] < 1:
        raise ValueError(f"depths must be a rising list of iterations from 1 on, got {tuple(depths)}")
    body = model.body
    loop = None if body.traced is None else body.parts[body.traced]
    if not isinstance(loop, LoopModule):
        # nothing to go on with from a state: ask for each depth by itself
        for depth in depths:
            with torch.no_grad():
                answers = model(prompt, Unroll(steps=depth, window=1)).final
            yield depth, answers
        return
    model.check(prompt)
    quiet = Notebook((), model.program, 1)
    with torch.no_grad():
        entry = body.before(model.read_in(prompt.rows), quiet)
        state = loop.start(entry)
    done = 0
    for depth in depths:
        with torch.no_grad():  # never around a yield, where it would reach whoever asks
            for _ in range(depth - done):
                state = loop.step(state, entry, quiet, "")
            answers = model.answers(body.after(state[None], quiet), prompt)[0]
        done = depth
        yield depth, answers
