"""Which state of the source a number comes from."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def source_commit() -> str:
    """The commit of this library's source, with "+changes" if files differ from it; "unknown" outside git.

    The environment variable ALGOFORMER_COMMIT says it instead: a copy may lie outside git, or in another
    state of it than the one that it was copied from.
    """
    told = os.environ.get("ALGOFORMER_COMMIT")
    if told:
        return told
    here = Path(__file__).resolve()
    # an installed copy may lie inside somebody else's repository: only one that tracks this file counts
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return "unknown"
    commit = _git(here.parent, "rev-parse", "HEAD")
    changed = _git(here.parents[1], "status", "--porcelain", "--untracked-files=no", ".")
    if commit is None:
        return "unknown"
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
