"""`python -m benchmarks`: how fast it is here, beside the same step written by hand."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

import torch
import tyro

from algoformer.cli import exit_code
from algoformer.cli.parse import parse
from algoformer.cli.say import say
from algoformer.common.devices import pick_device
from algoformer.common.names import check_choice
from algoformer.evaluation import Table
from algoformer.report import show
from algoformer.training.config import Precision
from benchmarks import CASES, QUICK, SECTIONS, Setting, run_benchmark
from benchmarks.cases import DEFAULT_CASES, FULL
from benchmarks.contestants import Engine
from benchmarks.run import Rows
from benchmarks.setting import Row

PROGRAM = "python -m benchmarks"

DESCRIPTION = f"""Time the library beside plain PyTorch on this machine.

Sections: {", ".join(SECTIONS)}; cases: {", ".join(CASES)}.

Examples:
  python -m benchmarks --quick                                  tiny sizes, anywhere, in seconds
  python -m benchmarks --json numbers.json                      all that makes sense on this device
  python -m benchmarks --sections peers --json peers.json       GPT-2 in transformers beside the same here
  python -m benchmarks --sections lines --before ../other       commands for text beside another checkout
  python -m benchmarks --sections steps --cases looped_window --engine graph compiled --precision tf32 bf16
"""

HEADINGS = {
    "ms_fastest": "from",
    "ms_slowest": "to",
    "times_plain": "× plain",
    "teraflops": "TFLOP/s",
    "ready_seconds": "ready s",
    "ready_cold_seconds": "cold s",
    "ready_warm_seconds": "warm s",
    "peak_mebibytes": "peak MiB",
    "formula_mebibytes": "formula MiB",
    "times_plain_fastest": "× plain, fastest",
    "steps_per_second": "steps/s",
    "slowest_process": "slowest",
    "times_one": "× one",
    "losses_differ_by": "losses differ by",
    "errors_differ_by": "errors differ by",
    "first_seconds": "first time",
    "tokens_per_second": "tokens/s",
    "times_uncached": "× uncached",
    "times_transformers": "× transformers",
    "seconds_fastest": "from",
    "seconds_slowest": "to",
    "compiled_by_them": "compiled",
    "cache_mebibytes": "cache MiB",
    "same_tokens": "same tokens",
    "processor_seconds": "processor s",
    "times_before": "× before",
    "times_before_processor": "× before, processor",
    "same_lines": "same lines",
}
"""What the columns of a table are called; any other by its own name."""

SHARES = ("same_tokens", "same_lines")
"""Columns in per cent."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of `python -m benchmarks`."""

    sections: Annotated[
        tuple[str, ...], tyro.conf.arg(help="What to measure; by default all that this device is for.")
    ] = ()
    cases: Annotated[tuple[str, ...], tyro.conf.arg(help="Which models.")] = DEFAULT_CASES
    engine: Annotated[
        tuple[Engine, ...], tyro.conf.arg(help="How our steps are taken; by default the fastest.")
    ] = ()
    precision: Annotated[
        tuple[Precision, ...], tyro.conf.arg(help="Of our products; by default bf16 on CUDA, else fp32.")
    ] = ()
    device: Annotated[Literal["auto", "cpu", "cuda"], tyro.conf.arg(help="Where.")] = "auto"
    processes: Annotated[tuple[int, ...], tyro.conf.arg(help="How many runs at once are tried.")] = (
        1,
        2,
        3,
        4,
    )
    check: Annotated[bool, tyro.conf.arg(help="Compare the engines' losses over 20 steps in fp32.")] = False
    before: Annotated[
        Path | None, tyro.conf.arg(help="Another checkout of this repository, for the section lines.")
    ] = None
    quick: Annotated[bool, tyro.conf.arg(help="Tiny sizes, to see that it runs.")] = False
    budget: Annotated[float, tyro.conf.arg(help="Seconds after which nothing new is begun.")] = 540.0
    json: Annotated[Path | None, tyro.conf.arg(help="Write the rows here, each when it is there.")] = None


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code, as `algoformer.cli.main` does."""
    words = sys.argv[1:] if arguments is None else arguments
    return exit_code(lambda: run_command(words), name=PROGRAM)


def run_command(arguments: list[str]) -> int:
    """Measure and print."""
    chosen = parse(BenchOptions, arguments, command="", description=DESCRIPTION, program=PROGRAM)
    for name in chosen.sections:
        check_choice("section", name, SECTIONS)
    for name in chosen.cases:
        check_choice("case", name, CASES)
    if not chosen.budget > 0:
        raise ValueError(f"budget must be positive, got {chosen.budget}")
    if not all(count >= 1 for count in chosen.processes):
        raise ValueError(f"processes must be at least 1, got {chosen.processes}")
    if chosen.before is not None and not (chosen.before / "src" / "algoformer").is_dir():
        raise ValueError(f"before must be a checkout of this repository, got {chosen.before}")
    device = torch.device(pick_device(chosen.device))
    on_cuda = device.type == "cuda"
    for engine in {"graph", "fused"} & set(chosen.engine):
        if not on_cuda:
            raise ValueError(f"engine {engine!r} needs a CUDA device, got {device}; choose eager or compiled")
    setting = Setting(
        device=device,
        size=QUICK if chosen.quick else FULL,
        cases=chosen.cases,
        engines=chosen.engine or (_fastest(quick=chosen.quick) if on_cuda else ("eager",)),
        precisions=chosen.precision or (("bf16",) if on_cuda else ("fp32",)),
        processes=chosen.processes,
        check=chosen.check,
        before=chosen.before,
    )
    found: Rows = {}

    def tell(section: str, row: Row) -> None:
        found.setdefault(section, []).append(row)
        print(_line(section, row), file=sys.stderr, flush=True)

    try:
        run_benchmark(
            setting,
            chosen.sections or default_sections(device),
            budget=chosen.budget,
            file=chosen.json,
            tell=tell,
            command=shlex.join(["python", "-m", "benchmarks", *arguments]),
        )
    finally:
        for section, rows in found.items():
            say(table_of(section, rows))
    if chosen.json is not None:
        print(chosen.json)
    return 0


def _fastest(*, quick: bool) -> tuple[Engine, ...]:
    # the kernels are not made for streams as narrow as those of the quick sizes
    return ("compiled",) if quick else ("fused",)


def default_sections(device: torch.device) -> tuple[str, ...]:
    """What is worth measuring on a device."""
    if device.type != "cuda":
        return ("cpu",)
    other = {"cpu", "lines", "page"}
    if importlib.util.find_spec("transformers") is None:
        other.add("peers")
    return tuple(name for name in SECTIONS if name not in other)


def table_of(section: str, rows: list[Row]) -> Table:
    """The rows of a section under all the names that occur in them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple(_cell(name, row.get(name)) for name in names) for row in rows)
    return Table(columns=tuple(HEADINGS.get(name, name) for name in names), rows=cells, title=section)


def _cell(name: str, value: str | int | float | bool | None) -> str | int | float | None:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if name in SHARES and value is not None:
        return f"{cast(float, value):.1%}"
    return value


def _line(section: str, row: Row) -> str:
    cells = (f"{HEADINGS.get(name, name)} {show(_cell(name, value))}" for name, value in row.items())
    return f"{section}: {', '.join(cells)}"
