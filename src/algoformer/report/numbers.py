"""Format numbers for tables; the function lives in `evaluation.numbers`."""

from algoformer.evaluation.numbers import show as show
