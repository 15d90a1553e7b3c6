"""Clocks: how long steps, evaluations and decoding take, beside the same thing in a plain way."""

from algoformer.benchmark.cases import CASES as CASES
from algoformer.benchmark.cases import QUICK as QUICK
from algoformer.benchmark.run import SECTIONS as SECTIONS
from algoformer.benchmark.run import run_benchmark as run_benchmark
from algoformer.benchmark.setting import Setting as Setting
