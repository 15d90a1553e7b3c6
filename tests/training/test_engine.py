import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import programs
from algoformer.training import train
from algoformer.training.engine import CapturedStep, Plan, Snapshot, open_engine, plan_engine
from training.small import same_weights, small, stepper, told

TESTS = Path(__file__).parents[1]
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("wanted", "device", "steps", "engine", "word"),
    [
        ("auto", CPU, 500_000, "eager", "CPU"),
        ("auto", CUDA, 2000, "graph", "does not pay"),
        ("eager", CUDA, 10, "eager", "asked for"),
        ("graph", CUDA, 10, "graph", "asked for"),
        ("compiled", CUDA, 10, "compiled", "asked for"),
    ],
)
def test_the_plan_says_what_and_why(
    wanted: Any, device: torch.device, steps: int, engine: str, word: str
) -> None:
    plan = plan_engine(wanted, device=device, steps=steps)
    assert plan.engine == engine
    assert word in plan.reason
    assert str(plan) == f"engine {engine}: {plan.reason}"


@pytest.mark.parametrize(("found", "engine"), [(object(), "compiled"), (None, "graph")])
def test_long_runs_are_compiled_where_triton_is(monkeypatch: Any, found: Any, engine: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    assert plan_engine("auto", device=CUDA, steps=2001).engine == engine


@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a CUDA device, got cpu"):
        plan_engine("graph", device=CPU, steps=1)
    with pytest.raises(ValueError, match="engine must be one of auto, eager, graph, compiled"):
        plan_engine("fast", device=CPU, steps=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a CUDA device"):
        train(small(), engine="graph")


def test_a_run_tells_its_engine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "algoformer.training"):
        run = train(small(steps=1))
    assert run.plan.engine == "eager"
    assert "engine eager: on a CPU" in caplog.text


MUON: dict[str, Any] = {"optimizer": "muon", "weight_decay": 0.1, "ema": 0.9}
ADAMW: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "wsd", "cooldown": 0.5}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("settings", [{}, ADAMW, MUON], ids=["adam", "adamw", "muon"])
def test_a_snapshot_undoes_steps(started: bool, settings: dict[str, Any]) -> None:
    experiment = small(burn_in=(1,), **settings)
    step, plain = stepper(experiment), stepper(experiment)
    if started:
        step.run(0)
        plain.run(0)
    before = Snapshot(step)
    for number in range(3):
        step.run(number)
    assert not same_weights(step.model, plain.model)
    places = [weight.data_ptr() for weight in step.model.parameters()]
    before.restore()
    assert places == [weight.data_ptr() for weight in step.model.parameters()]
    assert same_weights(step.model, plain.model)
    assert step.read_sums() == plain.read_sums()
    assert same_weights(step.trained, plain.trained)
    for number in range(2):
        step.run(number)
        plain.run(number)
    assert same_weights(step.model, plain.model)
    assert same_weights(step.trained, plain.trained)
    assert step.read_sums() == plain.read_sums()
    pairs = zip(step.changing(), plain.changing(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("settings", [{}, ADAMW, MUON], ids=["adam", "adamw", "muon"])
def test_what_a_step_changes_is_what_it_says_it_changes(settings: dict[str, Any]) -> None:
    experiment = small(**settings)
    step = stepper(experiment)
    step.run(0)
    told = {tensor.data_ptr() for tensor in step.changing()}
    found = [
        step.batches.dims,
        step.batches.weights,
        step.optimizer.rate,
        *step.model.parameters(),
        step.sums,
    ]
    found += [tensor for kept in step.optimizer.state.values() for tensor in kept.values()]
    if step.average is not None:
        found += [*step.average.model.parameters(), step.average.updates]
    before = [tensor.detach().clone() for tensor in found]
    step.run(1)
    for tensor, old in zip(found, before, strict=True):
        assert torch.equal(tensor, old) or tensor.data_ptr() in told


def test_the_eager_engine_is_the_step_itself() -> None:
    step = stepper(small())
    with open_engine(step, Plan(engine="eager", reason="")) as run:
        assert run == step.run


COMPILED = """
import sys, torch
from algoformer import programs
from algoformer.depth import Depth
from training.small import small, stepper, same_weights
from algoformer.training.compiled import compiled_body, compiled_pieces
from algoformer.training.config import unroll_at
from algoformer.trace import Unroll
import torch._dynamo.utils as counted

AGAIN = {"gradient_checkpointing": True}
PER_SEQUENCE = Depth.parse("poisson:3,per=sequence")
CASES = {
    "algoformer": (programs.algoformer(steps=3, heads=2), {"burn_in": (0, 1, 4)}, 4),
    "half again": (programs.looped(steps=3, heads=2), {"precision": "bf16", **AGAIN}, 3),
    "deep": (programs.standard(5, heads=2), {}, 2),
    "inner": (programs.nested(0, 1, 1, 0, steps=2, heads=2), {"inner_depth": Depth.parse("list:1,3,6")}, 3),
    "segments": (programs.looped(steps=3, heads=2), {"segments": 2, "backprop": "full"}, 1),
    "sequences": (programs.looped(steps=3, heads=2), {"depth": PER_SEQUENCE, "window": 1}, 2),
}
for name, (program, settings, graphs) in CASES.items():
    torch._dynamo.reset()
    counted.counters.clear()
    experiment = small(program, **settings)
    fast, plain = stepper(experiment), stepper(experiment)
    with compiled_pieces(fast.model, backend="aot_eager"):
        for number in range(4):
            fast.run(number)
            plain.run(number)
        found = counted.counters["stats"]["unique_graphs"]
        assert found == graphs, f"{name}: {found} pieces compiled, {graphs} expected"
        if name == "algoformer":
            prompt = plain.batches.current().prompt
            kept = Unroll(steps=2, window=1, keep=("loop[2]", "pre/0"))
            one, other = fast.model(prompt, kept), plain.model(prompt, kept)
            assert torch.equal(one.states["loop[2]"], other.states["loop[2]"])
    assert same_weights(fast.model, plain.model), name
    assert fast.read_sums() == plain.read_sums(), name
    left = [m for m in fast.model.modules() if "forward" in vars(m) or "step" in vars(m)]
    assert not left, f"{name}: the model was not put back"
WHOLE = {
    "algoformer": (programs.algoformer(steps=3, heads=2), {"burn_in": (0, 1, 4)}, True),
    "again": (programs.algoformer(steps=3, heads=2), {"backprop": "full", **AGAIN}, False),
    "two loops": (programs.two_loops(steps=3, heads=2), {"backprop": "full"}, True),
}
for name, (program, settings, compiles) in WHOLE.items():
    torch._dynamo.reset()
    counted.counters.clear()
    experiment = small(program, **settings)
    fast, plain = stepper(experiment), stepper(experiment)
    ways = set()
    with compiled_body(fast.model, backend="aot_eager"):
        for number in range(8):
            unroll = unroll_at(experiment.program, experiment.training, number)
            ways.add(unroll)
            fast.run(number)
            plain.run(number)
        with torch.no_grad():
            prompt = plain.batches.current().prompt
            unroll = Unroll(steps=2, window=1)
            assert torch.equal(fast.model(prompt, unroll).final, plain.model(prompt, unroll).final)
        found = counted.counters["stats"]["unique_graphs"]
        assert found == compiles * len(ways), f"{name}: {found} bodies compiled for {len(ways)} ways"
    assert same_weights(fast.model, plain.model), name
    assert "unroll" not in vars(fast.model.body), f"{name}: the model was not put back"
print("same")
"""


def test_compiled_pieces_do_what_the_model_does() -> None:
    # in a process of its own: the shape hook of the tests cannot be compiled
    command = [sys.executable, "-W", "ignore", "-c", COMPILED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "same"


class PretendCuda:
    """Enough of torch.cuda to walk through a capture: what is captured does not happen, a replay does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
        self.step, self.captures, self.generators = step, 0, []
        outer = self

        class Graph:
            def register_generator_state(self, generator: torch.Generator) -> None:
                outer.generators.append(generator)

            def replay(self) -> None:
                self.take()  # type: ignore[attr-defined]

        class Stream:
            def __init__(self, device: Any = None) -> None:
                pass

            def wait_stream(self, other: Any) -> None:
                pass

        @contextmanager
        def graph(captured: Any, pool: Any, stream: Any) -> Iterator[None]:
            before = Snapshot(step)
            yield
            before.restore()
            outer.captures += 1

        capture = CapturedStep._capture

        def remember(self: CapturedStep) -> Any:
            captured: Any = capture(self)
            captured.take = step.take
            return captured

        monkeypatch.setattr(CapturedStep, "_capture", remember)

        for name, value in {
            "CUDAGraph": Graph,
            "Stream": Stream,
            "graph": graph,
            "graph_pool_handle": lambda: (0, 1),
            "stream": lambda stream: nullcontext(),
            "device": lambda device: nullcontext(),
            "current_stream": Stream,
            "synchronize": lambda: None,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("settings", [{}, ADAMW, MUON, {"loss": "log"}], ids=["adam", "adamw", "muon", "log"])
def test_captures_are_made_once_for_each_unroll_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    experiment = small(burn_in=(0, 1, 2), steps=15, clip_norm=0.5, **settings)
    step, plain = stepper(experiment), stepper(experiment)
    pretended = PretendCuda(monkeypatch, step)
    captured = CapturedStep(step)
    for number in range(15):
        captured.run(number)
        plain.run(number)
        assert step.read_sums() == plain.read_sums()
    assert same_weights(step.model, plain.model)
    assert same_weights(step.trained, plain.trained)
    assert torch.equal(step.batches.generator.get_state(), plain.batches.generator.get_state())
    assert pretended.captures == len(captured.graphs) == 3
    assert pretended.generators == [step.batches.generator] * 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    "settings",
    [
        {"backprop": "full"},
        {"burn_in": (0, 3)},
        {"clip_norm": 0.1},
        {"loss": "log"},
        {"precision": "bf16", "burn_in": (0, 3)},
        ADAMW,
        {**MUON, "schedule": "cosine"},
    ],
)
def test_a_captured_run_takes_the_same_steps_as_an_eager_one(settings: dict[str, Any]) -> None:
    experiment = small(programs.algoformer(steps=3, heads=2), steps=20, log_every=1, **settings)
    eager = train(experiment, device="cuda", engine="eager")
    graph = train(experiment, device="cuda", engine="graph")
    for one, other in zip(eager.metrics, graph.metrics, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
    # Muon multiplies in bf16, where two launches of one product may differ
    close = 1e-3 if experiment.training.optimizer == "muon" else 1e-5
    for one, other in zip(eager.model.parameters(), graph.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=close)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("settings", [{}, ADAMW, MUON], ids=["adam", "adamw", "muon"])
def test_a_captured_run_goes_on_with_the_same_prompts(tmp_path: Any, settings: dict[str, Any]) -> None:
    experiment = small(steps=20, log_every=1, checkpoint_every=7, **settings)
    whole = train(experiment, device="cuda", engine="graph")

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "run", device="cuda", engine="graph", callbacks=told(stop))
    rest = train(experiment, tmp_path / "run", device="cuda", engine="graph", resume=True)
    for one, other in zip(whole.metrics, rest.metrics, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
