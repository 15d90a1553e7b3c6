# %% [markdown]
# # The annotated AlgoFormer
#
# The paper's architecture in one line (Equation 2):
#
#     TF_post( TF_loop( ... TF_loop( TF_pre(X) ) ... ) )        TF_loop runs T times with one set of weights
#
# A pre-transformer encodes the problem, the looped transformer iterates on it like an algorithm, and a
# post-transformer decodes the answer. This page takes the model apart. It also shows one decision that the
# equation leaves open, and that decides whether the model can be trained.

# %%
import torch

from algoformer import AlgoFormer, Layers, Loop, Program, Unroll, programs, tasks
from algoformer.data.objective import window_loss
from algoformer.model import Converged

torch.manual_seed(0)

# %% [markdown]
# ## The input
#
# A prompt of in-context regression has rows x₁, y₁, x₂, y₂, ..., where the row of a label is y followed by
# zeros. The prediction of yᵢ is read at row xᵢ, where a causal model has seen the pairs before, but not yᵢ.

# %%
task = tasks.LinearRegression(dim=4, points=6)
prompt = task.sample(8, generator=torch.Generator().manual_seed(0))
print("rows", tuple(prompt.rows.shape), "read at", prompt.reads)
print(prompt.rows[0, :4])

# %% [markdown]
# ## The program
#
# The architecture is a value. `programs.algoformer` builds the same one that is spelled out here.

# %%
program = Program(
    Layers(1, heads=2, name="pre"),
    Loop(Layers(1, heads=2), steps=10, inject="add", name="loop"),
    Layers(1, heads=2, name="post"),
)
assert program == programs.algoformer(pre=1, loop=1, post=1, steps=10, heads=2)
print(program)

# %% [markdown]
# ## The model
#
# A model is a linear read-in, the program, and a linear read-out. Called with a prompt and an unroll, it
# returns a trace: the predictions after each iteration that is read out. The paper's T and ΔT are `steps`
# and `window`.

# %%
model = AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=16)
with torch.no_grad():  # GPT-2's small first weights hardly move the state; larger ones let us see something
    for weight in model.body.parameters():
        weight.mul_(12 if weight.dim() == 2 else 1)
trace = model(prompt, Unroll(steps=10, window=5))
print("predictions", tuple(trace.predictions.shape), "after iterations", trace.steps)

# %% [markdown]
# The loop can run longer than its program says, or until the predictions no longer change.

# %%
with torch.no_grad():
    longer = model(prompt, Unroll(steps=50, window=1))
    settled = model(prompt, stop=Converged(tolerance=1e-4, max_steps=200))
print("after 50 iterations", tuple(longer.final.shape), "; settled after", settled.iterations.tolist())

# %% [markdown]
# ## The forward pass by hand
#
# Five lines reproduce the model. The state starts at zero; the pre-transformer's output is **added at
# every iteration**, not only at the first. The positions and the final norm of the loop are part of its
# body. They are applied at every iteration, which keeps the state bounded.

# %%
pre, loop, post = model.body.parts
entry = pre(model.read_in(prompt.rows))
state = torch.zeros_like(entry)
for _ in range(10):
    state = loop.body(state + entry)
answers = model.read_out(post(state))[:, list(prompt.reads)]
torch.testing.assert_close(answers, trace.final)

# %% [markdown]
# ## Hidden states
#
# Each state has an address (see `docs/notation.md`). How far does the state move in each iteration?

# %%
kept = model(prompt, Unroll(steps=10, keep=tuple(f"loop[{step}]" for step in range(1, 11)))).states
moves = [
    (kept[f"loop[{k + 1}]"] - kept[f"loop[{k}]"]).norm() / kept[f"loop[{k}]"].norm() for k in range(1, 10)
]
print("relative move", " ".join(f"{move:.3f}" for move in moves))

# %% [markdown]
# ## The loss and its gradient
#
# Equation 3 averages the squared error over the last ΔT iterations. To save memory the iterations before
# the window keep no graph. If, as in Equation 2, the pre-transformer's output is only the first state, then
# the state that enters the window is a constant, and **the pre-transformer gets no gradient at all.** With
# injection, it gets a gradient through every iteration of the window.


# %%
def gradient_of_pre(inject: str, unroll: Unroll) -> float:
    """The norm of the loss's gradient in the pre-transformer."""
    torch.manual_seed(0)
    model = AlgoFormer(programs.algoformer(heads=2, inject=inject), dim=4, out=1, context=12, width=16)
    window_loss(model(prompt, unroll), prompt).backward()
    pre = model.body.parts[0]
    return sum(p.grad.norm().item() for p in pre.parameters() if p.grad is not None)


truncated = Unroll(steps=10, window=5, grad_steps=5)
for inject in ("add", "gate", "none"):
    print(f"inject {inject:5} gradient in pre {gradient_of_pre(inject, truncated):.4f}")
assert gradient_of_pre("none", truncated) == 0 < gradient_of_pre("add", truncated)
assert gradient_of_pre("none", Unroll(steps=10, window=5)) > 0  # the full gradient reaches it

# %% [markdown]
# The library refuses to train the combination without a gradient. `docs/getting-started.md` trains a model.
