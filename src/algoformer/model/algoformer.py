"""The model: a program between a read-in and a read-out. It is a solver like any other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoformer.common.meta import on_meta, why_not_rebuilt
from algoformer.model.driver import Edit, ForwardContext, select_rows
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Part, Program, as_program, default_steps, is_causal
from algoformer.model.settle import check_rule, settle
from algoformer.model.stopping import StoppingRule
from algoformer.nn.tables import LearnedPositions
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll

if TYPE_CHECKING:
    from algoformer.model.cost import Cost


class ReadIn(nn.Module):
    """A linear map from rows to tokens, with blank tokens before and after them if asked.

    `maps` is 1 for one map shared by all rows (the trained models), or the number of rows in a sample for
    a map of its own for each kind of row, so that an x and a y land in different coordinates of the
    stream (the theorems). A blank token is zero: only its position tells it from others.
    """

    def __init__(self, *, dim: int, width: int, maps: int = 1, blanks: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.width = width
        self.maps = nn.ModuleList(nn.Linear(dim, width) for _ in range(maps))
        self.blanks = blanks

    def forward(self, rows: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch token width"]:
        """The first state of the stream."""
        if len(self.maps) == 1:
            tokens = self.maps[0](rows)
        else:
            kinds = len(self.maps)
            tokens = rows.new_empty(*rows.shape[:2], self.width)
            for kind, linear in enumerate(self.maps):
                tokens[:, kind::kinds] = linear(rows[:, kind::kinds])
        before, after = self.blanks
        return nn.functional.pad(tokens, (0, 0, before, after)) if before or after else tokens


class AlgoFormer(nn.Module):
    """Runs a program on prompts and reads an answer at every question.

    Args:
        program: what to run; a `Program`, a single part or a sequence of parts.
        dim: numbers in a row of the prompt.
        out: numbers in an answer.
        context: the largest number of rows of a prompt, if positions are learned.
        width: of the stream.
        row_maps: 1 for one read-in for all rows, or one for each row of a sample.
        blanks: empty tokens before and after the rows.
        exact_context: whether a prompt must have exactly `context` rows, for weights that count on it.

    >>> from algoformer import programs, tasks
    >>> task = tasks.LinearRegression(dim=3, points=6)
    >>> model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=16)
    >>> prompt = task.sample(4, generator=torch.Generator().manual_seed(0))
    >>> model(prompt, Unroll(steps=30, window=10)).predictions.shape
    torch.Size([10, 4, 6, 1])
    """

    def __init__(
        self,
        program: Program | Part | tuple[Part, ...],
        *,
        dim: int,
        out: int,
        context: int,
        width: int = 256,
        row_maps: int = 1,
        blanks: tuple[int, int] = (0, 0),
        exact_context: bool = False,
    ) -> None:
        super().__init__()
        sizes = {"dim": dim, "out": out, "context": context, "width": width, "row_maps": row_maps}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.sizes: dict[str, Any] = sizes | {"blanks": blanks}
        if min(blanks) < 0:
            raise ValueError(f"blanks must not be negative, got {blanks}")
        self.program = program if isinstance(program, Program) else as_program(program)
        self.dim, self.out, self.context, self.width = dim, out, context, width
        self.row_maps, self.blanks, self.exact_context = row_maps, blanks, exact_context
        self.read_in = ReadIn(dim=dim, width=width, maps=row_maps, blanks=blanks)
        self.body = ProgramModule(self.program, width=width, context=context + sum(blanks))
        self.read_out = nn.Linear(width, out)
        self.causal = is_causal(self.program)

    def forward(
        self, prompt: Prompt, unroll: Unroll | None = None, *, stop: StoppingRule | None = None
    ) -> Trace:
        """Answer every question of the prompt after each iteration in the window.

        Without an unroll the traced loop runs as often as the program says and is read once. More steps
        than in training are fine. A program without a loop gives the same answer at every step.

        With a stopping rule each prompt runs until the rule stops it, without gradients; the trace has the
        last answers, and `iterations` says after how many iterations each prompt stopped.

        >>> from algoformer import programs, tasks
        >>> from algoformer.model import Converged
        >>> task = tasks.LinearRegression(dim=3, points=6)
        >>> model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=16)
        >>> prompt = task.sample(4, generator=torch.Generator().manual_seed(0))
        >>> model(prompt, stop=Converged(tolerance=0.1, max_steps=50)).iterations.shape
        torch.Size([4])
        """
        self.check(prompt)
        if stop is not None:
            if unroll is not None:
                raise ValueError("give either an unroll or a stopping rule (stop), not both")
            return self._settle(prompt, stop)
        unroll = unroll or Unroll(steps=default_steps(self.program), window=1)
        states, kept, halting = self.run_body(self.read_in(prompt.rows), prompt, unroll)
        if self.body.traced is not None:
            predictions = self.read_out(states)
        else:  # all states are one, and answered once
            predictions = self.read_out(states[:1]).expand(unroll.length, -1, -1, -1)
        return Trace(predictions=predictions, first_step=unroll.first_step, states=kept, halting=halting)

    def run_body(
        self, stream: Float[Tensor, "batch token width"], prompt: Prompt, unroll: Unroll
    ) -> tuple[Float[Tensor, "step batch point width"], Mapping[str, Tensor], Tensor | None]:
        """Run the program; return the states to answer from, the states to keep, and `Trace.halting`."""
        rows = self.read_rows(prompt)
        access = self.body.access(unroll.keep, unroll.steps, unroll.inner)
        if access is None:
            states, halting = self.body.unroll(stream, unroll, ForwardContext(read_rows=rows))
            return states, {}, halting
        # recorded and edited states are whole; else only the rows to read are computed to the end
        states, halting = self.body.unroll(stream, unroll, ForwardContext(access=access))
        if halting is not None and rows is not None:
            halting = halting.index_select(-1, rows)
        return select_rows(states, rows), access.states, halting

    @torch.no_grad()
    def _settle(self, prompt: Prompt, rule: StoppingRule) -> Trace:
        check_rule(self.body, rule)
        access = self.body.access((), rule.max_steps or default_steps(self.program))
        context = ForwardContext(access=access, read_rows=self.read_rows(prompt))
        settled = settle(
            self.body, self.read_in(prompt.rows), rule, lambda stream, _: self.read_out(stream), context
        )
        return Trace(
            predictions=settled.output[None],
            first_step=int(settled.iterations.max()),
            iterations=settled.iterations,
        )

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[None]:
        """Replace states by address inside a `with` block.

        Args:
            edits: for each address a function from the state to its replacement, or a tensor that
                broadcasts to the state's shape. A layer's attention weights stand at its address +
                "/attention". After the traced loop a state has a leading axis of iterations.

        >>> from algoformer import programs, tasks
        >>> task = tasks.LinearRegression(dim=3, points=6)
        >>> model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=16)
        >>> prompt = task.sample(4, generator=torch.Generator().manual_seed(0))
        >>> with model.edit({"loop[3]/0": lambda state: 0 * state}):
        ...     ablated = model(prompt).final
        """
        return self.body.edit(edits)

    def read_rows(self, prompt: Prompt) -> Int[Tensor, " point"] | None:
        """Return the tokens at which the answers are read; None if that is all of them."""
        if len(prompt.reads) == prompt.rows.shape[1] + sum(self.blanks):
            return None
        return row_index(prompt.reads, self.blanks[0], prompt.rows.device)

    def rebuildable(self) -> str | None:
        """Return why this model could not be built again from its program; None if it could.

        A checkpoint holds the program and the weights. A module that was swapped for one of another class
        or shape comes back as what the program builds, so that saving such a model must be refused.
        """
        with on_meta():
            built = AlgoFormer(self.program, **self.sizes, exact_context=self.exact_context)
        return why_not_rebuilt(self, built)

    def cost(self, unroll: Unroll | None = None, **batch: int) -> Cost:
        """Parameters, FLOPs and memory for one batch; `batch`, `rows`, `points` as in `model.cost.cost`."""
        from algoformer.model.cost import cost

        return cost(self.program, unroll=unroll, **self.sizes | batch)

    def check(self, prompt: Prompt) -> None:
        """Refuse a prompt that this model was not built for; the message says what differs."""
        if not isinstance(prompt, Prompt):
            raise ValueError(
                f"an AlgoFormer answers a Prompt, got {type(prompt).__name__}; make one with "
                "Prompt.of_pairs(xs, ys) or task.sample(batch, generator=...)"
            )
        dim, out = prompt.rows.shape[2], prompt.targets.shape[2]
        if dim != self.dim:
            raise ValueError(f"this model reads rows of dim={self.dim}, the prompt's have {dim}")
        if out != self.out:
            raise ValueError(f"this model answers with out={self.out} numbers, the prompt asks for {out}")
        longer = prompt.rows.shape[1] > self.context
        if longer and any(isinstance(module, LearnedPositions) for module in self.body.modules()):
            raise ValueError(
                f"the prompt has {prompt.rows.shape[1]} rows, this model was built for context={self.context}"
            )
        if self.exact_context and prompt.rows.shape[1] < self.context:
            raise ValueError(
                f"this model answers prompts of exactly {self.context} rows, got {prompt.rows.shape[1]}; "
                "pad the prompt, or build the model for that length"
            )
        weight = self.read_out.weight
        # the weight of a quantized module is a method, and it computes in float32
        own = weight.dtype if isinstance(weight, Tensor) else torch.float32
        if prompt.rows.dtype != own:
            raise ValueError(
                f"this model computes in {own}, the prompt is in {prompt.rows.dtype}; use prompt.to({own})"
            )
        if self.row_maps not in (1, prompt.parts):
            raise ValueError(
                f"this model reads samples of {self.row_maps} rows, the prompt's have {prompt.parts}"
            )
        if not self.causal and prompt.answers_in_rows and prompt.reads[0] + 1 < prompt.rows.shape[1]:
            raise ValueError(
                "full attention would see rows that come after a question; ask one with prompt.prefix()"
            )


def row_index(reads: tuple[int, ...], offset: int, device: torch.device) -> Tensor:
    """The rows that are read, moved by `offset`, as a tensor."""
    # what the compiler, torch.export or a transform of torch.func makes is of no use after it: not kept
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return torch.tensor([row + offset for row in reads], device=device)
    return _kept_row_index(reads, offset, device)


@lru_cache(maxsize=64)
def _kept_row_index(reads: tuple[int, ...], offset: int, device: torch.device) -> Tensor:
    # kept on the device, so that a captured step copies nothing from the host; and an ordinary tensor even
    # if first asked for in inference mode, so that training can use it later
    with torch.inference_mode(False):
        return torch.tensor([row + offset for row in reads], device=device)
