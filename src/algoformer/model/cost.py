"""The cost of a program, from the program alone: parameters, FLOPs and memory.

What is counted, and what is not, stands in `algoformer.model.work`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from torch import nn

from algoformer.common.meta import on_meta
from algoformer.common.tables import Table
from algoformer.model.address import with_inner_steps
from algoformer.model.halting import HALTING
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.parts import LayersModule
from algoformer.model.program import Layers, Loop, Part, Program, as_program, default_steps, traced_part
from algoformer.model.two_states import TwoStates
from algoformer.model.unrolled_work import unrolled_work
from algoformer.model.work import Stream, Work
from algoformer.nn import LayerSizes
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class PartCost:
    """One part of the model: its parameters (`positions` says how many are learned positions), its work."""

    name: str
    parameters: int
    positions: int
    work: Work


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one batch: read-in, every part of the program, read-out.

    >>> from algoformer.model.presets import algoformer
    >>> unroll = Unroll(steps=20, window=15, grad_steps=15)
    >>> bill = cost(algoformer(), dim=20, out=1, context=80, unroll=unroll, batch=64)
    >>> bill.core_parameters, bill.work.layers, bill.units
    (2370816, 36, 98)
    """

    parts: tuple[PartCost, ...]
    number_bytes: int

    @property
    def work(self) -> Work:
        """All parts together."""
        return sum((part.work for part in self.parts), Work())

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(part.parameters for part in self.parts)

    @property
    def core_parameters(self) -> int:
        """Parameters without positions, read-in and read-out: the figure that papers compare."""
        return sum(part.parameters - part.positions for part in self.parts[1:-1])

    @property
    def forward(self) -> int:
        """FLOPs of a forward pass."""
        return self.work.forward

    @property
    def training(self) -> int:
        """FLOPs of a training step: forward and backward, and what the latter runs again."""
        return self.work.training

    @property
    def activation_bytes(self) -> int:
        """Memory kept for the backward pass."""
        return self.work.kept * self.number_bytes

    @property
    def units(self) -> int:
        """A training step in evaluations of a layer, where going back through one counts as two."""
        return self.work.layers + 2 * self.work.tracked_layers

    def table(self, title: str = "", *, training: bool = True) -> Table:
        """Return the cost part by part; without `training`, that of the forward pass alone."""
        total = PartCost(name="total", parameters=self.parameters, positions=0, work=self.work)
        columns = ("part", "parameters", "layer runs", "forward GFLOP", "with backward", "kept MiB")
        rows = []
        for part in (*self.parts, total):
            work, kept = part.work, part.work.kept * self.number_bytes / 2**20
            flops = work.forward / 1e9, work.training / 1e9
            rows.append((part.name, part.parameters, work.layers, *flops, kept))
        shown = len(columns) if training else 4
        return Table(columns=columns[:shown], rows=tuple(row[:shown] for row in rows), title=title)

    def __str__(self) -> str:
        return str(self.table())


def cost(
    program: Program | Part | tuple[Part, ...],
    *,
    dim: int,
    out: int,
    context: int,
    width: int = 256,
    row_maps: int = 1,
    blanks: tuple[int, int] = (0, 0),
    unroll: Unroll | None = None,
    batch: int = 1,
    rows: int | None = None,
    points: int | None = None,
    number_bytes: int = 4,
) -> Cost:
    """Return the cost of the model that `AlgoFormer` builds from the same arguments; nothing is allocated.

    Args:
        program: and `dim`, `out`, `context`, `width`, `row_maps`, `blanks`: as for `AlgoFormer`.
        unroll: how the loop is run and differentiated; by default as the program says, read once.
        batch: prompts.
        rows: in each prompt; by default the whole context.
        points: questions in each prompt; by default one for every row.
        number_bytes: 4 in single precision, 2 in half.
    """
    program = as_program(program)
    rows = context if rows is None else rows
    points = rows if points is None else points
    if not 1 <= rows <= context:
        raise ValueError(f"rows must lie in 1..{context} (the context), got {rows}")
    if not 1 <= points <= rows:
        raise ValueError(f"points must lie in 1..{rows} (the rows), got {points}")
    for name, size in {"batch": batch, "number_bytes": number_bytes, "row_maps": row_maps}.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    unroll = unroll or Unroll(steps=default_steps(program), window=1)
    program = with_inner_steps(program, unroll.inner)
    tokens = rows + sum(blanks)
    # hidden states that are kept are whole
    read = None if points == tokens or unroll.keep else points
    stream = Stream(width=width, sequences=batch, tokens=tokens, read=read)
    works, reached, carried = unrolled_work(program, stream, unroll)
    places = context + sum(blanks)
    inside = [
        PartCost(
            name=part.name or str(index),
            parameters=parameters(part, width=width, context=places),
            positions=positions(part, width=width, context=places),
            work=work,
        )
        for index, (part, work) in enumerate(zip(program, works, strict=True))
    ]
    answered = batch * points * (1 if traced_part(program) is None else unroll.length)
    ends = _ends(dim, out, row_maps, width, batch * rows, answered, reached, carried)
    return Cost(parts=(ends[0], *inside, ends[1]), number_bytes=number_bytes)


def _ends(
    dim: int, out: int, row_maps: int, width: int, read: int, answered: int, reached: bool, carried: bool
) -> tuple[PartCost, PartCost]:
    forward = 2 * read * dim * width
    into = Work(forward=forward, backward=forward * reached, kept=read * dim * reached)
    forward = 2 * answered * width * out
    back = Work(forward=forward, backward=forward * (1 + carried), kept=answered * width)
    weights = row_maps * (dim + 1) * width
    return (
        PartCost(name="read_in", parameters=weights, positions=0, work=into),
        PartCost(name="read_out", parameters=(width + 1) * out, positions=0, work=back),
    )


def parameters(part: Part, *, width: int, context: int) -> int:
    """Return how many parameters a part has; nothing is allocated."""
    own = sum(parameters(inner, width=width, context=context) for body in part.bodies for inner in body)
    if isinstance(part, Loop):
        own += _loop_parameters(part.inject, part.start_kind, part.halt, width)
    if isinstance(part, TwoStates):
        own += _loop_parameters("none", part.low_start, "none", width)
    if isinstance(part, Layers):
        each, final, added = _layers_parameters(replace(part, count=1, name=""), width, context)
        own += part.count * each + final + added
    return own


def positions(part: Part, *, width: int, context: int) -> int:
    """Return how many of a part's parameters are positions."""
    if isinstance(part, Layers):
        return _layers_parameters(replace(part, count=1, name=""), width, context)[2]
    return sum(positions(inner, width=width, context=context) for body in part.bodies for inner in body)


@lru_cache(maxsize=1024)
def _layers_parameters(layers: Layers, width: int, context: int) -> tuple[int, int, int]:
    """Return the parameters of one layer, of the final norm and of the positions of a module."""
    try:
        with on_meta():
            module = LayersModule(layers, width=width, context=context)
    except RuntimeError as error:
        raise ValueError(f"a layer of width {width} is too large to be built: {layers}") from error
    return tuple(  # type: ignore[return-value]
        sum(parameter.numel() for parameter in part.parameters()) if part is not None else 0
        for part in (module.layers[0], module.final_norm, module.positions)
    )


@lru_cache(maxsize=1024)
def _loop_parameters(inject: str, start: str, halt: str, width: int) -> int:
    sizes = LayerSizes(width=width)
    with on_meta():
        kinds = INJECTIONS[inject].build, STARTS[start].build
        halting = None if halt == "none" else HALTING[halt](width)
        parts = halting, *(build(sizes) for build in kinds if build is not None)
    weighted = (part for part in parts if isinstance(part, nn.Module))
    return sum(parameter.numel() for module in weighted for parameter in module.parameters())
