"""Puzzles: one looped layer against standard transformers of equal FLOPs and of equal parameters.

Four models answer the same prompts: one layer that loops; the same layer as a loop with two states (TRM) that
runs it as often; as many distinct layers as the loop has iterations (equal FLOPs); and one distinct layer
(equal parameters). Where every iteration of the loop has a target, the loop stands beside one layer only.
Parity has the loop alone. It is trained on up to 20 bits, short sequences first, and measured on 40 and 100,
with as many iterations as bits.

    python -m scripts.studies.puzzles --out results/puzzles                       4 × 4 boards and parity, CPU
    python -m scripts.studies.puzzles --out results/puzzles --size hops-small     or addition-small, CPU
    python -m scripts.studies.puzzles --out results/puzzles --size sudoku9-9k-cpu --puzzles FILE
    python -m scripts.studies.puzzles --out results/puzzles --size sudoku9-9k --puzzles FILE --device cuda
    python -m scripts.studies.puzzles --out results/puzzles --size hops-full --device cuda
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from algoformer.depth import Depth
from algoformer.evaluation import Cell, Evaluation, Table, bootstrap, evaluate, evaluation_prompts
from algoformer.evaluation.solvers import full_precision
from algoformer.model import presets
from algoformer.model.program import Layers, Loop, Program, default_steps, traced_part
from algoformer.model.two_states import TwoStates
from algoformer.report import markdown_table
from algoformer.tasks import Hops, Parity, Sudoku
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig
from scripts.studies.puzzle_sizes import SIZES, USUAL, Size
from scripts.studies.runs import StudyRun, add_options, make

LOW_STEPS = 4
"""Runs of the layer in an iteration of the loop with two states."""


def programs_of(size: Size) -> dict[str, Program]:
    """Return the programs by name; all but one of equal parameters run as many layers on a prompt."""
    layer: dict[str, Any] = {"heads": size.heads, "causal": False}
    low = Loop(Layers(1, **layer), steps=LOW_STEPS, name="low")
    found = {
        "looped": Program(
            Loop(Layers(1, **layer), steps=size.steps, name="loop", step_signal=size.step_signal)
        ),
        "standard-equal-parameters": presets.standard(1, **layer),
    }
    if size.training.get("loss") == "stages":  # the others have no iterations of a stage
        return found
    return found | {
        "two-states": Program(TwoStates(low, steps=size.steps // LOW_STEPS, name="loop")),
        "standard-equal-flops": presets.standard(size.steps, **layer),
    }


def puzzle_runs(name: str, seeds: list[int], puzzles: str, steps: int | None) -> Iterator[StudyRun]:
    """Yield the runs on puzzles, seed by seed."""
    size = SIZES[name]
    task = size.task(puzzles)
    for seed in seeds:
        for kind, program in programs_of(size).items():
            words = {**USUAL, **size.training, "seed": seed, **({"steps": steps} if steps else {})}
            if traced_part(program) is None:
                words |= {"loss": "mean", "stage_steps": None}
            else:
                words["window"] = min(words["window"], default_steps(program))
            yield StudyRun(
                name=f"{kind}/seed{seed}",
                experiment=Experiment(program, task, width=size.width, training=TrainConfig(**words)),
            )


LENGTHS = (20, 40, 100)
"""Bits on which parity is measured; training has at most the first number."""

CURRICULUM = ((8, 500), (20, 900))
"""Largest number of bits and steps of each part of the training on parity."""

PARITY: dict[str, Any] = {
    **USUAL,
    "lr": 1e-2,
    "batch_size": 32,
    "backprop": "full",
    "loss": "stages",
    "stage_steps": 1,
}
"""Every iteration has a target: after t iterations, the parity of the last t bits."""


def parity_program() -> Program:
    """Return one causal layer with rotary positions, looped.

    With the base 3 even the slowest angle goes once around within 20 rows, so that farther rows have no angle
    that training has not seen. Wide heads have more angles, which agree again only far away.
    """
    layer: dict[str, Any] = {"heads": 2, "head_width": 32, "positions": "rope", "rope_base": 3}
    return presets.looped(1, steps=LENGTHS[0], **layer)


def parity_runs(seeds: list[int], steps: int | None) -> Iterator[StudyRun]:
    """Yield the runs on parity, with as many iterations as the longest sequences have bits."""
    for seed in seeds:
        parts = []
        for length, own in CURRICULUM:
            depth = Depth(kind="fixed", mean=float(length))
            words = {**PARITY, "steps": steps or own, "seed": seed, "window": length, "depth": depth}
            training = TrainConfig(**words)
            parts.append(Experiment(parity_program(), Parity(length=length), width=32, training=training))
        yield StudyRun(name=f"looped/seed{seed}", experiment=parts[-1], before=tuple(parts[:-1]))


def measure_puzzles(run: StudyRun, model: Any, prompts: int) -> dict[str, Any]:
    """Return the share of solved prompts by iteration, with bands, and for boards by number of givens."""
    task, program = run.experiment.task, run.experiment.program
    if isinstance(task, Hops):
        task = replace(task, every_row=False)
    prompt = evaluation_prompts(task, count=prompts)
    trained = default_steps(program)
    steps = 4 * trained if traced_part(program) is not None else 1
    found = evaluate(model, prompt, steps=steps)
    curve = _by_iteration(found)
    at = curve["iterations"].index(trained)
    hardest = {}
    if isinstance(task, Sudoku):
        bare = evaluation_prompts(replace(task, least=0, most=0, boards=0, exchange=False), count=prompts)
        hardest = {
            "solved_without_added_givens": _by_iteration(evaluate(model, bare, steps=steps)),
            **_by_givens(model, prompt, trained),
        }
    return {
        "solved_by_iteration": curve,
        **hardest,
        "summary": {
            "prompts": prompt.batch,
            "iterations": trained,
            "solved": curve["solved"][at],
            "band": [curve["low"][at], curve["high"][at]],
            "wrong_answers": found.by_step.error[at],
        },
    }


def _by_iteration(found: Evaluation) -> dict[str, Any]:
    """Return the share of solved prompts after each iteration, with its band."""
    curve = found.unsolved
    assert curve is not None
    return {
        "iterations": [int(x) for x in curve.x],
        "solved": [round(1 - value, 5) for value in curve.error],
        "low": [round(1 - value, 5) for value in curve.high],
        "high": [round(1 - value, 5) for value in curve.low],
    }


def _by_givens(model: Any, prompt: Any, steps: int) -> dict[str, Any]:
    solved = _solved(model, prompt, steps)
    givens = (prompt.rows.argmax(dim=2) > 0).sum(dim=1).numpy()
    return {
        "solved_by_givens": {
            str(count): [float(solved[givens == count].mean()), int((givens == count).sum())]
            for count in sorted(set(givens.tolist()))
        }
    }


def _solved(model: Any, prompt: Any, steps: int) -> np.ndarray:
    device = next(model.parameters()).device
    with full_precision(model, device):
        answers = model(prompt.to(device), Unroll(steps=steps, window=1)).final.argmax(dim=-1).cpu()
    return (answers == prompt.targets.argmax(dim=-1)).all(dim=1).double().numpy()


def measure_parity(run: StudyRun, model: Any, prompts: int = 1024) -> dict[str, Any]:
    """Return the share of right answers at each length, with as many iterations as bits."""
    found: dict[str, Any] = {}
    for length in LENGTHS:
        prompt = evaluation_prompts(Parity(length=length, least=length), count=prompts)
        band = bootstrap(_solved(model, prompt, length))
        found[str(length)] = {"right": float(band.mean), "band": [float(band.low), float(band.high)]}
    return {"summary": found}


def table_of(found: Mapping[str, Any]) -> Table:
    """Return one row for every run."""
    rows: list[tuple[Cell, ...]] = []
    for name, run in sorted(found.items()):
        summary = run["summary"]
        if "solved" in summary:
            parts = {f"{summary['iterations']} iterations": summary}
        else:
            parts = {f"{length} bits": {**item, "solved": item["right"]} for length, item in summary.items()}
        for words, item in parts.items():
            low, high = (f"{100 * end:.1f}" for end in item["band"])
            share = f"{100 * item['solved']:.1f} ({low} to {high})"
            rows.append((name, run["parameters"], words, share))
    return Table(columns=("run", "parameters", "at", "solved, %"), rows=tuple(rows))


def main() -> None:
    """Train and measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--puzzles", default="", help="File of 9 × 9 puzzles, one a line.")
    parser.add_argument("--boards", type=int, default=1024, help="Prompts of the test split to measure on.")
    chosen = add_options(parser, ("cpu", *SIZES, "parity"))
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    for size in ("sudoku4", "parity") if chosen.size == "cpu" else (chosen.size,):
        file = chosen.out / f"{size}.json"
        if size == "parity":
            found = make(list(parity_runs(chosen.seeds, chosen.steps)), measure_parity, chosen, file)
        else:
            runs = list(puzzle_runs(size, chosen.seeds, chosen.puzzles, chosen.steps))
            found = make(runs, partial(measure_puzzles, prompts=chosen.boards), chosen, file)
        if found["runs"] and not (chosen.list or chosen.steps):
            file.with_suffix(".md").write_text(markdown_table(table_of(found["runs"])))


if __name__ == "__main__":
    main()
