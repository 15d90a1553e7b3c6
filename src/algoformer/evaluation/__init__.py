"""Measure solvers on fixed prompts: errors with bootstrap bands."""

from algoformer.common.tables import Cell as Cell
from algoformer.common.tables import Table as Table
from algoformer.evaluation.curve import Band as Band
from algoformer.evaluation.curve import Curve as Curve
from algoformer.evaluation.curve import bootstrap as bootstrap
from algoformer.evaluation.depth import DepthErrors as DepthErrors
from algoformer.evaluation.depth import errors_at as errors_at
from algoformer.evaluation.evaluate import Comparison as Comparison
from algoformer.evaluation.evaluate import compare as compare
from algoformer.evaluation.evaluate import evaluate as evaluate
from algoformer.evaluation.evaluation import Against as Against
from algoformer.evaluation.evaluation import Evaluation as Evaluation
from algoformer.evaluation.prompts import evaluation_prompts as evaluation_prompts
from algoformer.evaluation.prompts import held_out_seed as held_out_seed
from algoformer.evaluation.tables import depth_table as depth_table
from algoformer.evaluation.tables import summary_table as summary_table
