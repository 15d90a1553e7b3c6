"""Killed at any moment, a run goes on to the very weights it would have had."""

import json
import subprocess
import sys
from pathlib import Path

from algoformer.training import load_checkpoint, read_metrics, train
from training.small import same_weights, small, timeless

TESTS = Path(__file__).parents[1]
SETTINGS = {"steps": 100, "log_every": 4, "checkpoint_every": 3, "burn_in": (0, 1), "schedule": "cosine"}

# one process imports torch; each life of the run is a fork of it, and ends in a kill: first at each stage of
# a write, then at a random call of any function. The last life is left in peace.
LIVES = """
import json, os, random, signal, sys
from pathlib import Path
import safetensors.torch as safetensors
import torch
torch.set_num_threads(1)
from training.small import small
from algoformer.training import train

folder, settings, lives = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
settings["burn_in"] = tuple(settings["burn_in"])
experiment = small(**settings)
train(small(steps=1))  # what the first step of a process loads is loaded before the forks
CALLS = 400_000  # a fifth of what a whole run makes: most lives end in a kill, and all lives together do not


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(do, before, count):
    calls = []
    def mortal(*arguments, **options):
        calls.append(None)
        if before and len(calls) == count:
            die()
        result = do(*arguments, **options)
        if not before and len(calls) == count:
            die()
        return result
    return mortal


def half_a_file(tensors, path, metadata):
    save(tensors, path, metadata=metadata)
    os.truncate(path, path.stat().st_size // 2)
    die()


save = safetensors.save_file
STAGES = [
    ("half a file", lambda: setattr(safetensors, "save_file", half_a_file)),
    ("before the sync", lambda: setattr(os, "fsync", deadly(os.fsync, True, 3))),
    ("after the sync", lambda: setattr(os, "fsync", deadly(os.fsync, False, 3))),
    ("before the replacement", lambda: setattr(os, "replace", deadly(os.replace, True, 2))),
    ("after the replacement", lambda: setattr(os, "replace", deadly(os.replace, False, 2))),
    ("at the next file", lambda: setattr(os, "replace", deadly(os.replace, True, 4))),
    ("before a removal", lambda: setattr(os, "unlink", deadly(os.unlink, True, 12))),
]


def at_any_moment():
    calls = iter(range(random.randrange(CALLS)))
    sys.setprofile(lambda *event: None if next(calls, None) is not None else die())


def live(prepare):
    try:
        prepare()
        train(experiment, folder, resume=(folder / "checkpoint.safetensors").exists())
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


killed = []
for life in range(lives + 1):
    name, prepare = STAGES[life] if life < len(STAGES) else ("any moment", at_any_moment)
    random.seed(life)
    child = os.fork()
    if child == 0:
        live(prepare if life < lives else lambda: None)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        killed.append(name)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit(f"life {life} ({name}) failed")
print(json.dumps(killed))
"""


def test_killed_at_any_moment_a_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = train(small(**SETTINGS))
    folder = tmp_path / "run"
    command = [sys.executable, "-c", LIVES, str(folder), json.dumps(SETTINGS), "13"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 0, done.stderr
    killed = json.loads(done.stdout)
    assert len(set(killed)) == 8, killed
    found = load_checkpoint(folder / "checkpoint.safetensors")
    assert found.card["step"] == SETTINGS["steps"]
    assert same_weights(found.model, whole.model)
    assert timeless(read_metrics(folder)) == timeless(whole.metrics)
    steps = [row["step"] for row in read_metrics(folder)]
    assert steps == [*range(4, 101, 4)]
    # the processes above may have TensorBoard, this one has not
    files = sorted(path for path in folder.iterdir() if path.name != "tensorboard")
    assert [path.name for path in files] == [
        ".lock",
        "checkpoint.safetensors",
        "config.json",
        "metrics.jsonl",
    ]


def test_a_run_killed_while_its_folder_was_made_starts_again(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.json.4711.part").write_text("{")
    assert train(small(steps=1), tmp_path / "run").finished
    assert [path.name for path in (tmp_path / "run").glob(".*")] == [".lock"]


def test_a_run_killed_while_writing_its_checkpoint_forgets_the_half_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    whole = train(small(), folder)
    (folder / ".checkpoint.safetensors.4711.part").write_bytes(b"half")
    again = train(small(), folder, resume=True)
    assert same_weights(whole.model, again.model)
    assert [path.name for path in folder.glob(".*")] == [".lock"]
