"""Clocks: how long steps, evaluations and decoding take, beside the same thing in a plain way."""

from benchmarks.cases import CASES as CASES
from benchmarks.cases import QUICK as QUICK
from benchmarks.run import SECTIONS as SECTIONS
from benchmarks.run import run_benchmark as run_benchmark
from benchmarks.setting import Setting as Setting
