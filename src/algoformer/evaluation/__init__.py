"""Measure solvers on fixed prompts: errors with bootstrap bands."""

from algoformer.evaluation.bootstrap import Band, bootstrap
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.depth import DepthErrors, depth_sweep, errors_at
from algoformer.evaluation.evaluate import Comparison, compare, evaluate
from algoformer.evaluation.evaluation import Against, Evaluation
from algoformer.evaluation.numbers import Cell
from algoformer.evaluation.prompts import evaluation_prompts, held_out_seed
from algoformer.evaluation.summary import Table, depth_table, summary_table

__all__ = [
    "Against",
    "Band",
    "Cell",
    "Comparison",
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
