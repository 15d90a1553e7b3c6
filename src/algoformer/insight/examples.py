"""The instrument for labelled examples: many queries are asked after the same examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from algoformer.insight.answers import Reader, answer_reader, precision_of
from algoformer.insight.ceilings import operator_ceilings
from algoformer.insight.comparison import Comparison
from algoformer.insight.contexts import Contexts, draw_contexts
from algoformer.insight.findings import Findings
from algoformer.insight.gates import gate_contexts, measure_gates
from algoformer.insight.influence import foreign_labels, measure_influence
from algoformer.insight.weights import Implied, implied_weights
from algoformer.tasks import Task
from algoformer.trace import Solver


@dataclass(frozen=True, kw_only=True)
class OnExamples:
    """A solver with the weights that its answers imply."""

    read: Reader
    contexts: Contexts
    data: Implied

    @classmethod
    def of(
        cls, solver: Solver, task: Task, *, steps: int, prompts: int, queries: int, seed: int, problem: int
    ) -> OnExamples:
        """Measure a solver on held-out prompts with `queries` queries each."""
        contexts = draw_contexts(
            task, prompts=prompts, queries=queries, seed=seed, dtype=precision_of(solver), problem=problem
        )
        read = answer_reader(solver, queries=queries, query_rows=problem + 1)
        return cls(read=read, contexts=contexts, data=implied_weights(read, contexts, steps))

    @property
    def own_features(self) -> bool:
        """True if the features are not the inputs themselves."""
        return not torch.equal(self.contexts.features, self.contexts.inputs.double())

    def examine(self, compared: Comparison, *, seed: int) -> Findings:
        """Change labels, queries and the order of examples; ask few prompts with many sets of labels."""
        read, contexts, passes = self.read, self.contexts, compared.passes
        rotates = not self.own_features and contexts.problem == 0
        gates = measure_gates(read, gate_contexts(contexts), passes, rotates=rotates, seed=seed)
        # one pass more than what is described: the last fast pass still mixes several effects
        late = min(passes[-1] + 1, len(self.data.weights) - 1)
        influence = measure_influence(read, contexts.head(4), steps=late + 1)
        operators: dict[str, tuple[float, ...]] = {}
        if compared.moves:
            operators = operator_ceilings(read, contexts, steps=passes[-1] + 1, problems=3, seed=seed)
        first = contexts.inputs.shape[1] * 3 // 4
        return Findings(
            gates=gates,
            influence=influence,
            late=late,
            foreign=foreign_labels(read, contexts.head(24), steps=late + 1, first=first),
            operators=operators,
            nonlinear=tuple(self.data.nonlinear.tolist()),
            importance=influence.importance(late),
        )
