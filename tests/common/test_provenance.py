import shutil
import subprocess
import sys
from pathlib import Path

import algoformer.common.devices as provenance

CODE = "from algoformer.common.devices import source_commit; print(source_commit())"


def ask(folder: Path, **environment: str) -> str:
    command = [sys.executable, "-c", CODE]
    settings = {"PYTHONPATH": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=True, cwd=folder)
    return done.stdout.strip()


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


def test_the_commit_is_that_of_the_library_and_says_if_files_differ(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    assert ask(folder) == "unknown"
    assert ask(folder, ALGOFORMER_COMMIT="abc") == "abc"
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
    assert ask(folder, ALGOFORMER_COMMIT="abc") == "abc", "who says it knows better"
