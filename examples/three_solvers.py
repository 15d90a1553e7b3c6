# %% [markdown]
# # Three solvers, one signature
#
# A prompt shows forty pairs (x, y) with y = <w, x> for some hidden w in twenty dimensions, and asks for
# the y of one more x. Three different solvers answer it:
#
# - **gradient descent**, straight from the textbook, with the best fixed step for each prompt;
# - **Newton's iteration** for the inverse of the Gram matrix, from the textbook too;
# - **a transformer** that was never trained. Its weights come from a theorem: one pass of its loop is one
#   step of Newton's method.
#
# All three have the same signature, `solver(prompt, unroll) -> trace`.

# %%
from pathlib import Path

import torch

from algoformer import algorithms, evaluate, tasks
from algoformer.report import error_by_step, save
from algoformer.theory import newton

# %% [markdown]
# ## The task
#
# A task is a distribution over prompts. It draws them from a given generator, so the same seed gives the
# same prompts. Theorems are verified in float64. `prefix()` keeps only the last question of each prompt and
# removes the rows after it, because this transformer has full attention and must not see the answer.

# %%
task = tasks.LinearRegression(dim=20, points=41)
prompt = task.sample(32, generator=torch.Generator().manual_seed(0), dtype=torch.float64).prefix()

# %% [markdown]
# ## The solvers
#
# Newton's iteration is M₀ = αS, then M ← 2M - M S M with S = Σ xᵢxᵢᵀ; it converges for 0 < α <
# 2/λ_max(S)². `theory.newton` returns an `AlgoFormer`, the class that is also trained. Its program shows that
# one layer with two heads is the whole loop.

# %%
alpha = 1 / 150**2
solvers = {
    "gradient descent": algorithms.GradientDescent(),
    "Newton's method": algorithms.Newton(alpha=alpha),
    "transformer by hand": newton(dim=20, examples=40, alpha=alpha),
}
print(solvers["transformer by hand"].program)

# %% [markdown]
# ## Measure
#
# `evaluate` runs a solver on fixed prompts. The error is squared and divided by the task's scale, so that
# predicting 0 costs 1. It has a bootstrap band, per iteration and per number of examples.

# %%
results = [evaluate(solver, prompt, steps=15, label=name) for name, solver in solvers.items()]
for result in results:
    print(f"{result.label:30} {result.error:.1e}")

# %% [markdown]
# Gradient descent gains a digit in ten steps. Near the solution, Newton's method squares its error at every
# step, and so does the transformer.

# %%
newtons, transformers = (result.by_step.error for result in results[1:])
gap = max(abs(a / b - 1) for a, b in zip(newtons[:12], transformers[:12], strict=True))
print(f"largest relative gap between their errors over the first 12 steps: {gap:.0e}")
assert gap < 1e-3

# %% [markdown]
# Both differ only at the end. An attention head multiplies through a softmax, exp(cz) ≈ 1 + cz, which is
# exact only in the limit of small c. Its answers have an error of about 1e-10, whose square is about 1e-19.

# %%
for name in ("Newton's method", "transformer by hand"):
    result = evaluate(solvers[name], prompt, steps=20, window=1)
    print(f"{name:30} {result.error:.0e} after 20 steps")
assert result.error < 1e-17

# %% [markdown]
# ## Draw
#
# Solid lines are models, dashed ones textbook methods. Dashed lines are drawn on top, so that both are
# visible.

# %%
figure = error_by_step(results)
for line in figure.axes[0].lines:
    if line.is_dashed():
        line.set_zorder(5)
save(figure, Path("three_solvers"))
print("wrote three_solvers.png and three_solvers.svg")
