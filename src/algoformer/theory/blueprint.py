"""From written layers to an ordinary AlgoFormer, and back to words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model.parts import LayersModule, LoopModule
from algoformer.model.presets import equation_one
from algoformer.model.program import Part
from algoformer.nn import LearnedPositions
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter, layer_sizes


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """The affine map weight · row + bias by which a row of the prompt enters the stream."""

    weight: Float[Tensor, "width dim"]
    bias: Float[Tensor, " width"]


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Everything a construction fixes: subspaces, what each layer writes, positions, read-in and read-out.

    Attributes:
        space: the names of the stream's coordinates.
        pre: modules before the loop, each a list of layers.
        loop: the layers of the loop's body.
        post: modules after the loop.
        rows: one map for each row of a sample, or a single one for all rows.
        positions: what is added to each token by its place, blank tokens included.
        answer: the read-out.
        blanks: empty tokens before and after the rows.
        causal: whether a token sees only what comes before it.
        exact_context: whether a prompt must be exactly as long as the positions.
    """

    space: Subspaces
    pre: Mapping[str, Sequence[LayerWriter]]
    loop: Sequence[LayerWriter]
    post: Mapping[str, Sequence[LayerWriter]]
    rows: Sequence[RowMap]
    positions: Float[Tensor, "token width"]
    answer: Float[Tensor, "out width"]
    blanks: tuple[int, int]
    causal: bool = False
    exact_context: bool = False

    def program(self, *, steps: int) -> Program:
        """Return the program that has just the layers, heads and units that the blueprint needs."""

        def module(name: str, writers: Sequence[LayerWriter]) -> Layers:
            return equation_one(
                len(writers), name=name, bias=False, causal=self.causal, **layer_sizes(writers)
            )

        entry = Layers(0, heads=1, norm="none", final_norm=False, causal=self.causal, name="positions")
        parts: list[Part] = [entry]
        parts += [module(name, writers) for name, writers in self.pre.items()]
        if self.loop:
            parts.append(Loop(module("", self.loop), steps=steps, inject="none", name="loop"))
        parts += [module(name, writers) for name, writers in self.post.items()]
        return Program(*parts)

    @torch.no_grad()
    def build(self, *, steps: int = 20, dtype: torch.dtype = torch.float64) -> AlgoFormer:
        """Build the model in float64 and cast it once; it keeps its blueprint as `model.blueprint`."""
        model = AlgoFormer(
            self.program(steps=steps),
            dim=self.rows[0].weight.shape[1],
            out=len(self.answer),
            context=len(self.positions) - sum(self.blanks),
            width=self.space.width,
            row_maps=len(self.rows),
            blanks=self.blanks,
            exact_context=self.exact_context,
        ).double()
        for linear, row in zip(model.read_in.maps, self.rows, strict=True):
            linear.weight.copy_(row.weight)  # type: ignore[operator]
            linear.bias.copy_(row.bias)  # type: ignore[operator]
        model.read_out.weight.copy_(self.answer)
        model.read_out.bias.zero_()
        writers = [*self.pre.values(), *([self.loop] if self.loop else []), *self.post.values()]
        entry, *modules = (layers_module(part) for part in model.body.parts)
        assert isinstance(entry.positions, LearnedPositions)
        entry.positions.table.copy_(self.positions)
        for module, layers in zip(modules, writers, strict=True):
            for layer, writer in zip(module.layers, layers, strict=True):
                writer.load(layer)
        model.blueprint = self  # type: ignore[assignment]
        return model.to(dtype)

    def describe(self) -> str:
        """Describe what each layer writes, one line per gadget."""
        named = {**self.pre, **({"loop": self.loop} if self.loop else {}), **self.post}
        lines = []
        for name, writers in named.items():
            for number, writer in enumerate(writers):
                heads = len(writer.heads)
                lines.append(
                    f"{name}/{number}  {heads} head{'' if heads == 1 else 's'}, {writer.hidden} hidden units"
                )
                lines += [f"    {note}" for note in writer.notes]
        return "\n".join(lines)


def layers_module(part: torch.nn.Module) -> LayersModule:
    """Return the layers of a part of a theorem's program: the part itself, or the body of its loop."""
    inner = part.body.parts[0] if isinstance(part, LoopModule) else part
    assert isinstance(inner, LayersModule)
    return inner


def blueprint_of(model: AlgoFormer) -> Blueprint:
    """Return the blueprint that a theorem's model was built from.

    Raises:
        ValueError: the model was trained or loaded, so the meaning of its coordinates is unknown.
    """
    blueprint = getattr(model, "blueprint", None)
    if not isinstance(blueprint, Blueprint):
        raise ValueError("this model was not built by a theorem; only builders of algoformer.theory can")
    return blueprint


def position_table(
    space: Subspaces, columns: Mapping[str, Shaped[Tensor, "token _"]]
) -> Float[Tensor, "token width"]:
    """Return the position table that holds `columns` in their subspaces and zeros elsewhere."""
    tokens = len(next(iter(columns.values())))
    table = torch.zeros(tokens, space.width, dtype=torch.float64)
    for name, column in columns.items():
        table[:, space.run(name)] = column.to(torch.float64)
    return table


def row_map(
    space: Subspaces,
    *,
    dim: int,
    into: Mapping[str, int],
    signs: Mapping[str, float] | None = None,
    **marks: float,
) -> RowMap:
    """Rows of `dim` numbers, put one after another into the subspaces `into` (name: how many).

    `signs` multiplies what goes into a subspace; `marks` are indicators that every such row carries.
    """
    weight = torch.zeros(space.width, dim, dtype=torch.float64)
    start = 0
    for name, count in into.items():
        factor = 1.0 if signs is None else signs.get(name, 1.0)
        weight[space.run(name).start : space.run(name).start + count, start : start + count] = (
            factor * torch.eye(count, dtype=torch.float64)
        )
        start += count
    bias = torch.zeros(space.width, dtype=torch.float64)
    for name, value in marks.items():
        bias[space.run(name)] = value
    return RowMap(weight=weight, bias=bias)
