import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import programs
from algoformer.training import Checkpoint, build_model, load_checkpoint, save_checkpoint, train
from training.small import small


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(), folder, progress=stop)
    return folder


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
    save_checkpoint(path, Checkpoint(model=model, task=found.task, card=card, state=state))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"card": {"step": None}}, "step must lie in"),
        ({"card": {"step": 13}}, "step must lie in"),
        ({"card": {"step": -1}}, "step must lie in"),
        ({"card": {"seconds": "long"}}, "seconds must be"),
        ({"card": {"experiment": {}}}, "not one of this experiment's"),
        ({"state": {"generator": None}}, "lacks the state of the random generator"),
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


def test_a_run_from_another_kind_of_device_goes_on_with_new_prompts(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    _damage(folder, state={"generator": torch.zeros(16, dtype=torch.uint8)})  # as CUDA's is
    with caplog.at_level(logging.WARNING, "algoformer.training"):
        assert train(small(), folder, resume=True).finished
    assert "another kind of device" in caplog.text


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(['{"step": 5', "null", "[]", '{"loss": 1}', "\x00", "é" * 9, '{"step": "x"}']))
)
def test_damaged_metrics_do_not_stop_a_run(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "run"
    run = train(small(steps=2, log_every=1), folder)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))
    again = train(small(steps=2, log_every=1), folder, resume=True)
    assert list(again.metrics) == list(run.metrics)
    assert [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] == list(
        run.metrics
    )
