# %% [markdown]
# # A loop in a loop
#
# Programs may nest loops. This page has a task whose textbook method has that shape.
#
# The task is linear regression in which a fifth of the labels have a gross error. Least squares trusts every
# label and fails. *Iteratively reweighted* least squares runs two loops: the outer one decides
# how much to trust each pair by how badly it fits, the inner one solves the weighted problem.

# %%
from pathlib import Path

from algoformer import algorithms, programs, tasks
from algoformer.evaluation import compare, evaluation_prompts
from algoformer.report import error_by_sample, save
from algoformer.report.diagram import diagram

# %% [markdown]
# ## The textbook
#
# Six numbers to find, up to forty pairs. `evaluation_prompts` draws prompts that no training run has
# seen.

# %%
task = tasks.RobustRegression(dim=6, points=41, outliers=0.2)
prompt = evaluation_prompts(task, count=128)
solvers = {
    "least squares": algorithms.LeastSquares(),
    "ridge": algorithms.Ridge(strength=20.0),
    "reweighted least squares": algorithms.IterativelyReweighted(),
}
results = compare(solvers, prompt, steps=20)
for result in results:
    shown = "  ".join(f"{result.by_sample.at(count):8.1e}" for count in (10, 20, 40))
    print(f"{result.label:26} after 10, 20, 40 pairs: {shown}")

# %% [markdown]
# Ten pairs are too few to detect wrong labels. With forty, about eight of them wrong, least squares is still
# far off, and the reweighted method is exact up to rounding.

# %%
plain, _, reweighted = (result.error for result in results)
assert reweighted < plain / 100

# %% [markdown]
# ## The program of that shape
#
# `programs.nested` has an outer module and an inner loop. An unroll sets the iterations of the outer loop;
# the inner one runs as often as the program says.

# %%
program = programs.nested(steps=5, inner_steps=4)
print(program)
Path("nested.svg").write_text(diagram(program), encoding="utf-8")
save(error_by_sample(results), Path("through_outliers"))
print("wrote nested.svg, through_outliers.png and through_outliers.svg")

# %% [markdown]
# To train it: `algoformer train --data robust --program nested`. To compare the
# trained model with both methods: `algoformer evaluate RUN --against irls,least-squares`.
