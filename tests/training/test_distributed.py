"""One run on two processes, which talk by gloo: the same numbers as on one, whatever happens on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import Layers, Loop, Program, programs
from algoformer.cli import is_reported_by_rank_zero, main
from algoformer.model.loop_models import LOOP_MODELS
from algoformer.training import Run, load_checkpoint, read_metrics, train
from algoformer.training.distributed import DistributedGroup, _Agreement, _to_send, plan_group
from algoformer.training.engine import plan_engine
from algoformer.training.step import Stop
from algoformer.training.trainer import VARIABLES
from tiny import TINY
from training.pair import Mishap, Outcome, Pair
from training.small import small, timeless, told

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SETTINGS: dict[str, Any] = {
    "batch_size": 6,
    "steps": 30,
    "log_every": 1,
    "checkpoint_every": 10,
    "clip_norm": 0.5,
    "burn_in": (0, 1),
}
FILES = [".lock", "checkpoint.safetensors", "config.json", "metrics.jsonl"]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    both = Pair()
    yield both
    both.end()


@pytest.fixture(scope="module")
def alone() -> Run:
    return train(small(**SETTINGS))


def _check_curves(outcome: Outcome, run: Run, tolerance: float) -> None:
    assert outcome.error is None, outcome.error
    assert [row["step"] for row in outcome.metrics] == [row["step"] for row in run.metrics]
    for one, other in zip(run.metrics, outcome.metrics, strict=True):
        for name in ("loss", "error"):
            assert other[name] == pytest.approx(one[name], rel=tolerance), (name, one["step"])
        assert {**timeless([other])[0], "loss": 0, "error": 0} == {
            **timeless([one])[0],
            "loss": 0,
            "error": 0,
        }


def _check_weights(weights: dict[str, Any], run: Run) -> None:
    for name, weight in run.model.state_dict().items():
        found = torch.as_tensor(weights[name])
        if name.endswith("qkv.bias"):
            # what all keys share moves no softmax: the gradient of their bias is 0 up to rounding, and Adam
            # makes steps of the learning rate of whatever rounding leaves
            queries, _, values = found.chunk(3)
            one, _, other = weight.chunk(3)
            found, weight = torch.cat([queries, values]), torch.cat([one, other])
        torch.testing.assert_close(
            found, weight, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_take_the_steps_of_one(pair: Pair, alone: Run, tmp_path: Path, parallel: str) -> None:
    """Summed in another order, losses differ by roundings: 6e-8 each, far fewer than a hundred of them."""
    folders = [tmp_path / f"rank{rank}" for rank in range(2)]
    first, second = pair.train(small(**SETTINGS), folders, parallel=parallel)
    _check_curves(first, alone, 1e-5)
    _check_weights(first.weights, alone)
    assert first.metrics == second.metrics
    assert all((first.weights[name] == second.weights[name]).all() for name in first.weights)
    # the first one writes and reports, and what it writes is what one process would have written
    assert first.told == [*range(1, 31)]
    assert second.told == []
    assert sorted(path.name for path in folders[0].iterdir()) == FILES
    assert not folders[1].exists()
    saved = load_checkpoint(folders[0] / "checkpoint.safetensors")
    assert {"processes": 2, "parallel": parallel, "step": 30}.items() <= saved.card.items()
    for name, weight in saved.model.state_dict().items():
        assert torch.equal(weight, torch.as_tensor(first.weights[name]))
    assert timeless(read_metrics(folders[0])) == timeless(first.metrics)


def test_two_processes_take_the_steps_of_one_on_logarithms_of_errors(pair: Pair) -> None:
    experiment = small(**SETTINGS | {"loss": "log", "steps": 10})
    first, second = pair.train(experiment)
    run = train(experiment)
    _check_curves(first, run, 1e-5)
    _check_weights(first.weights, run)
    assert first.metrics == second.metrics


def test_in_half_precision_two_processes_stay_as_close_as_its_roundings_allow(pair: Pair) -> None:
    """A rounding to bf16 that falls the other way moves one weight by 2⁻⁸ of itself, and a mean less."""
    experiment = small(**SETTINGS | {"precision": "bf16", "steps": 10})
    first, second = pair.train(experiment)
    run = train(experiment)
    _check_curves(first, run, 2**-8)
    assert first.metrics[0]["loss"] == pytest.approx(run.metrics[0]["loss"], rel=1e-5)  # same weights yet
    assert all((first.weights[name] == second.weights[name]).all() for name in first.weights)


def test_sharded_half_precision_rounds_the_whole_weights(pair: Pair) -> None:
    experiment = small(**SETTINGS | {"precision": "bf16", "steps": 4})
    first, _ = pair.train(experiment, parallel="fsdp")
    _check_curves(first, train(experiment), 2**-8)


@pytest.mark.parametrize(
    "program",
    [
        programs.two_loops(steps=3, heads=2),  # a loop that is unrolled after one that runs as it says
        programs.nested(steps=3, inner_steps=2, heads=2, inject="gate"),
        programs.standard(3, heads=2),
    ],
    ids=["two_loops", "nested", "standard"],
)
def test_sharded_programs_of_any_shape_take_the_same_steps(pair: Pair, program: Any) -> None:
    experiment = small(program, batch_size=4, steps=4, log_every=1)
    first, _ = pair.train(experiment, parallel="fsdp")
    _check_curves(first, train(experiment), 1e-5)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize(("halt", "loss"), [("gate", "exit"), ("gate", "gate"), ("act", "mean")])
def test_a_loop_that_learns_to_halt_takes_the_same_steps(
    pair: Pair, halt: str, loss: str, parallel: str
) -> None:
    """The loss "gate" reaches the gate alone; the other weights have no gradient on any process."""
    program = Program(Loop(Layers(1, heads=2), 3, halt=halt))
    experiment = small(program, window=3, loss=loss, batch_size=4, steps=4, log_every=1)
    first, second = pair.train(experiment, parallel=parallel)
    run = train(experiment)
    _check_curves(first, run, 1e-5)
    _check_weights(first.weights, run)
    assert first.metrics == second.metrics


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (Program(Loop(Layers(1, heads=2), 3, start="vector")), {"window": 1}),
        (Program(Loop(Layers(1, heads=2), 3, inject="none")), {"window": 3, "segments": 2}),
        (LOOP_MODELS["trm"](1, low_steps=2, heads=2), {"window": 1, "segments": 2}),
    ],
    ids=["vector", "input", "trm"],
)
def test_gradients_that_do_not_reach_the_start_of_a_loop_take_the_same_steps(
    pair: Pair, program: Program, settings: dict[str, Any], parallel: str
) -> None:
    experiment = small(program, batch_size=4, steps=4, log_every=1, **settings)
    first, second = pair.train(experiment, parallel=parallel)
    run = train(experiment)
    _check_curves(first, run, 1e-5)
    _check_weights(first.weights, run)
    assert first.metrics == second.metrics


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_run_goes_on_with_another_number_of_processes(
    pair: Pair, alone: Run, tmp_path: Path, parallel: str
) -> None:
    experiment, folder = small(**SETTINGS), tmp_path / "run"
    stop = Mishap(kind="progress", rank=0, step=7)
    outcomes = pair.train(experiment, folder, parallel=parallel, mishap=stop)
    assert [type(outcome.error) for outcome in outcomes] == [KeyboardInterrupt] * 2
    assert load_checkpoint(folder / "checkpoint.safetensors").card["step"] == 7

    def stop_again(done: int, total: int, metrics: Any) -> None:
        if done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, folder, resume=True, callbacks=told(stop_again))
    card = load_checkpoint(folder / "checkpoint.safetensors").card
    assert card["step"] == 15
    assert "processes" not in card
    first, second = pair.train(experiment, folder, parallel=parallel, resume=True)
    _check_curves(first, alone, 1e-5)
    _check_weights(first.weights, alone)
    assert first.metrics == second.metrics
    assert timeless(read_metrics(folder)) == timeless(first.metrics)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_other_optimizers_and_averages_take_the_same_steps(pair: Pair, tmp_path: Path, parallel: str) -> None:
    """Muon multiplies in bf16, and pieces of a matrix in another order than the whole."""
    settings = {
        "batch_size": 4,
        "steps": 6,
        "log_every": 1,
        "optimizer": "muon",
        "weight_decay": 0.1,
        "ema": 0.9,
    }
    experiment, folder = small(**settings), tmp_path / "run"
    pair.train(experiment, folder, parallel=parallel, mishap=Mishap(kind="progress", rank=0, step=3))
    first, _ = pair.train(experiment, folder, parallel=parallel, resume=True)
    run = train(experiment)
    _check_curves(first, run, 1e-4)
    for name, weight in run.model.state_dict().items():
        torch.testing.assert_close(torch.as_tensor(first.weights[name]), weight, rtol=0, atol=2e-3)


def test_a_checkpoint_in_the_middle_of_a_row_of_metrics_keeps_the_mean_over_processes(
    pair: Pair, tmp_path: Path
) -> None:
    experiment, folder = small(batch_size=4, steps=6, log_every=4, checkpoint_every=2), tmp_path / "run"
    stop = Mishap(kind="nan", rank=1, step=3)
    outcomes = pair.train(experiment, folder, mishap=stop)
    assert load_checkpoint(folder / "checkpoint.safetensors").card["step"] == 2
    assert [type(outcome.error) for outcome in outcomes] == [FloatingPointError] * 2
    run = train(experiment, folder, resume=True)
    whole = train(experiment)
    assert run.metrics[0]["loss"] == pytest.approx(whole.metrics[0]["loss"], rel=1e-5)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_what_is_no_number_on_one_process_ends_all(
    pair: Pair, tmp_path: Path, rank: int, parallel: str
) -> None:
    experiment = small(batch_size=4, steps=9, log_every=5, checkpoint_every=2)
    mishap = Mishap(kind="nan", rank=rank, step=3)
    for outcome in pair.train(experiment, tmp_path / "run", mishap=mishap, parallel=parallel):
        assert isinstance(outcome.error, FloatingPointError)
        assert "not finite at step 4" in str(outcome.error)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_on_one_process_ends_all_after_the_same_step(pair: Pair, tmp_path: Path, rank: int) -> None:
    """They go on together only if they stopped together: resuming would wait for ever, or be refused."""
    experiment, folder = small(batch_size=4, steps=5000, log_every=5000), tmp_path / "run"
    outcomes = pair.train(experiment, folder, mishap=Mishap(kind="ctrl-c", rank=rank, step=3))
    assert [type(outcome.error) for outcome in outcomes] == [KeyboardInterrupt] * 2
    assert 3 <= load_checkpoint(folder / "checkpoint.safetensors").card["step"] < 5000


def test_time_runs_out_for_all_at_once(pair: Pair) -> None:
    first, second = pair.train(small(batch_size=4, steps=100_000), max_minutes=0.001)
    assert 1 <= first.step == second.step < 100_000


def test_what_the_first_process_cannot_write_ends_all(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for outcome in pair.train(small(batch_size=4), tmp_path / "file" / "run"):
        assert isinstance(outcome.error, OSError)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "something").write_text("")
    for outcome in pair.train(small(batch_size=4), tmp_path / "taken"):
        assert isinstance(outcome.error, ValueError)
        assert "exists already" in str(outcome.error)


def test_processes_that_do_not_see_the_same_checkpoint_are_refused(pair: Pair, tmp_path: Path) -> None:
    experiment = small(batch_size=4, steps=2)
    train(experiment, tmp_path / "run")
    for outcome in pair.train(experiment, [tmp_path / "run", tmp_path / "elsewhere"], resume=True):
        assert isinstance(outcome.error, ValueError)
        assert "do not have the same checkpoint" in str(outcome.error)


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        (
            {"batch_size": 5},
            {},
            "batch_size=5 cannot be shared evenly by 2 processes; choose a multiple of 2",
        ),
        ({"batch_size": 4}, {"parallel": "tp"}, "parallel must be one of auto, ddp, fsdp, got 'tp'"),
        ({"batch_size": 4}, {"device": "meta"}, "on cpu or cuda, got meta"),
    ],
)
def test_what_two_processes_cannot_do_is_refused_by_both(
    pair: Pair, settings: Any, options: Any, words: str
) -> None:
    for outcome in pair.train(small(**settings), **options):
        assert isinstance(outcome.error, ValueError)
        assert words in str(outcome.error)


def test_several_processes_need_a_group(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="parallel='fsdp' needs several processes: start them with torchrun"):
        train(small(), parallel="fsdp")
    assert plan_group("auto", device=CPU).is_single
    assert not caplog.text
    for name in VARIABLES:
        monkeypatch.setenv(name, "2")
    assert plan_group("auto", device=CPU).is_single
    assert "each process of this torchrun trains on its own" in caplog.text


@pytest.mark.parametrize(
    ("wanted", "device", "steps", "engine", "word"),
    [
        ("auto", CPU, 10, "eager", "on a CPU"),
        ("auto", CUDA, 2000, "eager", "compiling does not pay"),
        ("auto", CUDA, 2001, "compiled", "nothing is captured"),
        ("compiled", CUDA, 10, "compiled", "asked for"),
    ],
)
def test_engines_of_several_processes_capture_nothing(
    monkeypatch: Any, wanted: Any, device: torch.device, steps: int, engine: str, word: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    plan = plan_engine(wanted, device=device, steps=steps, single=False)
    assert plan.engine == engine
    assert word in plan.reason
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert plan_engine("auto", device=device, steps=2001, single=False).engine == "eager"
    with pytest.raises(ValueError, match="exchange of gradients would have to be captured"):
        plan_engine("graph", device=CUDA, steps=10, single=False)


class Talk(DistributedGroup):
    """A process whose only partner answers what it is told to."""

    def __init__(self, answers: list[tuple[Stop, int]]) -> None:
        super().__init__("ddp", rank=0, processes=2)
        self.answers = iter(answers)

    def all_gather_object(self, value: Any) -> list[Any]:
        return [value, next(self.answers)]


def test_processes_ask_each_other_at_the_steps_they_agreed_on() -> None:
    agreement = _Agreement(Talk([(Stop.NO, 1), (Stop.NO, 1), (Stop.OUT_OF_TIME, 9), (Stop.NO, 9)]))
    agreement.stop(1, Stop.NO)
    assert agreement.next_step == 2, "the partner wants to be asked after each step"
    agreement.stop(2, Stop.NO)
    assert agreement.stop(3, Stop.NO) is Stop.OUT_OF_TIME
    agreement.steps, agreement.next_step = 4, 10
    assert agreement.stop(9, Stop.INTERRUPTED) is Stop.NO, "not before all are asked"
    assert agreement.stop(10, Stop.INTERRUPTED) is Stop.INTERRUPTED


def test_the_time_between_agreements_comes_near_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    spread = Talk([(Stop.NO, 10**9)] * 200)
    agreement, asked = _Agreement(spread), []
    for step in range(1, 3001):
        now += 0.01 if step <= 2000 else 0.1  # a later stage of a curriculum may be slower
        before = agreement.next_step
        agreement.stop(step, Stop.NO)
        if agreement.next_step != before:
            asked.append(now)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert max(gaps) < 10.1  # once, where steps became ten times slower
    assert sorted(gaps)[len(gaps) // 2] == pytest.approx(1.0, abs=0.2)


def _torchrun(*options: str) -> subprocess.CompletedProcess[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "algoformer", "train", *TINY, *options]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings)


def test_torchrun_trains_one_model_and_reports_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = _torchrun("--steps", "4", "--device", "cpu", "--no-evaluate", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder}\n"
    assert done.stderr.count("2 processes (ddp); engine eager") == 1
    assert "warn" not in done.stderr.lower(), done.stderr
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert load_checkpoint(folder / "checkpoint.safetensors").card["processes"] == 2


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
@pytest.mark.parametrize("wrong", [["--data", "liner"], ["--stepps", "3"]])
def test_of_several_processes_one_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rank: str,
    lines: int,
    wrong: list[str],
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, rank)
    assert main(["train", *wrong]) == 2
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_what_happens_to_one_process_alone_is_said_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")
    assert is_reported_by_rank_zero(ValueError("batch")), "settings are the same for all"
    assert not is_reported_by_rank_zero(RuntimeError("out of memory"))
    monkeypatch.delenv("MASTER_PORT")
    assert not is_reported_by_rank_zero(ValueError("batch")), "RANK alone is no torchrun"


def test_errors_travel_as_words_of_their_kind() -> None:
    class Own(Exception):
        """A class that another process could not find."""

    wrong = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "not text")  # not made from words alone
    assert repr(_to_send(wrong)) == repr(ValueError(str(wrong)))
    assert repr(_to_send(Own("what"))) == "RuntimeError('Own: what')"
    assert type(_to_send(KeyboardInterrupt())) is KeyboardInterrupt
