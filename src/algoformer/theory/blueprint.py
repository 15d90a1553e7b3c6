"""Turn written layers into an ordinary AlgoFormer, and describe them in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model.parts import LayersModule, LoopModule
from algoformer.model.presets import equation_one
from algoformer.model.program import Part
from algoformer.nn import LearnedPositions
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter, layer_sizes


class BuildOptions(TypedDict, total=False):
    """Keywords that every builder takes besides the numbers of its theorem.

    Attributes:
        constants: the free parameters of the gadgets; `DOUBLE` unless given.
        steps: the loop's iterations where an unroll does not say; 20 unless given.
        dtype: the dtype of the finished model; float64 unless given.
    """

    constants: Constants
    steps: int
    dtype: torch.dtype


def layers_in(space: Subspaces, options: BuildOptions) -> Callable[[], LayerWriter]:
    """Return a function that begins a layer over `space`, with the constants of a builder's options."""
    return partial(LayerWriter, space, options.get("constants", DOUBLE))


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """The affine map weight · row + bias by which a row of the prompt enters the stream."""

    weight: Float[Tensor, "width dim"]
    bias: Float[Tensor, " width"]


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """All that a construction fixes: coordinates, layers, positions, read-in and read-out.

    Attributes:
        space: the names of the stream's coordinates, and the positions, empty tokens included.
        modules: the layers of each module, in order; the module named "loop" is iterated.
        rows: one map for each row of a sample, or a single one for all rows.
        answer: the read-out.
        blanks: the number of empty tokens before and after the rows.
        causal: True if a token attends only to itself and the tokens before it.
        exact_context: True if a prompt must be exactly as long as the positions.
    """

    space: Subspaces
    modules: Mapping[str, Sequence[LayerWriter]]
    rows: Sequence[RowMap]
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
    def build(
        self, *, constants: Constants = DOUBLE, steps: int = 20, dtype: torch.dtype = torch.float64
    ) -> AlgoFormer:
        """Build the model in float64 and cast it once; it keeps its blueprint as `model.blueprint`."""
        constants.check(dtype)
        model = AlgoFormer(
            self.program(steps=steps),
            dim=self.rows[0].weight.shape[1],
            out=len(self.answer),
            context=len(self.space.positions) - sum(self.blanks),
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
        entry.positions.table.copy_(self.space.positions)
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
    """Return the blueprint that a theorem's model was built from; refuse any other model."""
    blueprint = getattr(model, "blueprint", None)
    if not isinstance(blueprint, Blueprint):
        raise ValueError("this model was not built by a theorem; only builders of algoformer.theory can")
    return blueprint


def row_map(
    space: Subspaces, weight: Float[Tensor, "width _"], *, dim: int | None = None, mark: str | None = None
) -> RowMap:
    """Return the map that writes a row by `weight` and sets the indicator `mark` to 1.

    A row of more numbers, `dim` of them, is zero beyond those that are written.
    """
    more = 0 if dim is None else dim - weight.shape[1]
    bias = torch.zeros(space.width, dtype=torch.float64) if mark is None else space.read(mark)[0]
    return RowMap(weight=torch.nn.functional.pad(weight, (0, more)), bias=bias)


def pair_rows(space: Subspaces) -> list[RowMap]:
    """Return the maps of a prompt of pairs: x rows go to x, y rows to y, each with its indicator."""
    return [
        row_map(space, space.write("x"), mark="feature"),
        row_map(space, space.write("y"), dim=space.size("x"), mark="label"),
    ]
