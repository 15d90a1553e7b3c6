"""A rank is killed, or its disk is full: all end with a line that says so, and the run can be resumed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from algoformer.checkpoint import LATEST
from algoformer.training import load_checkpoint, load_experiment, train
from tiny import TINY

# what torchrun starts, with a step at which rank 1 is killed, or at which rank 0 can write no more files
WORKER = """
import os, resource, signal
from algoformer import cli
from algoformer.training.step import Step

run = Step.run

def mortal(self, number):
    mishap = {"0": "full", "1": "killed"}[os.environ["RANK"]]
    if number == 5 and mishap == os.environ["MISHAP"]:
        if mishap == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    run(self, number)

Step.run = mortal
cli.run()
"""


def run_group(mishap: str, parallel: str, folder: Path) -> list[tuple[int, str]]:
    """Let two processes train until the mishap; return the exit status and the standard error of each."""
    port = free_port()
    words = ["train", *TINY, "--steps", "8", "--checkpoint-every", "2", "--device", "cpu", "--no-evaluate"]
    words += ["--parallel", parallel, "--out", str(folder)]
    ranks = [start_rank(rank, port, words, mishap) for rank in range(2)]
    said = [rank.communicate()[1] for rank in ranks]
    return [(rank.returncode, text) for rank, text in zip(ranks, said, strict=True)]


def check_resumed(folder: Path) -> None:
    """The checkpoint before the mishap is intact, and one process alone goes on from it to the right end."""
    assert load_checkpoint(folder / LATEST).card["step"] == 4
    experiment = load_experiment(folder)
    resumed, alone = train(experiment, folder, resume=True), train(experiment)
    assert resumed.step == 8
    for name, weight in alone.model.state_dict().items():
        if not name.endswith("qkv.bias"):  # the bias of keys has no gradient but rounding
            torch.testing.assert_close(resumed.model.state_dict()[name], weight, rtol=0, atol=1e-5)


def start_rank(rank: int, port: int, words: list[str], mishap: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "MISHAP": mishap,
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
        **{"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
    }
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *words], env=environment, stderr=subprocess.PIPE, text=True
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_killed_rank_ends_the_group_and_one_process_resumes_the_run(parallel: str, tmp_path: Path) -> None:
    (code, said), (killed, _) = run_group("killed", parallel, tmp_path / "run")
    assert (code, killed) == (1, -9)
    assert "another process of this run has ended" in said.splitlines()[-1], said
    assert "--resume" in said.splitlines()[-1]
    check_resumed(tmp_path / "run")


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_full_disk_on_rank_zero_ends_all_and_keeps_the_checkpoint(parallel: str, tmp_path: Path) -> None:
    ended = run_group("full", parallel, tmp_path / "run")
    assert [code for code, _ in ended] == [1, 1]
    assert "what was there before is intact" in ended[0][1].splitlines()[-1], ended[0][1]
    check_resumed(tmp_path / "run")
