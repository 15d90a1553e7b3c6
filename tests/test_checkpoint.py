import contextlib
import json
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from algoformer import AlgoFormer, Unroll, programs, tasks
from algoformer.common.files import FORMAT, checksum
from algoformer.data import PromptData
from algoformer.model.presets import PRESETS
from algoformer.training import Checkpoint, build_model, load_checkpoint, save_checkpoint
from algoformer.training.export import in_half_precision
from small_tasks import small_task
from training.small import same_weights, small

TASK = tasks.LinearRegression(dim=2, points=4)


def _model(program: Any = None, **sizes: Any) -> AlgoFormer:
    return AlgoFormer(
        program or programs.algoformer(steps=3, heads=2),
        **({"dim": 2, "out": 1, "context": 8, "width": 8} | sizes),
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_comes_back_and_answers_the_same(name: str, tmp_path: Path) -> None:
    model = _model(PRESETS[name](heads=2))
    card = {"steps": 5, "note": "é", "nested": {"list": [1, None, True]}}
    state = {
        "generator": torch.arange(7, dtype=torch.uint8),
        "sums": torch.tensor([1.0], dtype=torch.float64),
    }
    save_checkpoint(tmp_path / "c", Checkpoint(model=model, data=PromptData(TASK), card=card, state=state))
    found = load_checkpoint(tmp_path / "c")
    assert found.model.program == model.program
    assert found.task == TASK
    assert found.card == card
    assert found.state.keys() == state.keys()
    assert all(torch.equal(found.state[key], state[key]) for key in state)
    assert same_weights(found.model, model)
    assert all(weight.requires_grad for weight in found.model.parameters())
    prompt = TASK.sample(3, generator=torch.Generator().manual_seed(0))
    unroll = Unroll(steps=2, window=1)
    assert torch.equal(found.model(prompt, unroll).predictions, model(prompt, unroll).predictions)


@pytest.mark.parametrize("task", [small_task(name) for name in tasks.TASKS], ids=str)
def test_every_task_comes_back(task: Any, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c", Checkpoint(model=build_model(small(task=task)), data=PromptData(task)))
    assert load_checkpoint(tmp_path / "c").task == task


def test_a_hand_built_model_comes_back_in_double_precision(tmp_path: Path) -> None:
    layers = programs.equation_one(1, heads=2, head_width=5, hidden=3)
    model = _model((layers,), row_maps=2, blanks=(1, 1), width=7).double()
    save_checkpoint(tmp_path / "c", Checkpoint(model=model))
    found = load_checkpoint(tmp_path / "c")
    assert found.task is None
    assert (found.model.row_maps, found.model.blanks) == (2, (1, 1))
    assert same_weights(found.model, model)
    assert all(weight.dtype == torch.float64 for weight in found.model.parameters())


def test_saving_replaces_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    for steps in (1, 2):
        save_checkpoint(tmp_path / "c", Checkpoint(model=_model(), card={"steps": steps}))
    assert load_checkpoint(tmp_path / "c").card == {"steps": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_full_disk_is_named_and_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c", Checkpoint(model=_model(), card={"steps": 1}))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match=r"c could not be written .*before is intact"):
            save_checkpoint(tmp_path / "c", Checkpoint(model=_model(), card={"steps": 2}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load_checkpoint(tmp_path / "c").card == {"steps": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "c"
    save_checkpoint(path, Checkpoint(model=_model(), data=PromptData(TASK), card={"steps": 1}))
    return path


@settings(max_examples=60)
@given(data=st.data())
def test_a_file_cut_off_anywhere_is_refused(good: Path, data: Any) -> None:
    whole = good.read_bytes()
    cut = good.with_name("cut")
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match="cut"):
        load_checkpoint(cut)


@settings(max_examples=60)
@given(data=st.data())
def test_a_file_with_a_changed_byte_is_read_or_refused(good: Path, data: Any) -> None:
    whole = bytearray(good.read_bytes())
    header = 8 + int.from_bytes(whole[:8], "little")
    whole[data.draw(st.integers(0, header - 1))] = data.draw(st.integers(0, 255))
    changed = good.with_name("changed")
    changed.write_bytes(bytes(whole))
    with contextlib.suppress(ValueError):
        load_checkpoint(changed)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="random"):
        load_checkpoint(path)


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def test_a_pickle_is_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_bytes(pickle.dumps(Bomb()))
    torch.save({"model": Bomb()}, tmp_path / "torch")
    for name in ("plain", "torch"):
        with pytest.raises(ValueError, match=name):
            load_checkpoint(tmp_path / name)
    assert not (tmp_path / "executed").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ValueError, match="does not exist or is not a file"):
            load_checkpoint(path)


def test_somebody_elses_safetensors_are_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, tmp_path / "plain")
    save_file({"weight": torch.zeros(3)}, tmp_path / "other", metadata={"format": "pt"})
    for name in ("plain", "other"):
        with pytest.raises(ValueError, match="not one of algoformer's"):
            load_checkpoint(tmp_path / name)


def _forged(good: Path, change: Any, tensors: Any = None) -> Path:
    """The file with another header and other tensors, and a checksum that fits them."""
    from safetensors import safe_open

    with safe_open(good, framework="pt") as file:
        header = json.loads(json.loads(file.metadata()["algoformer"])["content"])
    weights = load_file(good)
    header = change(header) or header
    text = header if isinstance(header, str) else json.dumps(header)
    weights = tensors(weights) if tensors else weights
    version = header.get("format", FORMAT) if isinstance(header, dict) else FORMAT
    outer = {"format": version, "sha256": checksum(text, weights), "content": text}
    path = good.with_name("forged")
    save_file(weights, path, metadata={"algoformer": json.dumps(outer)})
    return path


def _set(*keys: Any, value: Any) -> Any:
    def change(header: Any) -> None:
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


DEEP: list[Any] = [{"part": "loop", "steps": 1, "inject": "add", "name": "", "body": []}]
for _ in range(60):
    DEEP = [{"part": "loop", "steps": 1, "inject": "add", "name": "", "body": DEEP}]

HOSTILE = {
    "text that is no JSON": lambda header: "{",
    "deep JSON": lambda header: "[" * 100_000,
    "a list": lambda header: "[1]",
    "another format": _set("format", value=99),
    "a format that is no number": _set("format", value={"a": "b" * 1000}),
    "no program": _set("model", "program", value=None),
    "a deep program": _set("model", "program", value=DEEP),
    "very many layers": _set("model", "program", 0, "count", value=10**6),
    "endlessly many layers": _set("model", "program", 0, "count", value=10**40),
    "very many parts": _set("model", "program", value=[{"part": "layers", "count": 1}] * 5_000),
    "wide heads": _set("model", "program", 0, "heads", value=10**6),
    "wrong heads": _set("model", "program", 0, "heads", value="many"),
    "unknown part": _set("model", "program", 0, "part", value="os.system"),
    "unknown field": _set("model", "program", 0, "code", value="import os"),
    "another width": _set("model", "options", "width", value=16),
    "a huge width": _set("model", "options", "width", value=10**9),
    "an endless width": _set("model", "options", "width", value=10**40),
    "a huge context": _set("model", "options", "context", value=10**12),
    "an endless context": _set("model", "options", "context", value=10**30),
    "a huge answer": _set("model", "options", "out", value=10**15),
    "a negative size": _set("model", "options", "dim", value=-1),
    "very many row maps": _set("model", "options", "row_maps", value=10**9),
    "a size that is true": _set("model", "options", "out", value=True),
    "a size that is a float": _set("model", "options", "dim", value=2.0),
    "negative blanks": _set("model", "options", "blanks", value=[-4, 4]),
    "huge blanks": _set("model", "options", "blanks", value=[10**30, 0]),
    "blanks of text": _set("model", "options", "blanks", value="01"),
    "sizes missing": _set("model", "options", value={"dim": 2}),
    "sizes of text": _set("model", "options", value="small"),
    "a model of text": _set("model", value="small"),
    "an unknown kind of model": _set("model", "kind", value=["os"]),
    "unknown data": _set("data", "name", value="os.system"),
    "data that is a number": _set("data", value=5),
    "a task that is a number": _set("data", "task", value=5),
    "a task that is a list": _set("data", "task", value=[["name", "linear"]]),
    "an unknown task": _set("data", "task", "name", value="__import__"),
    "an impossible task": _set("data", "task", "points", value=-1),
    "a card that is a list": _set("card", value=[1]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_refused_cheaply(good: Path, name: str) -> None:
    path = _forged(good, HOSTILE[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="forged") as caught:
        load_checkpoint(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    assert len(str(caught.value)) < 1000


def _renamed(weights: dict[str, torch.Tensor], old: str, new: str) -> dict[str, torch.Tensor]:
    return {new if name == old else name: value for name, value in weights.items()}


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (lambda weights: {k: v.to(torch.int32) for k, v in weights.items()}, "floating point"),
        (lambda weights: weights | {"model.read_out.bias": torch.zeros(1).double()}, "floating point"),
        (
            lambda weights: {k: v for k, v in weights.items() if k != "model.read_out.bias"},
            "'read_out.bias' is missing",
        ),
        (lambda weights: weights | {"model.extra": torch.zeros(1)}, "'extra' is not part of"),
        (lambda weights: _renamed(weights, "model.read_out.bias", "model.other"), "'other' is not part of"),
        (lambda weights: weights | {"model.read_out.weight": torch.zeros(8, 1)}, "has shape"),
        (lambda weights: {}, "more layers than the file has weights"),
    ],
)
def test_weights_that_do_not_fit_are_named(good: Path, tensors: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_checkpoint(_forged(good, lambda header: header, tensors))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MODEL = ("model", "program")
PLACES: list[tuple[Any, ...]] = [
    ("format",),
    ("model",),
    ("data",),
    ("card",),
    MODEL,
    (*MODEL, 0),
    (*MODEL, 1, "body"),
]
PLACES += [(*MODEL, 0, key) for key in ("count", "heads", "hidden", "norm", "name", "activation")]
PLACES += [("model", "kind"), ("model", "options")]
PLACES += [("model", "options", key) for key in ("dim", "width", "context", "blanks")]
PLACES += [("data", "task", key) for key in ("dim", "noise")]


@settings(max_examples=150)
@given(st.sampled_from(PLACES), json_values)
def test_any_value_in_any_place_is_read_or_refused(good: Path, place: Any, value: Any) -> None:
    path = _forged(good, _set(*place, value=value))
    with contextlib.suppress(ValueError):
        load_checkpoint(path)


def test_weights_too_large_for_half_precision_are_refused_before_they_become_infinite() -> None:
    model = build_model(small()).requires_grad_(False)
    rounded = in_half_precision(model)
    assert all(torch.equal(weight, weight.half().float()) for weight in rounded.parameters())
    next(model.parameters()).view(-1)[0] = 70_000.0
    with pytest.raises(ValueError, match=r"holds 7e\+04, which half precision cannot; .*--no-half"):
        in_half_precision(model)


@settings(max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_in_a_weight_is_noticed(good: Path, data: Any) -> None:
    whole = bytearray(good.read_bytes())
    start = 8 + int.from_bytes(whole[:8], "little")
    place, bit = data.draw(st.integers(start, len(whole) - 1)), data.draw(st.integers(0, 7))
    whole[place] ^= 1 << bit
    flipped = good.with_name("flipped")
    flipped.write_bytes(bytes(whole))
    with pytest.raises(ValueError, match="checksum does not match"):
        load_checkpoint(flipped)


@pytest.mark.parametrize("version", [2, 4, "x"])
def test_a_file_of_another_version_is_refused(tmp_path: Path, version: object) -> None:
    save_file(
        {"a": torch.zeros(1)}, tmp_path / "old", metadata={"algoformer": json.dumps({"format": version})}
    )
    with pytest.raises(ValueError, match=f"it has format '{version}'; this version reads 3"):
        load_checkpoint(tmp_path / "old")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (tasks.LinearRegression(dim=3, points=4), "dim=2 .*the task has dim=3"),
        (tasks.LinearRegression(dim=2, points=9), "room for 8 rows, a prompt has 18"),
    ],
)
def test_a_task_that_does_not_fit_its_model_is_refused(tmp_path: Path, task: Any, words: str) -> None:
    save_checkpoint(tmp_path / "c", Checkpoint(model=_model(), data=PromptData(task)))
    with pytest.raises(ValueError, match=words):
        load_checkpoint(tmp_path / "c")


def test_what_loading_could_not_rebuild_is_not_saved(tmp_path: Path) -> None:
    wider = _model()
    wider.read_out = torch.nn.Linear(8, 3)
    more = _model()
    more.extra = torch.nn.Linear(2, 2)
    for model, words in ((wider, r"read_out\.bias has shape"), (more, "extra")):
        with pytest.raises(ValueError, match=f"could not be rebuilt from a checkpoint: {words}"):
            save_checkpoint(tmp_path / "c", Checkpoint(model=model))
    own = _model()
    own.rebuildable = lambda: "a norm was swapped"  # type: ignore[method-assign, assignment]
    with pytest.raises(ValueError, match="could not be rebuilt from a checkpoint: a norm was swapped"):
        save_checkpoint(tmp_path / "c", Checkpoint(model=own))
    with pytest.raises(ValueError, match="only AlgoFormer, TokenModel, TextClassifier can be stored"):
        save_checkpoint(tmp_path / "c", Checkpoint(model=torch.nn.Linear(2, 2)))
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_says_in_a_line_what_it_is(good: Path) -> None:
    assert repr(load_checkpoint(good)) == "Checkpoint(AlgoFormer, 2,889 parameters, prompts, step None)"
