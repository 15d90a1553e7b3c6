import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import Layers, Loop, Parallel, Program, programs, tasks
from algoformer.common.plain_data import as_data
from algoformer.config import iteration_shares
from algoformer.training import Experiment, Ramp, TrainConfig, build_model
from training.small import same_weights, small

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps must lie in 1"),
        ({"steps": 10**13}, "steps must lie in 1"),
        ({"batch_size": 0}, "batch_size must lie in 1"),
        ({"window": 0}, "window must lie in 1"),
        ({"log_every": 0}, "log_every must lie in 1"),
        ({"checkpoint_every": -1}, "checkpoint_every must lie in 1"),
        ({"seed": -1}, "seed must lie in 0..2147483647"),
        ({"seed": 2**31}, "seed must lie in 0..2147483647"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": float("nan")}, "lr must be a positive number"),
        ({"lr": float("inf")}, "lr must be a positive number"),
        ({"warmup": 1.0}, "warmup is a fraction"),
        ({"warmup": -0.1}, "warmup is a fraction"),
        ({"min_lr_ratio": 1.1}, "min_lr_ratio is a fraction"),
        ({"clip_norm": 0.0}, "clip_norm must be positive"),
        ({"burn_in": (0, -1)}, "burn_in counts iterations"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine, wsd"),
        ({"schedule": "wsd"}, r"needs a cooldown.*try 0\.2"),
        ({"schedule": "wsd", "cooldown": 1.1}, "cooldown is a fraction"),
        ({"schedule": "wsd", "cooldown": -0.1}, "cooldown is a fraction"),
        ({"schedule": "wsd", "cooldown": float("nan")}, "cooldown is a fraction"),
        ({"schedule": "wsd", "cooldown": 0.6, "warmup": 0.5}, "with the warm-up at most 1, got 0.6 with"),
        ({"schedule": "cosine", "cooldown": 0.2}, "'cosine' has no cooldown, got 0.2; use 'wsd'"),
        ({"optimizer": "sgd"}, "optimizer must be one of adam, adamw, muon, got 'sgd'"),
        ({"weight_decay": 0.1}, "'adam' has no weight decay, got weight_decay 0.1; choose 'adamw' or 'muon'"),
        ({"optimizer": "muon", "weight_decay": -0.1}, r"weight_decay must be a number in 0\.\.1e\+30"),
        (
            {"optimizer": "adamw", "weight_decay": float("nan")},
            r"weight_decay must be a number in 0\.\.1e\+30",
        ),
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers in \[0, 1\)"),
        ({"betas": (0.9,)}, r"betas must be of type tuple\[float, float\], got \(0\.9,\)"),
        ({"ema": 1.0}, "ema is a decay between 0 and 1"),
        ({"ema": 0.0}, "ema is a decay between 0 and 1"),
        ({"loss": "huber"}, "loss must be one of mean, log, stages, exit, gate, got 'huber'"),
        ({"backprop": "none"}, r"backprop must be of type .*'window', 'full'.* got 'none' of type str"),
        ({"loss_weights": "first"}, "loss_weights must be of type .*'linear'.* got 'first' of type str"),
        ({"loss_weights": (float("nan"), 1.0), "window": 2}, "loss_weights needs 2 numbers .* none negative"),
        ({"loss_weights": (float("inf"), 1.0), "window": 2}, "loss_weights needs 2 numbers .* none negative"),
        ({"loss_weights": (1.0, 0.0), "window": 2}, "loss_weights needs 2 numbers .* the last one positive"),
        ({"burn_in": 3}, r"burn_in must be of type tuple\[int, \.\.\.\], got 3 of type int"),
        ({"lr": "0.1"}, "lr must be of type float, got '0.1' of type str"),
        ({"lr": None}, "lr must be of type float, got None"),
        ({"steps": 6.5}, "steps must be of type int, got 6.5 of type float"),
        ({"gradient_checkpointing": 1}, "gradient_checkpointing must be of type bool, got 1 of type int"),
        ({"precision": "fp16"}, "precision must be one of fp32, tf32, bf16"),
    ],
)
def test_a_bad_setting_is_named_with_its_bounds(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TrainConfig(**settings)


def test_lists_and_numbers_of_numpy_are_stored_as_plain_values() -> None:
    given = {"loss_weights": [1, 2], "burn_in": [0, 3], "betas": [0.9, 0.99], "window": 2}
    config = TrainConfig(**given, lr=np.float64(0.5), steps=np.int64(6))
    assert config == TrainConfig(
        loss_weights=(1.0, 2.0), burn_in=(0, 3), betas=(0.9, 0.99), window=2, lr=0.5, steps=6
    )
    assert json.loads(json.dumps(as_data(config))) == as_data(config)
    assert iteration_shares(config, 2) == (1 / 3, 2 / 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"start": 0, "increment": 1}, "at least 1, got 0 and 1"),
        ({"start": 1, "increment": 0}, "at least 1, got 1 and 0"),
        ({"start": 1, "increment": 1, "interval": 0.0}, "interval is a fraction"),
        ({"start": 1, "increment": 1, "interval": 1.5}, "interval is a fraction"),
        ({"start": 1, "increment": 1, "interval": float("nan")}, "interval is a fraction"),
        (
            {"start": 1, "increment": 1, "delay": -0.1},
            r"delay is a fraction of the run in \[0, 1\], got -0.1",
        ),
    ],
)
def test_a_bad_ramp_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Ramp(**settings)


def test_a_window_longer_than_the_loop_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window must lie in 1\.\.3"):
        small(window=4)


@pytest.mark.parametrize("settings", [{"iterations": Ramp(start=1, increment=1)}, {"burn_in": (1,)}])
def test_loop_settings_need_a_loop(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need a program with a loop"):
        small(programs.standard(1, heads=2), **settings)


@pytest.mark.parametrize("program", [programs.standard(1, heads=2), programs.algoformer(steps=3, heads=2)])
def test_dims_need_a_task_that_takes_them(program: Program) -> None:
    task = tasks.ChainOfThought(dim=2, points=3, layers=2)
    with pytest.raises(ValueError, match="no curriculum over coordinates"):
        small(program, task, dims=Ramp(start=1, increment=1))


@pytest.mark.parametrize("settings", [{"backprop": "window"}, {"backprop": "full", "burn_in": (1,)}])
def test_a_cut_gradient_without_injection_is_refused_with_the_reason(settings: dict[str, Any]) -> None:
    branch = Loop(Layers(1, heads=2), steps=3, inject="none")
    alone = programs.algoformer(steps=3, heads=2, inject="none")
    beside = Program(Parallel(branch, Loop(Layers(1, heads=2), steps=3)))
    for program in (alone, beside):
        with pytest.raises(ValueError, match="never reaches what stands before the loop"):
            small(program, window=2, **settings)


def test_without_injection_the_whole_gradient_is_fine() -> None:
    program = programs.algoformer(steps=3, heads=2, inject="none")
    small(program, window=2, backprop="full")
    small(program, window=3, backprop="window")


def test_full_attention_has_no_curriculum_over_questions() -> None:
    program = programs.algoformer(heads=2, causal=False)
    task = tasks.LinearRegression(dim=2, points=3)
    assert Experiment(program=program, data=task, width=8).training.samples is None
    ramp = TrainConfig(samples=Ramp(start=1, increment=1))
    with pytest.raises(ValueError, match="only the last question of a prompt is asked"):
        Experiment(program=program, data=task, width=8, training=ramp)


@pytest.mark.parametrize(
    ("program", "width", "words"),
    [
        (programs.algoformer(heads=2), 0, "width must be at least 1, got 0"),
        (programs.algoformer(heads=2), "A" * 4000, r"width must be a .*, got .{1,80}$"),
        (programs.algoformer(heads=3), 8, "3 heads do not divide a stream of width 8"),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused_before_anything_is_built(program, width, words) -> None:
    with pytest.raises(ValueError, match=words):
        Experiment(program=program, data=tasks.LinearRegression(dim=2, points=3), width=width)


def test_the_seed_alone_decides_the_weights() -> None:
    import torch

    one = build_model(small())
    torch.manual_seed(99)
    before = torch.get_rng_state()
    two = build_model(small(batch_size=9, lr=0.5))
    assert same_weights(one, two)
    assert torch.equal(before, torch.get_rng_state())
    assert not same_weights(one, build_model(small(seed=1)))


ramps = st.builds(
    Ramp,
    start=st.integers(1, 100),
    increment=st.integers(1, 9),
    interval=st.floats(0, 1, exclude_min=True, allow_subnormal=False),
    delay=st.floats(0, 1),
)
rules = st.sampled_from(
    [{"optimizer": "adam"}, {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "muon"}]
)
schedules = st.sampled_from(
    [{"schedule": "constant"}, {"schedule": "cosine"}, {"schedule": "wsd", "cooldown": 0.01}]
)
configs = st.builds(
    lambda rule, schedule, **rest: TrainConfig(**rule, **schedule, **rest),
    rules,
    schedules,
    betas=st.tuples(st.floats(0, 0.99), st.floats(0, 0.999)),
    ema=st.none() | st.floats(0.01, 0.9999),
    steps=st.integers(1, 10**9),
    batch_size=st.integers(1, 999),
    lr=st.floats(1e-9, 10),
    warmup=st.floats(0, 0.99),
    clip_norm=st.none() | st.floats(1e-3, 10),
    window=st.integers(1, 3),
    backprop=st.sampled_from(["window", "full"]),
    burn_in=st.lists(st.integers(0, 90), max_size=4).map(tuple),
    dims=st.none() | ramps,
    iterations=st.none() | ramps,
    precision=st.sampled_from(["fp32", "tf32", "bf16"]),
    seed=st.integers(0, 2**31 - 1),
)


@given(configs)
def test_an_experiment_comes_back_from_json_as_it_was(training: TrainConfig) -> None:
    experiment = replace(small(), training=training)
    assert Experiment.from_data(json.loads(json.dumps(experiment.to_data()))) == experiment


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*small().to_data()["training"], "anything"]


@given(json_values)
def test_what_is_no_experiment_raises_value_error(data: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Experiment.from_data(data)


@settings(max_examples=300)
@given(st.sampled_from(FIELDS), json_values)
def test_any_value_in_any_training_field_is_read_or_refused(name: str, value: Any) -> None:
    data = json.loads(json.dumps(small().to_data()))
    data["training"][name] = value
    try:
        read = Experiment.from_data(data)
    except ValueError:
        return
    assert json.loads(json.dumps(read.to_data()))["training"][name] == pytest.approx(value, nan_ok=True)


@given(st.sampled_from(["program", "data", "width", "training"]), json_values)
def test_any_value_in_any_part_is_read_or_refused(name: str, value: Any) -> None:
    data = json.loads(json.dumps(small().to_data()))
    data[name] = value
    try:
        Experiment.from_data(data)
    except ValueError:
        return
    assert name == "training" or value == data[name]


def test_settings_that_a_file_does_not_name_are_the_papers() -> None:
    data = small().to_data()
    for name in ("optimizer", "weight_decay", "betas", "ema", "cooldown"):
        del data["training"][name]
    read = Experiment.from_data(json.loads(json.dumps(data)))
    assert read == small()
    assert (read.training.optimizer, read.training.betas, read.training.ema) == ("adam", (0.9, 0.999), None)


def test_a_field_that_does_not_exist_is_named() -> None:
    data = small().to_data()
    data["training"]["stpes"] = 3
    with pytest.raises(ValueError, match="no field 'stpes'"):
        Experiment.from_data(data)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("learning_rate", "lr"), ("batch", "batch_size"), ("points", "samples"), ("stpes", "steps")],
)
def test_a_wrong_keyword_suggests_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=f"no field '{wrong}'.*did you mean '{right}'"):
        TrainConfig(**{wrong: 1})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"program": "looped"}, "program must be a Program, such as .* got 'looped' of type str"),
        ({"data": "linear"}, "data must be a task or a data object .* got str"),
        ({"training": {"steps": 3}}, "training must be a TrainConfig, got dict"),
    ],
)
def test_wrong_types_are_refused_in_one_line(arguments: dict[str, Any], words: str) -> None:
    given = {"program": programs.looped(heads=2), "data": tasks.LinearRegression(dim=2, points=3), "width": 8}
    with pytest.raises(ValueError, match=words):
        Experiment(**given | arguments)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"validate_every": 30, "log_every": 20}, r"multiple of log_every \(20\), or None, got 30"),
        ({"validate_every": 0}, "multiple of log_every"),
        ({"patience": 3}, "patience counts validations, and there are none"),
        ({"patience": 0, "validate_every": 100}, "patience must be at least 1"),
    ],
)
def test_validation_that_cannot_be_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TrainConfig(**settings)


@pytest.mark.parametrize(
    "setting", [{"lr": 1e300}, {"lr": float("nan")}, {"weight_decay": 1e40, "optimizer": "adamw"}]
)
def test_rates_that_float32_cannot_hold_are_refused(setting: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        TrainConfig(**setting)
