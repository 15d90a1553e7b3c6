"""Answers of any solver to several queries after the same examples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from algoformer.evaluation.solvers import checked, first_parameter, full_precision
from algoformer.insight.contexts import Contexts
from algoformer.insight.instrument import can_share_context, measuring_copy, shared_context_answers
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll

ROWS_AT_ONCE = 1 << 13
"""Rows × passes that are held at once: small enough for a CPU's caches."""

Reader = Callable[[Contexts, int], Tensor]
"""Returns answers (step, batch, query, out) to the queries of contexts, in float64."""


def precision_of(solver: Solver) -> torch.dtype:
    """Return the precision in which to run a solver: its parameters', or float64 if it has none."""
    parameter = first_parameter(solver)
    return torch.float64 if parameter is None else parameter.dtype


def check_solver(solver: Solver) -> None:
    """Refuse a model of text, which reads tokens: its probabilities are certified by other functions."""
    if hasattr(solver, "vocabulary"):
        raise ValueError(
            f"solver must answer prompts, got {type(solver).__name__}, a model of text; "
            "use `algoformer certify MODEL --texts FILE`, or certify_probabilities"
        )


def every_answer(solver: Solver, prompt: Prompt, steps: int) -> Tensor:
    """Return a solver's answers (step, batch, point, out) after each of its first `steps` passes."""
    return checked(solver(prompt, Unroll(steps=steps)).predictions, prompt, steps)


def answer_reader(solver: Solver, *, queries: int, query_rows: int = 1) -> Reader:
    """Return a function that reads a solver's answers at up to `queries` queries for each context.

    A query consists of `query_rows` rows at most. A causal `AlgoFormer` runs each context once: all queries
    stand at the same place and attend to the context and to themselves. Any other solver is given each
    context again for every query.
    """
    if can_share_context(solver):
        model = measuring_copy(solver, extra_tokens=queries * query_rows)  # type: ignore[arg-type]

        def read_shared(contexts: Contexts, steps: int) -> Tensor:
            rows, queries = contexts.rows, contexts.query_rows
            # the copy has a longer context: the model itself says which prompts it was built for
            solver.check(_prompt(torch.cat([rows[:1], queries[:1, 0]], dim=1), contexts))  # type: ignore[attr-defined]
            size = max(1, ROWS_AT_ONCE // (rows.shape[1] + queries.shape[1] * queries.shape[2]))
            with full_precision(model, torch.device("cpu")):
                parts = [
                    shared_context_answers(model, one, more, steps)
                    for one, more in zip(rows.split(size), queries.split(size), strict=True)
                ]
            return torch.cat(parts, dim=1).double()

        return read_shared

    def read_repeated(contexts: Contexts, steps: int) -> Tensor:
        rows, queries = contexts.rows, contexts.query_rows
        batch, count = queries.shape[:2]
        whole = torch.cat([rows[:, None].expand(-1, count, -1, -1), queries], dim=2).flatten(0, 1)
        size = max(1, 2 * ROWS_AT_ONCE // whole.shape[1])
        with full_precision(solver, torch.device("cpu")):
            parts = [
                every_answer(solver, _prompt(part, contexts), steps)[:, :, 0] for part in whole.split(size)
            ]
        return torch.cat(parts, dim=1).unflatten(1, (batch, count)).double()

    return read_repeated


def _prompt(rows: Tensor, contexts: Contexts) -> Prompt:
    """Return prompts with these rows, whose last row is the question."""
    return Prompt(
        rows=rows,
        targets=rows.new_zeros(len(rows), 1, contexts.labels.shape[-1]),
        reads=(rows.shape[1] - 1,),
        parts=contexts.parts,
    )
