"""Milliseconds for a training step: eager, captured and compiled, and whether they do the same.

    PYTHONPATH=src python3 benchmarks/step_time.py                 on a GPU, about 3 minutes
    PYTHONPATH=src python3 benchmarks/step_time.py --quick         tiny sizes, anywhere
    ... --cases algoformer_full --modes compiled:bf16 --attention all

The size is the paper's: batch 64, 41 points, 20 coordinates, width 256, 8 heads, 20 iterations, window 15.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from algoformer import programs, tasks
from algoformer.model.cost import cost
from algoformer.training.config import Experiment, Ramp, TrainConfig, build_model
from algoformer.training.engine import Plan, open_engine
from algoformer.training.precision import matmul_precision
from algoformer.training.schedule import learning_rate, stage
from algoformer.training.step import TrainingStep

HERE = Path(__file__).parent

PEAK = 790e12
"""FLOP/s of bf16 matrix products that one H200 was seen to reach."""

MODES = (("eager", "fp32"), ("eager", "tf32"), ("graph", "bf16"), ("compiled", "bf16"))
"""What is timed; the second is the faithful reference that ratios are taken to."""

ATTENTION = {
    "default": None,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is."""

    batch: int = 64
    points: int = 41
    dim: int = 20
    width: int = 256
    heads: int = 8
    steps: int = 20
    window: int = 15
    layers: int = 12
    blocks: int = 8
    block: int = 10
    compared: int = 20


QUICK = Size(
    batch=4, points=5, dim=3, width=16, heads=2, steps=4, window=3, layers=3, blocks=2, block=2, compared=5
)


def experiments(size: Size, precision: str) -> dict[str, Experiment]:
    """The models that are timed, all with clipping, curricula and a cosine: the whole step."""
    dims, points = Ramp(start=min(5, size.dim), increment=1), Ramp(start=min(11, size.points), increment=2)

    def experiment(program: programs.Program, grad: str) -> Experiment:
        training = TrainConfig(
            batch=size.batch,
            window=size.window,
            grad=grad,
            precision=precision,
            clip=1.0,
            schedule="cosine",
            dims=dims,
            points=points,
        )
        task = tasks.LinearRegression(dim=size.dim, points=size.points)
        return Experiment(program=program, task=task, width=size.width, training=training)

    algoformer = programs.algoformer(steps=size.steps, heads=size.heads)
    looped = programs.looped(steps=size.steps, heads=size.heads)
    return {
        "algoformer_full": experiment(algoformer, "full"),
        "algoformer_window": experiment(algoformer, "window"),
        "looped_window": experiment(looped, "window"),
        "looped_full": experiment(looped, "full"),
        "standard": experiment(programs.standard(size.layers, heads=size.heads), "full"),
    }


class Stepper:
    """One experiment on one engine, step after step."""

    def __init__(self, experiment: Experiment, engine: str, device: torch.device) -> None:
        self.experiment = experiment
        self.step = 0
        self.began = time.perf_counter()
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(matmul_precision(experiment.training.precision))
        generator = torch.Generator(device).manual_seed(0)
        self.training = TrainingStep(experiment, build_model(experiment).to(device), generator)
        self.run = self.stack.enter_context(
            open_engine(self.training, Plan(engine=engine, reason="benchmark"))
        )

    def take(self, count: int) -> None:
        """Take steps without waiting for them."""
        for _ in range(count):
            now = stage(self.experiment, self.step)
            self.training.prepare(learning_rate(self.experiment.training, self.step), now)
            self.run(now.unroll)
            self.step += 1

    def losses(self, count: int) -> list[float]:
        """The loss of each of the next steps."""
        found = []
        for _ in range(count):
            self.training.sums.zero_()
            self.take(1)
            found.append(self.training.read_sums()[0])
        return found

    def close(self) -> None:
        """Give everything back."""
        self.stack.close()


def measure(experiment: Experiment, engine: str, size: Size, device: torch.device) -> dict[str, float]:
    """Time one experiment on one engine."""
    clear(device)
    with contextlib.closing(Stepper(experiment, engine, device)) as stepper:
        stepper.losses(1)  # waits for the device
        ready = time.perf_counter() - stepper.began
        # eager steps are long, and short blocks will do
        block = max(2, size.block // 3) if engine == "eager" else size.block
        stepper.take(block)
        times = sorted(time_block(stepper, block, device) for _ in range(size.blocks))
        memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        loss, _ = stepper.training.read_sums()
    return {
        "ms": statistics.median(times),
        "ms_fastest": times[0],
        "ms_slowest": times[-1],
        "ready_seconds": ready,
        "peak_mebibytes": memory / 2**20,
        "mean_loss": loss / stepper.step,
    }


def clear(device: torch.device) -> None:
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def time_block(stepper: Stepper, count: int, device: torch.device) -> float:
    """Milliseconds a step, over a block of steps."""
    if device.type != "cuda":
        began = time.perf_counter()
        stepper.take(count)
        return 1000 * (time.perf_counter() - began) / count
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    stepper.take(count)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / count


def compare(experiment: Experiment, engine: str, size: Size, device: torch.device) -> float:
    """The largest relative difference to eager among the losses of the first steps, in fp32."""
    found = []
    for name in ("eager", engine):
        clear(device)
        with contextlib.closing(Stepper(experiment, name, device)) as stepper:
            found.append(stepper.losses(size.compared))
    return max(abs(fast - slow) / slow for slow, fast in zip(*found, strict=True))


def flops(experiment: Experiment) -> int:
    """Of the model's products in one training step."""
    task, unroll = experiment.task, stage(experiment, 0).unroll
    sizes = {"dim": task.dim, "out": task.out, "context": task.context, "width": experiment.width}
    batch = experiment.training.batch
    return cost(experiment.program, **sizes, unroll=unroll, batch=batch, points=task.points).training


def attention(name: str) -> contextlib.AbstractContextManager[object]:
    backend = ATTENTION[name]
    if backend is None:
        return contextlib.nullcontext()
    # the plain products stay allowed, for precisions and devices that the kernel does not know
    return sdpa_kernel([backend, SDPBackend.MATH], set_priority=True)


def main() -> None:
    arguments = parse()
    device = torch.device(arguments.device)
    size = QUICK if arguments.quick else Size()
    began = time.perf_counter()
    late = lambda: time.perf_counter() - began > arguments.budget  # noqa: E731
    rows: list[dict[str, object]] = []
    for mode in ATTENTION if arguments.attention == "all" else [arguments.attention]:
        with attention(mode):
            rows += time_all(arguments, size, device, mode, late)
    equal = {} if arguments.skip_check else check_all(arguments, size, device, late)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    record = {
        "device": name,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "size": asdict(size),
        "rows": rows,
        "largest_relative_difference_fp32": equal,
        "seconds": time.perf_counter() - began,
    }
    print(f"{name}, torch {torch.__version__}; {record['seconds']:.0f} s in all")
    target = arguments.json or (None if arguments.quick else HERE / "step_time.json")
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        print(f"→ {target}")


def parse() -> argparse.Namespace:
    known = list(experiments(QUICK, "fp32"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cases", nargs="+", choices=known, default=known)
    parser.add_argument("--modes", nargs="+", help="engine:precision, e.g. compiled:bf16 compiled:tf32")
    parser.add_argument("--attention", choices=[*ATTENTION, "all"], default="default")
    parser.add_argument("--skip-check", action="store_true", help="do not compare with eager in fp32")
    parser.add_argument(
        "--budget", type=float, default=165.0, help="seconds after which nothing new is begun"
    )
    parser.add_argument("--json", type=Path, help="where to write; by default beside this file if not quick")
    return parser.parse_args()


def time_all(arguments, size, device, mode, late) -> list[dict[str, object]]:  # type: ignore[no-untyped-def]
    rows: list[dict[str, object]] = []
    modes = [tuple(item.split(":")) for item in arguments.modes or ()] or MODES
    if device.type != "cuda":
        modes = [("eager", "fp32")]
    header = f"{'case':<19}{'engine':<10}{'in':<6}{'ms':>9}{'spread':>17}{'× eager':>9}"
    print(f"{header}{'ready s':>9}{'MiB':>8}{'of peak':>9}   attention {mode}")
    for case in arguments.cases:
        reference = None
        for engine, precision in modes:
            if late():
                print(f"{case:<19}{engine:<10}{precision:<6}  left out: the time is up")
                continue
            experiment = experiments(size, precision)[case]
            row = measure(experiment, engine, size, device)
            if (engine, precision) in (("eager", "tf32"), ("eager", "fp32")):
                reference = row["ms"]
            peak = flops(experiment) / (row["ms"] / 1000) / PEAK
            ratio = reference / row["ms"] if reference else float("nan")
            print(
                f"{case:<19}{engine:<10}{precision:<6}{row['ms']:>9.3f}"
                f"{row['ms_fastest']:>9.3f}–{row['ms_slowest']:<7.3f}{ratio:>9.2f}"
                f"{row['ready_seconds']:>9.1f}{row['peak_mebibytes']:>8.0f}{100 * peak:>8.1f}%",
                flush=True,
            )
            facts = {"case": case, "engine": engine, "precision": precision, "attention": mode}
            rows.append({**facts, **row, "times_eager": ratio, "share_of_peak": peak})
    return rows


def check_all(arguments, size, device, late) -> dict[str, float]:  # type: ignore[no-untyped-def]
    found: dict[str, float] = {}
    engines = ("graph", "compiled") if device.type == "cuda" else ()
    for engine in engines:
        for case in arguments.cases:
            if engine == "compiled" and late():
                print(f"{case} {engine}: comparison left out, the time is up")
                continue
            difference = compare(experiments(size, "fp32")[case], engine, size, device)
            verdict = "same" if difference <= 1e-5 else "DIFFERENT"
            print(f"{case:<19}{engine:<10}fp32  {size.compared} losses within {difference:.1e}: {verdict}")
            found[f"{case}/{engine}"] = difference
    return found


if __name__ == "__main__":
    main()
