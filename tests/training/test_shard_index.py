"""Shards that are damaged and indexes that lie are refused; nothing is read that is not beside the index."""

import contextlib
import hashlib
import json
import math
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from algoformer.training import load_checkpoint, save_checkpoint
from training.small import tiny_checkpoint


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "c.safetensors"
    save_checkpoint(path, tiny_checkpoint(x=torch.arange(2000)), 0.006)
    return path


@pytest.fixture
def copied(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good.parent, tmp_path / "copy")
    return tmp_path / "copy" / good.name


def _shards(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.iterdir() if "-of-" in file.name)


def _swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def _outside(shard: Path) -> None:
    target = shard.parents[1] / "secret"
    shard.rename(target)
    shard.symlink_to(target)


DAMAGE: dict[str, tuple[Callable[[list[Path]], object], str]] = {
    "missing": (lambda shards: shards[1].unlink(), r"shard 2 of .* is missing; copy all files"),
    "cut off": (lambda shards: os.truncate(shards[0], 100), r"shard 1 of .* has 100 bytes instead of"),
    "empty": (lambda shards: os.truncate(shards[0], 0), r"has 0 bytes instead of"),
    "longer": (lambda shards: shards[0].write_bytes(shards[0].read_bytes() + b"x"), r"bytes instead of"),
    "endless": (lambda shards: os.truncate(shards[0], 10**12), r"has 1000000000000 bytes instead of"),
    "changed": (
        lambda shards: shards[2].write_bytes(shards[2].read_bytes()[:-1] + b"\x7f"),
        r"shard 3 of .* is damaged",
    ),
    "another": (
        lambda shards: shards[0].write_bytes(b"\x80\x04N." * (shards[0].stat().st_size // 4 + 1)),
        r"bytes instead of",
    ),
    "swapped": (lambda shards: _swap(shards[1], shards[2]), r"damaged|bytes instead of"),
    "a link": (lambda shards: _outside(shards[0]), r"shard 1 of .* is not a plain file"),
    "a dead link": (
        lambda shards: (shards[0].unlink(), shards[0].symlink_to("/nowhere")),
        r"is not a plain file",
    ),
    "a folder": (lambda shards: (shards[0].unlink(), shards[0].mkdir()), r"is not a plain file"),
    "a pipe": (lambda shards: (shards[0].unlink(), os.mkfifo(shards[0])), r"is not a plain file"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_shard_that_is_not_what_it_was_is_named(name: str, copied: Path) -> None:
    damage, words = DAMAGE[name]
    damage(_shards(copied))
    with pytest.raises(ValueError, match=rf"c\.safetensors is not a usable checkpoint: .*{words}"):
        load_checkpoint(copied)


def test_a_shard_alone_says_what_it_is(good: Path) -> None:
    with pytest.raises(ValueError, match=r"it is shard 1 of \d+ of a checkpoint; give the file that names"):
        load_checkpoint(_shards(good)[0])


def test_shards_of_somebody_else_under_the_right_name_are_refused(copied: Path) -> None:
    # an index that is right about a file which is no safetensors file at all
    content = b"\x80\x04N."
    digest = hashlib.sha256(content).hexdigest()
    _forge(copied, _put("files", value=[{"bytes": 4, "sha256": digest}]))
    copied.with_name(f"c.1-of-1.{digest[:16]}.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_checkpoint(copied)


def _forge(path: Path, change: Callable[[Any], object]) -> None:
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["algoformer"])
    change(header)
    save_file({}, path, metadata={"algoformer": json.dumps(header)})


def _put(*keys: Any, value: Any) -> Callable[[Any], None]:
    def change(header: Any) -> None:
        header = header["shards"]
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def _whole(value: Any) -> Callable[[Any], None]:
    return lambda header: header.update(shards=value)


HOSTILE = {
    "nothing": _whole(None),
    "a list": _whole([]),
    "text": _whole("../../etc/passwd"),
    "an unknown key": _put("path", value="/etc"),
    "no files": _put("files", value=[]),
    "files by name": _put("files", value=["../secret"]),
    "a path up": _put("files", 0, "sha256", value="../" * 22),
    "an absolute path": _put("files", 0, "sha256", value="/etc/passwd"),
    "64 characters of a path": _put("files", 0, "sha256", value="../" * 21 + "a"),
    "capital digits": _put("files", 0, "sha256", value="A" * 64),
    "digits of another script": _put("files", 0, "sha256", value="٣" * 64),
    "a digest that is a number": _put("files", 0, "sha256", value=10**63),
    "a name beside the digest": _put("files", 0, "file", value="../secret"),
    "a negative size": _put("files", 0, "bytes", value=-1),
    "no size": _put("files", 0, "bytes", value=0),
    "a huge size": _put("files", 0, "bytes", value=10**30),
    "an oversized shard": _put("files", 0, "bytes", value=6001),
    "a size that is true": _put("files", 0, "bytes", value=True),
    "a size that is a float": _put("files", 0, "bytes", value=100.0),
    "no limit": _put("shard_mb", value=None),
    "a limit that is no number": _put("shard_mb", value=math.nan),
    "an endless limit": _put("shard_mb", value=math.inf),
    "a limit beyond floats": _put("shard_mb", value=1e308),
    "a huge limit and a size below it": lambda header: (
        _put("shard_mb", value=10**4000)(header),
        _put("files", 0, "bytes", value=10**4001)(header),
    ),
    "a huge limit and a size beyond it": lambda header: (
        _put("shard_mb", value=10**4000)(header),
        _put("files", 0, "bytes", value=10**4200)(header),
    ),
    "a limit of text": _put("shard_mb", value="16"),
    "a limit that is true": _put("shard_mb", value=True),
    "a limit below its shards": _put("shard_mb", value=0.001),
    "very many shards": lambda header: header["shards"].update(files=header["shards"]["files"] * 10_000),
    "the same shard twice": lambda header: header["shards"]["files"].append(header["shards"]["files"][0]),
    "one shard less": lambda header: header["shards"]["files"].pop(),
    "nothing cut": _put("cut", value={}),
    "cut as a list": _put("cut", value=[]),
    "a cut tensor that is nowhere": _put("cut", "state.y", value=[3]),
    "a cut tensor that was not cut": _put("cut", "model.read_out.weight", value=[8]),
    "another shape": _put("cut", "state.x", value=[2001]),
    "a huge shape": _put("cut", "state.x", value=[10**30]),
    "a shape with nothing": _put("cut", "state.x", value=[0]),
    "a negative shape": _put("cut", "state.x", value=[-2000, -1]),
    "a shape of very many axes": _put("cut", "state.x", value=[1] * 100_000),
    "a shape that is a number": _put("cut", "state.x", value=2000),
    "the other format": lambda header: header.update(format=1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_index_is_refused_quickly_and_reads_nothing_elsewhere(
    name: str, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forge(copied, HOSTILE[name])
    opened: list[Path] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (opened.append(self), original(self))[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"c\.safetensors is not") as caught:
        load_checkpoint(copied)
    assert time.monotonic() - began < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    assert len(str(caught.value)) < 1000
    assert {file.parent for file in opened} <= {copied.parent}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES = [("shard_mb",), ("files",), ("cut",), ("files", 0), ("files", 0, "bytes"), ("files", 0, "sha256")]
PLACES += [("cut", "state.x"), ("cut", "model.read_out.weight")]


@settings(max_examples=100)
@given(st.sampled_from(PLACES), json_values)
def test_any_value_in_any_place_of_an_index_is_read_or_refused(good: Path, place: Any, value: Any) -> None:
    copied = good.with_name("forged.safetensors")
    shutil.copy(good, copied)
    _forge(copied, _put(*place, value=value))
    with contextlib.suppress(ValueError):
        load_checkpoint(copied)


def test_shards_are_ordinary_safetensors(good: Path) -> None:
    pieces = [load_file(shard) for shard in _shards(good)]
    found = torch.cat([piece["state.x"] for piece in pieces if "state.x" in piece])
    assert len([piece for piece in pieces if "state.x" in piece]) == math.ceil(16_000 / 6_000)
    assert found.equal(torch.arange(2000))
