"""A PostgreSQL server of the test's own, on loopback, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def program(name: str) -> str | None:
    """Return a program of the server, also from where Debian installs it."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def unprivileged() -> str | None:
    """Return a user to run the server as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The URL of an empty database; skips where there is no server or driver."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    initdb, pg_ctl = program("initdb"), program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    user = unprivileged()
    if os.geteuid() == 0 and user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="algoformer-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    data, log = str(folder / "data"), str(folder / "log")

    def run(*words: str) -> None:
        # not captured: the server would keep a pipe open
        subprocess.run(words, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    try:
        run(initdb, "-D", data, "-U", "searcher", "--auth=trust", "--no-sync", "-E", "UTF8")
        settings = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
        run(pg_ctl, "-D", data, "-l", log, "-w", "-o", settings, "start")
        try:
            yield f"postgresql+psycopg://searcher@127.0.0.1:{port}/postgres"
        finally:
            run(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
