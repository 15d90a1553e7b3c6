"""A checkpoint in several small files is the same checkpoint."""

import math
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer.training import Checkpoint, load_checkpoint, read_metrics, save_checkpoint, train
from algoformer.training.shards import pack
from training.small import same_checkpoint, same_weights, small, timeless, tiny_checkpoint

TESTS = Path(__file__).parents[1]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@st.composite
def tensors(draw: Any) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 12), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    size = math.prod(shape) * dtype.itemsize
    content = torch.randint(0, 2 if dtype == torch.bool else 256, (size,), generator=generator)
    # any bits at all: not-a-numbers must come back as well
    return content.to(torch.uint8).view(dtype).reshape(shape) if size else torch.zeros(shape, dtype=dtype)


@settings(max_examples=60)
@given(
    state=st.dictionaries(st.text(max_size=6), tensors(), max_size=6),
    shard_mb=st.floats(0.003, 0.03) | st.sampled_from([1, 16.0, 1e6]),
)
def test_every_tensor_comes_back_bit_for_bit_and_no_file_is_too_large(
    tmp_path_factory: pytest.TempPathFactory, state: dict[str, torch.Tensor], shard_mb: float
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    whole = tiny_checkpoint(**{f"of {name}": value for name, value in state.items()})
    save_checkpoint(folder / "c.safetensors", whole, shard_mb)
    assert same_checkpoint(load_checkpoint(folder / "c.safetensors"), whole)
    assert max(file.stat().st_size for file in folder.iterdir()) <= shard_mb * 10**6
    # as few files as there must be, but for names, and tensors that are not cut where they need not be
    held = sum(value.nbytes for value in [*whole.model.state_dict().values(), *whole.state.values()])
    assert len(list(folder.iterdir())) - 1 <= 1 + 2 * (held + 4000) / (shard_mb * 10**6)


@given(
    sizes=st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 900), min_size=1, max_size=9),
    limit=st.integers(300, 2000),
)
def test_tensors_are_packed_in_order_and_cut_only_if_they_must_be(sizes: dict[str, int], limit: int) -> None:
    whole = {name: torch.arange(size) for name, size in sizes.items()}
    files = pack(whole, limit)
    for name, tensor in whole.items():
        pieces = [file[name] for file in files if name in file]
        assert torch.cat(pieces).equal(tensor)
        # 300 bytes are more than a file needs for names and shapes
        assert len(pieces) == 1 or tensor.nbytes > limit - 300
    order = [name for file in files for name in file]
    assert [name for name, after in zip(order, [*order[1:], None], strict=True) if name != after] == [*whole]


def test_half_precision_is_read_from_shards_as_from_one_file(tmp_path: Path) -> None:
    stored = tiny_checkpoint()
    half = Checkpoint(model=stored.model.half())
    for name, shard_mb in (("one", None), ("many", 0.003)):
        save_checkpoint(tmp_path / name, half, shard_mb)
    one, many = load_checkpoint(tmp_path / "one"), load_checkpoint(tmp_path / "many")
    assert same_weights(one.model, many.model)
    assert all(weight.dtype == torch.float32 for weight in many.model.parameters())


@pytest.mark.parametrize("shard_mb", [0, -1, math.nan, -math.inf, 1e-9])
def test_a_limit_that_is_none_is_refused(shard_mb: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shard_mb must be a positive number of MB, or inf"):
        save_checkpoint(tmp_path / "c", tiny_checkpoint(), shard_mb)
    with pytest.raises(ValueError, match="shard_mb must be a positive number of MB"):
        train(small(), tmp_path / "run", shard_mb=shard_mb)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("shard_mb", "words"), [(0.0001, "hold a number of"), (0.0006, "list of shards")])
def test_a_limit_that_is_too_small_keeps_the_oldtiny_checkpoint(
    shard_mb: float, words: str, tmp_path: Path
) -> None:
    for before in (None, 0.005):
        save_checkpoint(tmp_path / "c", tiny_checkpoint(1), before)
        files = sorted(tmp_path.iterdir())
        with pytest.raises(ValueError, match=f"too small .*{words}.* choose more"):
            save_checkpoint(tmp_path / "c", tiny_checkpoint(2), shard_mb)
        assert sorted(tmp_path.iterdir()) == files
        assert load_checkpoint(tmp_path / "c").card == {"seed": 1}


def test_a_full_disk_keeps_the_old_checkpoint_and_no_new_shards(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c", tiny_checkpoint(1), 0.005)
    files = sorted(tmp_path.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(OSError, match=r"could not be written .*before is intact"):
            save_checkpoint(tmp_path / "c", tiny_checkpoint(2), 0.005)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(tmp_path.iterdir()) == files
    assert same_checkpoint(load_checkpoint(tmp_path / "c"), tiny_checkpoint(1))


def test_each_form_replaces_the_other_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    neighbours = [
        "c.1-of-2.0123456789abcdef.json",
        "d.1-of-2.0123456789abcdef.safetensors",
        "c.1.safetensors",
    ]
    for name in neighbours:
        (tmp_path / name).write_text("somebody else's")
    counts = []
    for seed, shard_mb in enumerate([None, 0.005, 0.003, math.inf, 0.01, None]):
        save_checkpoint(path, tiny_checkpoint(seed), shard_mb)
        assert same_checkpoint(load_checkpoint(path), tiny_checkpoint(seed))
        counts.append(len(list(tmp_path.iterdir())) - len(neighbours))
    assert (counts[0], counts[3], counts[5]) == (1, 1, 1)
    assert counts[2] > counts[1] > counts[4] > 1
    assert all((tmp_path / name).exists() for name in neighbours)


# the process below forks a child for each thing that a save does to the disk, lets it die just before that,
# and looks at what is there; the last child is left in peace
DEATHS = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from algoformer.training import load_checkpoint, save_checkpoint
from training.small import same_checkpoint, tiny_checkpoint

path = Path(sys.argv[1])
old, new = tiny_checkpoint(1), tiny_checkpoint(2)


def mortal(do, lives):
    def deed(*arguments, **options):
        lives[0] -= 1
        if not lives[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(*arguments, **options)
    return deed


def save(after, lives):
    for name in ("fsync", "replace", "unlink", "chmod"):
        setattr(os, name, mortal(getattr(os, name), lives))
    Path.write_bytes = mortal(Path.write_bytes, lives)
    save_checkpoint(path, new, after)
    os._exit(0)


def die_at_each_deed(before, after):
    for moment in range(1, 1000):
        save_checkpoint(path, old, before)
        child = os.fork()
        if child == 0:
            save(after, [moment])
        status = os.waitpid(child, 0)[1]
        there = load_checkpoint(path)
        assert same_checkpoint(there, old) or same_checkpoint(there, new)
        yield "new" if same_checkpoint(there, new) else "old"
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return


for before, after in [(None, 0.005), (0.005, 0.005), (0.005, None)]:
    print(*die_at_each_deed(before, after))
"""


def test_killed_at_any_deed_there_is_one_whole_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DEATHS, str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=TESTS)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        found = line.split()
        # the old one up to some moment, from then on the new one
        assert found == sorted(found, reverse=True)
        assert set(found) == {"old", "new"}
    assert len(done.stdout.splitlines()) == 3
    # the last save was to one file, and nobody killed it
    assert [file.name for file in tmp_path.iterdir() if not file.name.endswith(".part")] == ["c"]


def test_a_reader_always_finds_a_whole_checkpoint_while_a_writer_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "c"
    known = [tiny_checkpoint(seed) for seed in range(3)]
    save_checkpoint(path, known[0], 0.003)
    stop = threading.Event()

    def write() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            save_checkpoint(path, known[count % 3], 0.003 if count % 5 else None)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            found = load_checkpoint(path)
            assert same_checkpoint(found, known[found.card["seed"]])
    finally:
        stop.set()
        writer.join()


def _forms(folder: Path) -> tuple[int, int]:
    files = [file for file in folder.iterdir() if file.name.startswith("checkpoint")]
    return len(files), max(file.stat().st_size for file in files)


def test_a_run_in_slices_changes_its_form_and_stays_the_same_run(tmp_path: Path) -> None:
    whole = train(small())
    folder = tmp_path / "run"
    run = train(small(), folder, max_minutes=1e-9)
    counts = []
    asked = [(None, math.inf), (0.01, 0.01), (None, 0.01), (0.02, 0.02), (None, 0.02), (math.inf, math.inf)]
    for shard_mb, in_force in [*asked, (None, math.inf)]:
        run = train(small(), folder, resume=True, max_minutes=1e-9, shard_mb=shard_mb)
        count, largest = _forms(folder)
        assert largest <= in_force * 10**6
        counts.append(count)
    assert counts[0] == counts[5] == counts[6] == 1
    assert counts[1] == counts[2] > counts[3] == counts[4] > 1
    run = train(small(), folder, resume=True)
    assert same_weights(whole.model, run.model)
    assert timeless(whole.metrics) == timeless(run.metrics) == timeless(read_metrics(folder))


def test_a_finished_run_is_cut_up_without_a_further_step(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = train(small(), folder)
    before = load_checkpoint(folder / "checkpoint.safetensors")
    again = train(small(), folder, resume=True, shard_mb=0.01)
    assert again.finished
    assert same_weights(run.model, again.model)
    count, largest = _forms(folder)
    assert count > 2
    assert largest <= 10_000
    assert same_checkpoint(load_checkpoint(folder / "checkpoint.safetensors"), before)


def test_shards_that_a_kill_left_are_removed_when_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(small(), folder, shard_mb=0.01)
    files = sorted(folder.iterdir())
    (folder / "checkpoint.1-of-9.0123456789abcdef.safetensors").write_bytes(b"left")
    train(small(), folder, resume=True)
    assert sorted(folder.iterdir()) == files


def test_a_damaged_index_costs_no_shards(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(small(), folder, shard_mb=0.01)
    files = sorted(folder.iterdir())
    index = folder / "checkpoint.safetensors"
    content = index.read_bytes()
    index.write_bytes(content[:-10])
    with pytest.raises(ValueError, match="cut off"):
        train(small(), folder, resume=True)
    assert sorted(folder.iterdir()) == files
    index.write_bytes(content)
    assert train(small(), folder, resume=True).finished
