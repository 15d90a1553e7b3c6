"""Turn written layers into an ordinary AlgoFormer, and describe them in words."""

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
    """All that a construction fixes: coordinates, layers, positions, read-in and read-out.

    Attributes:
        space: the names of the stream's coordinates.
        modules: the layers of each module, in order; the module named "loop" is iterated.
        rows: one map for each row of a sample, or a single one for all rows.
        positions: the vector that is added to each token by its place, empty tokens included.
        answer: the read-out.
        blanks: the number of empty tokens before and after the rows.
        causal: True if a token attends only to itself and the tokens before it.
        exact_context: True if a prompt must be exactly as long as the positions.
    """

    space: Subspaces
    modules: Mapping[str, Sequence[LayerWriter]]
    rows: Sequence[RowMap]
    positions: Float[Tensor, "token width"]
    answer: Float[Tensor, "out width"]
    blanks: tuple[int, int]
    causal: bool = False
    exact_context: bool = False

    def program(self, *, steps: int) -> Program:
        """Return the program that has just the layers, heads and units that the blueprint needs."""
        parts: list[Part] = [
            Layers(0, heads=1, norm="none", final_norm=False, causal=self.causal, name="positions")
        ]
        for name, writers in self.modules.items():
            looped = name == "loop"
            layers = equation_one(
                len(writers),
                name="" if looped else name,
                bias=False,
                causal=self.causal,
                **layer_sizes(writers),
            )
            parts.append(Loop(layers, steps=steps, inject="none", name=name) if looped else layers)
        return Program(*parts)

    @torch.no_grad()
    def build(self, *, steps: int = 20, dtype: torch.dtype = torch.float64) -> AlgoFormer:
        """Build the model in float64 and cast it once; it keeps its blueprint as `model.blueprint`."""
        next(iter(self.modules.values()))[0].constants.check(dtype)
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
        entry, *modules = (layers_module(part) for part in model.body.parts)
        assert isinstance(entry.positions, LearnedPositions)
        entry.positions.table.copy_(self.positions)
        for module, writers in zip(modules, self.modules.values(), strict=True):
            for layer, writer in zip(module.layers, writers, strict=True):
                writer.load(layer)
        model.blueprint = self  # type: ignore[assignment]
        return model.to(dtype)

    def describe(self) -> str:
        """Describe what each layer writes, one line per gadget."""
        lines = []
        for name, writers in self.modules.items():
            for number, writer in enumerate(writers):
                heads = f"{len(writer.heads)} head{'' if len(writer.heads) == 1 else 's'}"
                lines.append(f"{name}/{number}  {heads}, {writer.hidden} hidden units")
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
    """Return the map that puts a row's `dim` numbers one after another into the subspaces `into`.

    Args:
        space: the names of the stream's coordinates.
        dim: the length of a row.
        into: how many numbers go into each subspace.
        signs: factors by subspace; 1 where none is given.
        marks: indicators that every such row carries.
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


def pair_rows(space: Subspaces) -> list[RowMap]:
    """Return the maps of a prompt of pairs: x rows go to x, y rows to y, each with its indicator."""
    dim, out = space.size("x"), space.size("y")
    return [
        row_map(space, dim=dim, into={"x": dim}, feature=1.0),
        row_map(space, dim=dim, into={"y": out}, label=1.0),
    ]
