"""Measurement: any solver and fixed prompts in, errors with confidence bands out."""

from algoformer.evaluation.bootstrap import Band, bootstrap
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.depth import depth_sweep
from algoformer.evaluation.evaluate import compare, evaluate
from algoformer.evaluation.evaluation import Evaluation
from algoformer.evaluation.prompts import evaluation_prompts, held_out_seed
from algoformer.evaluation.summary import Cell, Table, depth_table, summary_table

__all__ = [
    "Band",
    "Cell",
    "Curve",
    "Evaluation",
    "Table",
    "bootstrap",
    "compare",
    "depth_sweep",
    "depth_table",
    "evaluate",
    "evaluation_prompts",
    "held_out_seed",
    "summary_table",
]
