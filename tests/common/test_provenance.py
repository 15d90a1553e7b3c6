import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

import algoformer.common.devices as provenance


def ask(folder: Path) -> str:
    """Return what a copy of the library in another folder says."""
    spec = importlib.util.spec_from_file_location("copied", folder / "algoformer" / "common" / "devices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: str = module.source_commit()
    return found


def copied(folder: Path) -> Path:
    source = Path(provenance.__file__).parents[1]
    shutil.copytree(source, folder / "algoformer", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *author, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_the_library_and_says_if_files_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(tmp_path)
    monkeypatch.delenv("ALGOFORMER_COMMIT", raising=False)
    assert ask(folder) == "unknown"
    git(folder, "init", "-q")
    (folder / "other").write_text("somebody else's repository around an installed copy")
    git(folder, "add", "other")
    git(folder, "commit", "-qm", "other")
    assert ask(folder) == "unknown"
    git(folder, "add", "algoformer")
    git(folder, "commit", "-qm", "ours")
    assert ask(folder) == git(folder, "rev-parse", "HEAD")
    with (folder / "algoformer" / "trace.py").open("a") as file:
        file.write("# changed")
    assert ask(folder) == git(folder, "rev-parse", "HEAD") + "+changes"


def test_whoever_knows_the_commit_better_can_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALGOFORMER_COMMIT", "abc")
    assert ask(copied(tmp_path)) == "abc"
