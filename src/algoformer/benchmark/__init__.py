"""Clocks: how long training steps and evaluations take, beside the same thing written by hand."""

from algoformer.benchmark.cases import CASES as CASES
from algoformer.benchmark.cases import QUICK as QUICK
from algoformer.benchmark.run import SECTIONS as SECTIONS
from algoformer.benchmark.run import run_benchmark as run_benchmark
from algoformer.benchmark.setting import Setting as Setting
