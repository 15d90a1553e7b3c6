import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import Layers, Loop, Program, programs
from algoformer.depth import Depth
from algoformer.training import Checkpoint, build_model, load_checkpoint, save_checkpoint, train
from training.small import same_weights, small, timeless, told


def _stop_at(step: int, folder: Path, **settings: Any) -> Path:
    def stop(done: int, total: int, metrics: Any) -> None:
        if done == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(**settings), folder, callbacks=told(stop))
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _stop_at(10, tmp_path_factory.mktemp("stopped") / "run")


MUON: dict[str, Any] = {"optimizer": "muon", "weight_decay": 0.1, "ema": 0.9}


@pytest.fixture(scope="module")
def stopped_muon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _stop_at(10, tmp_path_factory.mktemp("stopped") / "run", **MUON)


# each optimizer with and without an average, each schedule twice
OPTIMIZERS = [
    {"optimizer": "adam"},
    *({"optimizer": name, "weight_decay": 0.1} for name in ("adamw", "muon")),
]
SCHEDULES = [
    {"schedule": "constant"},
    {"schedule": "cosine", "warmup": 0.25},
    {"schedule": "wsd", "warmup": 0.25, "cooldown": 0.6},
]


@pytest.mark.parametrize(
    "settings",
    [
        {**optimizer, **schedule, "ema": ema}
        for ema, shift in ((None, 0), (0.9, 1))
        for optimizer, schedule in zip(OPTIMIZERS, SCHEDULES[shift:] + SCHEDULES[:shift], strict=True)
    ],
    ids=lambda settings: "-".join(str(settings[name]) for name in ("optimizer", "schedule", "ema")),
)
def test_two_halves_are_exactly_the_whole(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings = {"steps": 8, "log_every": 2, "checkpoint_every": 100, **settings}
    whole = train(small(**settings), tmp_path / "whole")
    _stop_at(4, tmp_path / "halves", **settings)
    rest = train(small(**settings), tmp_path / "halves", resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)
    one, other = (load_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "halves"))
    assert same_weights(one.model, other.model)
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.equal(value, other.state[name]), name


def _learned_start(causal: bool = True) -> Program:
    return Program(Loop(Layers(1, heads=2, causal=causal), steps=4, start="vector"))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize(
    "settings",
    [
        {"window": 1},  # no step reaches the start
        {"window": 1, "segments": 2},
        {"window": 4, "segments": 2},  # the first segment alone does
        {"window": 1, "depth": Depth.parse("list:1,4"), "seed": 4},  # the third step and others do
    ],
    ids=["never", "segments", "first segment", "some steps"],
)
def test_two_halves_are_the_whole_if_few_steps_reach_the_learned_start(
    tmp_path: Path, settings: dict[str, Any], optimizer: str
) -> None:
    settings = {"steps": 8, "log_every": 1, "optimizer": optimizer, **settings}
    whole = train(small(_learned_start(), **settings))
    _stop_at(2, tmp_path, program=_learned_start(), **settings)
    rest = train(small(_learned_start(), **settings), tmp_path, resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)


NEW = ("optimizer", "weight_decay", "betas", "ema", "cooldown")
"""Settings that the first runs did not have."""


def test_a_run_from_before_there_was_a_choice_of_optimizers_goes_on(stopped: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    config = json.loads((folder / "config.json").read_text())
    for name in NEW:
        del config["training"][name]
    path = folder / "checkpoint.safetensors"
    found = load_checkpoint(path)
    card = {name: value for name, value in found.card.items() if name != "weights"} | {"experiment": config}
    save_checkpoint(path, Checkpoint(model=found.model, data=found.data, card=card, state=found.state))
    run = train(small(), folder, resume=True)
    assert same_weights(run.model, train(small()).model)
    with pytest.raises(ValueError, match="another experiment"):
        train(small(optimizer="adamw"), folder, resume=True)


def _damage(folder: Path, **changes: Any) -> None:
    path = folder / "checkpoint.safetensors"
    found = load_checkpoint(path)
    card, state = dict(found.card), dict(found.state)
    card |= changes.get("card", {})
    for name, value in changes.get("state", {}).items():
        if value is None:
            del state[name]
        else:
            state[name] = value
    model = changes.get("model", found.model)
    save_checkpoint(path, Checkpoint(model=model, data=found.data, card=card, state=state))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"card": {"step": None}}, "step must lie in"),
        ({"card": {"step": 13}}, "step must lie in"),
        ({"card": {"step": -1}}, "step must lie in"),
        ({"card": {"seconds": "long"}}, "seconds must be"),
        ({"card": {"seconds": 1e308}}, "seconds must be"),
        ({"card": {"experiment": {}}}, "a run of another experiment"),
        ({"state": {"sums": None}}, "lacks 'sums'"),
        ({"state": {"optimizer.read_out.bias.exp_avg": None}}, r"lacks 'optimizer\.read_out\.bias\.exp_avg'"),
        ({"state": {"optimizer.read_out.bias.exp_avg": torch.zeros(3)}}, "needed is"),
        ({"state": {"optimizer.read_out.bias.step": torch.zeros((), dtype=torch.int64)}}, "needed is"),
        (
            {"model": build_model(small(programs.looped(steps=3, heads=2)))},
            "another program or width than the experiment",
        ),
    ],
)
def test_a_checkpoint_that_a_run_cannot_go_on_from_is_refused(
    stopped: Path, tmp_path: Path, changes: Any, words: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    _damage(folder, **changes)
    with pytest.raises(ValueError, match=words):
        train(small(), folder, resume=True)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"weights.read_out.bias": None}, r"lacks 'weights\.read_out\.bias'"),
        ({"weights.read_out.bias": torch.zeros(3)}, "needed is"),
        ({"optimizer.read_out.bias.exp_avg": None}, r"lacks 'optimizer\.read_out\.bias\.exp_avg'"),
        (
            {"optimizer.body.parts.0.layers.0.attention.qkv.weight.momentum_buffer": None},
            r"lacks 'optimizer\.body.*momentum_buffer'",
        ),
    ],
)
def test_muon_and_the_average_need_all_of_their_state(
    stopped_muon: Path, tmp_path: Path, state: Any, words: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped_muon, folder)
    _damage(folder, state=state)
    with pytest.raises(ValueError, match=words):
        train(small(**MUON), folder, resume=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(small(steps=2, log_every=1), folder)
    return folder


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(['{"step": 5', "null", "[]", '{"loss": 1}', "\x00", "é" * 9, '{"step": "x"}']))
)
def test_damaged_metrics_do_not_stop_a_run(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(finished, folder)
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in metrics] == [1, 2]
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))
    again = train(small(steps=2, log_every=1), folder, resume=True)
    assert list(again.metrics) == metrics
    assert [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] == metrics


@pytest.mark.parametrize(
    ("best", "since"),
    [
        ({"step": 5.0, "valid_error": "low"}, 0),
        ({"step": 5.0, "valid_error": 10**400}, 0),
        ({"step": 5.0}, 0),
        ([1.0], 0),
        ({"step": 5.0, "valid_error": 0.5}, "none"),
        ({"step": 5.0, "valid_error": 0.5}, -1),
    ],
)
def test_a_damaged_best_validation_is_refused(stopped: Path, tmp_path: Path, best: Any, since: Any) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    found = load_checkpoint(path)
    card = {**found.card, "best": best, "validations_since_best": since}
    save_checkpoint(path, Checkpoint(model=found.model, data=found.data, card=card, state=found.state))
    with pytest.raises(ValueError, match="best validation"):
        train(small(), tmp_path / "run", resume=True)
