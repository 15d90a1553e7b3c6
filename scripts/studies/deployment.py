"""What a loop costs when it is deployed, beside the plain transformer of equal loss by a scaling law.

A loop of 8 layers between 2 and 2 layers has 12 layers of parameters, however often it runs. By the law
L(N_once + r^φ N_loop) it has the loss of a plain transformer with so many parameters, and that transformer
is taken with the same width and more layers. Both are billed by `cost()`: nothing is built or trained.

    python -m scripts.studies.deployment --out results/scaling
    python -m scripts.studies.deployment --out results/scaling --law results/scaling/text-full-law.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from algoformer.common.files import write_atomically
from algoformer.evaluation import Cell, Table
from algoformer.language.cache import cache_bytes
from algoformer.model import presets
from algoformer.model.cost import cost
from algoformer.model.program import Program
from algoformer.report import markdown_table

WIDTHS = {"10 M": 256, "100 M": 832, "1 B": 2624, "10 B": 8320}
"""Widths whose 12 layers have about so many parameters."""

ENDS, LOOP, HEAD = 2, 8, 64
"""Layers before and after the loop, layers in it, and the width of a head."""

CONTEXT, NUMBER_BYTES = 4096, 2
"""Tokens of a sequence, and bytes of a number (bf16)."""

TOKENS_PER_PARAMETER = 20
"""Tokens that a model is trained on, for each of its effective parameters (Hoffmann et al., 2022)."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A value of φ, where it comes from, and the training FLOPs of the runs that it was fitted to."""

    phi: float
    words: str
    flops: tuple[float, float]


PUBLISHED = Source(
    phi=0.46,
    words="arXiv 2604.21106: language models of 20 layers, gradient through all iterations",
    flops=(4.64e17, 2.15e19),
)


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What a model costs, without embeddings and output matrix.

    Attributes:
        parameters: of the layers.
        flops: of a forward pass over a full context, for each token.
        cache: bytes of keys and values of one sequence.
        activations: bytes kept for the backward pass of one sequence.
    """

    parameters: int
    flops: float
    cache: int
    activations: int


def bill_of(program: Program, width: int) -> Bill:
    """Return what one sequence of the full context costs."""
    found = cost(program, dim=1, out=1, context=CONTEXT, width=width, number_bytes=NUMBER_BYTES)
    inside = found.parts[1:-1]
    return Bill(
        parameters=found.core_parameters,
        flops=sum(part.work.forward for part in inside) / CONTEXT,
        cache=cache_bytes(program, width=width, batch=1, length=CONTEXT, number_bytes=NUMBER_BYTES),
        activations=sum(part.work.kept for part in inside) * NUMBER_BYTES,
    )


def looped(width: int, r: int) -> Program:
    """Return the looped program with r repetitions."""
    return presets.algoformer(ENDS, LOOP, ENDS, steps=r, heads=width // HEAD, positions="rope")


def equal_layers(width: int, r: int, phi: float) -> int:
    """Return the layers of the plain transformer of the same width that has the same loss by the law."""
    parts = {part.name: part for part in cost(looped(width, r), dim=1, out=1, context=1, width=width).parts}
    layer = parts["loop"].parameters / LOOP
    return round((parts["pre"].parameters + parts["post"].parameters) / layer + r**phi * LOOP)


def rows(source: Source, repetitions: tuple[int, ...] = (1, 2, 4, 8)) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for every size and number of repetitions; a star marks extrapolation."""
    low, high = source.flops
    for name, width in WIDTHS.items():
        for r in repetitions:
            layers = equal_layers(width, r, source.phi)
            loop = bill_of(looped(width, r), width)
            plain = bill_of(presets.standard(layers, heads=width // HEAD, positions="rope"), width)
            trained = 6 * TOKENS_PER_PARAMETER * plain.parameters**2
            mark = "" if low <= trained <= high else "*"
            yield (
                f"{name}{mark}",
                r,
                f"{_si(loop.parameters)} / {_si(plain.parameters)}",
                f"{_si(loop.flops)} / {_si(plain.flops)}",
                f"{_si(loop.cache)} / {_si(plain.cache)}",
                f"{_si(loop.activations)} / {_si(plain.activations)}",
                f"{2 * ENDS + LOOP * r} / {layers}",
            )


def _si(number: float) -> str:
    """Return a number with three digits and a unit of a power of 1000."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def page(sources: list[Source]) -> str:
    """Return the tables with their assumptions, in Markdown."""
    columns = (
        "size",
        "r",
        "parameters",
        "FLOPs a token",
        "KV cache, bytes",
        "activations, bytes",
        "layer calls",
    )
    text = [HEAD_LINES]
    for source in sources:
        text.append(f"## φ = {source.phi:.2f}\n\nFrom {source.words}.\n")
        text.append(markdown_table(Table(columns=columns, rows=tuple(rows(source)))))
    return "\n".join(text)


HEAD_LINES = f"""# What a loop costs when it is deployed

Each cell is "loop / plain transformer of equal loss by the law". The loop has {ENDS} + {LOOP} + {ENDS}
layers, of which the {LOOP} run r times. By the law it equals a plain transformer of the same width with
{2 * ENDS} + r^φ · {LOOP} layers, rounded. Below φ = 1 a loop saves parameters and pays with FLOPs, KV cache
and activation memory.

- Nothing here was trained: the table is `cost()` and `cache_bytes()` applied to a fitted φ.
- The law is assumed to hold at equal width with more layers, and φ not to depend on size or data.
- FLOPs are those of a forward pass over {CONTEXT:,} tokens, divided by their number. The KV cache holds keys
  and values of every iteration for one sequence. Activations are what one sequence keeps for the backward
  pass. Numbers have {NUMBER_BYTES} bytes.
- Embeddings and output matrix are left out: they are the same for both.
- \\* marks extrapolation: a model trained on {TOKENS_PER_PARAMETER} tokens for each parameter of the plain
  transformer takes more or fewer training FLOPs than all runs that φ was fitted to.

Made by `python -m scripts.studies.deployment --out results/scaling`.
"""


def source_of(file: Path) -> Source:
    """Return φ of a fitted law, and the range of training FLOPs of its runs."""
    found = json.loads(file.read_text())
    low, high = found["bands"]["full"]
    words = f"{file.name}: {found['runs']} runs, 5–95 % band {low:.2f} to {high:.2f}"
    return Source(phi=found["law"]["phi"]["full"], words=words, flops=tuple(found["flops"]))


def main() -> None:
    """Write the table for the published φ, and for a fitted one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="Folder for the table.")
    parser.add_argument("--law", type=Path, nargs="*", default=[], help="Files of fitted laws.")
    chosen = parser.parse_args()
    text = page([PUBLISHED, *map(source_of, chosen.law)])
    write_atomically(chosen.out / "deployment.md", lambda path: path.write_text(text))
    print(text)


if __name__ == "__main__":
    main()
