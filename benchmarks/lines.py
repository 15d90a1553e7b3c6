"""Section `lines`: the commands `translate` and `classify` on short lines, beside another checkout."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from algoformer.language.corpora import small_parallel, small_topics
from algoformer.shipped import shipped_path
from benchmarks.setting import Row, Setting

HERE = Path(__file__).parents[1]

COMMANDS = {"translate": "tatoeba_de_en", "classify": "dbpedia"}
"""The shipped model of each command."""


def line_rows(setting: Setting) -> Iterator[Row]:
    """For each command the other checkout, if one is given, and this one, in turns, a new process each time.

    Both have the same file, the same weights and as many threads as PyTorch has here. Processor time is
    compared as well as time, because it stands still while others have the processor.
    """
    sources = {"before": setting.before, "now": HERE} if setting.before is not None else {"now": HERE}
    with tempfile.TemporaryDirectory(prefix="algoformer-bench-") as folder:
        for command in COMMANDS:
            file = Path(folder) / f"{command}.txt"
            file.write_text("".join(f"{line}\n" for line in _lines(command, setting.size.lines)))
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
            answers = dict[str, list[str]]()
            for _ in range(setting.size.line_turns):
                for name, source in sources.items():
                    seconds, processor, answers[name] = _run(command, file, source)
                    times[name].append((seconds, processor))
            first = next(iter(sources))
            for name, found in times.items():
                seconds, processor = (statistics.median(each) for each in zip(*found, strict=True))
                others = [statistics.median(each) for each in zip(*times[first], strict=True)]
                same = sum(ours == theirs for ours, theirs in zip(answers[name], answers[first], strict=True))
                yield {
                    "command": command,
                    "source": name,
                    "lines": len(answers[name]),
                    "threads": torch.get_num_threads(),
                    "seconds": seconds,
                    "processor_seconds": processor,
                    "times_before": others[0] / seconds,
                    "times_before_processor": others[1] / processor,
                    "same_lines": same / len(answers[name]),
                }


def _lines(command: str, count: int) -> tuple[str, ...]:
    texts = small_parallel().train.source if command == "translate" else small_topics().train.texts
    return texts[:count]


def _run(command: str, file: Path, source: Path) -> tuple[float, float, list[str]]:
    """Return the seconds, the processor's seconds and the lines printed."""
    words = [sys.executable, "-m", "algoformer", command, str(shipped_path(COMMANDS[command])), str(file)]
    threads = str(torch.get_num_threads())
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": threads}
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*words, "--device", "cpu"], stdout=output, stderr=subprocess.DEVNULL, env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise ValueError(f"{command} of {source} failed with code {process.returncode}")
        output.seek(0)
        printed = output.read().splitlines()
    return time.monotonic() - began, used.ru_utime + used.ru_stime, printed
