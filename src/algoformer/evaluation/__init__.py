"""Measurement: any solver and fixed prompts in, errors with confidence bands out."""

from algoformer.evaluation.bootstrap import Band, bootstrap
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.depth import DepthErrors, depth_sweep, errors_at
from algoformer.evaluation.evaluate import compare, evaluate
from algoformer.evaluation.evaluation import Against, Evaluation
from algoformer.evaluation.prompts import evaluation_prompts, held_out_seed
from algoformer.evaluation.summary import Cell, Table, depth_table, summary_table

__all__ = [
    "Against",
    "Band",
    "Cell",
    "Curve",
    "DepthErrors",
    "Evaluation",
    "Table",
    "bootstrap",
    "compare",
    "depth_sweep",
    "depth_table",
    "errors_at",
    "evaluate",
    "evaluation_prompts",
    "held_out_seed",
    "summary_table",
]
