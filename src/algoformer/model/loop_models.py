"""The published loop models as programs, with the constants of their papers.

Sizes that belong to the model and not to the program (width, vocabulary, context) are chosen where it is
built, and `layer` overrides any field of the layers. The hidden width of feed-forward networks is four times
the stream's unless `hidden` is given, also where the published models have another one. The docstring says
what a preset leaves out.

>>> print(ouro(layers=2, heads=4))
loop  ⟲ 4 steps, inject none
  2 layers × 4 heads, RMS norm, norms in and out, no bias, RoPE, gated silu
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from algoformer.model.formats import MODERN
from algoformer.model.program import Layers, Loop, Program, modules_of
from algoformer.model.two_states import TwoStates

LLAMA: dict[str, Any] = {**MODERN, "norm_eps": 1e-6}
"""The block of Llama: RMS norm, rotary positions, SwiGLU, no biases."""


def ouro(layers: int = 24, *, steps: int = 4, halt: str = "none", **layer: Any) -> Program:
    """Ouro (Zhu et al., 2025): the whole stack four times, with norms before and after each sublayer.

    The norm at the end runs at every iteration. `halt="gate"` adds the exit gate, which is trained with the
    losses "exit" and "gate".
    """
    words = {**LLAMA, "heads": 16, "norm_at": "in+out", "rope_base": 1_000_000, **layer}
    return Program(Loop(Layers(layers, **words), steps=steps, inject="none", name="loop", halt=halt))


def nanbeige(layers: int = 22, *, steps: int = 2, **layer: Any) -> Program:
    """Nanbeige 4.2 3B: a Llama with grouped keys whose whole stack, final norm included, runs twice."""
    words = {**LLAMA, "heads": 48, "kv_heads": 8, "head_width": 128, "rope_base": 70_000_000, **layer}
    return Program(Loop(Layers(layers, **words), steps=steps, inject="none", name="loop"))


def huginn(prelude: int = 2, core: int = 4, coda: int = 2, *, steps: int = 32, **layer: Any) -> Program:
    """Huginn (Geiping et al., 2025): state and input through a linear map, from noise, norms in and after.

    Left out: queries and keys alone have biases there (here values too), the norm after the loop shares its
    weights with the last one, and embeddings are scaled by √width.
    """
    words = {**LLAMA, "heads": 55, "norm_at": "in+after", "rope_base": 50_000, "bias": "qkv", **layer}
    inner = {**words, "final_norm": False}
    return Program(
        Layers(prelude, name="prelude", **inner),
        Loop(Layers(core, **inner), steps=steps, inject="concat", start="noise", name="loop"),
        Layers(0, name="norm", **{**words, "positions": "none"}),
        Layers(coda, name="coda", **words),
    )


def parcae(prelude: int = 2, core: int = 2, coda: int = 2, *, steps: int = 8, **layer: Any) -> Program:
    """Parcae (2026): the state decays and the input is added through a linear map; squared ReLU, QK norms.

    Left out: value embeddings, and the linear map after the loop, which is the identity at the start.
    """
    own = {"norm_eps": 1e-5, "qk_norm": "plain", "rope_base": 50_000, "activation": "relu2", "gated": False}
    words = {**LLAMA, "heads": 6, **own, **layer}
    return Program(
        Layers(prelude, name="prelude", **words),
        Loop(
            Layers(core, **{**words, "final_norm": False}),
            steps=steps,
            inject="decay",
            start="noise",
            name="loop",
        ),
        Layers(coda, name="coda", **words),
    )


def retrofit(prelude: int = 4, core: int = 8, coda: int = 4, *, steps: int = 32, **layer: Any) -> Program:
    """A pretrained TinyLlama with its middle looped (McLeish et al., 2025): Huginn's loop, Llama's block."""
    words = {**LLAMA, "heads": 32, "kv_heads": 4, "norm_eps": 1e-5, **layer}
    inner = {**words, "final_norm": False}
    return Program(
        Layers(prelude, name="prelude", **inner),
        Loop(Layers(core, **inner), steps=steps, inject="concat", start="noise", name="loop"),
        Layers(coda, name="coda", **words),
    )


def mor_cycle(core: int = 10, *, steps: int = 3, **layer: Any) -> Program:
    """Mixture of Recursions (Bae et al., 2025), middle cycle: a loop between two layers of their own.

    Left out: the router, so that every token runs at full depth.
    """
    words = {**LLAMA, "heads": 9, "kv_heads": 3, **layer}
    inner = {**words, "final_norm": False}
    return Program(
        Layers(1, name="first", **inner),
        Loop(Layers(core, **inner), steps=steps, inject="none", name="loop"),
        Layers(1, name="last", **words),
    )


def mor_sequence(core: int = 10, *, steps: int = 3, **layer: Any) -> Program:
    """Mixture of Recursions, middle sequence: as `mor_cycle`, but each layer repeats before the next."""
    words = {**LLAMA, "heads": 9, "kv_heads": 3, **layer}
    inner = {**words, "final_norm": False}
    loops = [Loop(Layers(1, **inner), steps=steps, inject="none") for _ in range(core)]
    return Program(Layers(1, name="first", **inner), *loops, Layers(1, name="last", **words))


def universal(layers: int = 1, *, steps: int = 6, halt: str = "none", **layer: Any) -> Program:
    """The Universal Transformer (Dehghani et al., 2019) as a decoder: sinusoids of position and of step.

    `halt="act"` adds adaptive computation time. Left out: the encoder, the scale √width of embeddings.
    Attention has biases here and none there.
    """
    words = {"heads": 8, "positions": "sinusoid", "activation": "relu", "final_norm": False, **layer}
    words_of_loop: dict[str, Any] = {"inject": "none", "step_signal": "sinusoid", "halt": halt}
    loop = Loop(Layers(layers, **words), steps=steps, name="loop", **words_of_loop)
    return Program(loop, Layers(0, positions="none", name="norm"))


def albert(layers: int = 1, *, steps: int = 12, **layer: Any) -> Program:
    """ALBERT (Lan et al., 2020): one layer twelve times, norms after each sublayer, full attention.

    Left out: token types, and the narrow embedding with its linear map.
    """
    words = {"heads": 12, "causal": False, "norm_at": "after", "norm_eps": 1e-12, **layer}
    inner = {**words, "positions": "none", "final_norm": False}
    loop = Loop(Layers(layers, **inner), steps=steps, inject="none", name="loop")
    return Program(Layers(0, name="embedding", **words), loop)


def hrm(layers: int = 4, *, steps: int = 2, low_steps: int = 2, **layer: Any) -> Program:
    """The hierarchical reasoning model (Wang et al., 2025): a slow and a fast network, full attention.

    Left out: the embedding of the puzzle's number and the scale √width of embeddings. Start vectors are
    learned here and fixed there. Segments with a carried state belong to training.
    """
    own = {"norm": "plain", "norm_at": "after", "norm_eps": 1e-5, "causal": False, "final_norm": False}
    words = {**LLAMA, "heads": 8, **own, **layer}
    low = Loop(Layers(layers, **words), steps=low_steps, name="low")
    return Program(TwoStates((low, Layers(layers, name="high", **words)), steps=steps, name="loop"))


def trm(layers: int = 2, *, steps: int = 3, low_steps: int = 6, **layer: Any) -> Program:
    """The tiny recursive model (Jolicoeur-Martineau, 2025): as `hrm`, with one network for both states.

    The loop of the network runs `low_steps` + 1 times: the last of them updates the slow state. Left out: as
    in `hrm`, and the variant that mixes tokens by an MLP instead of attention.
    """
    own = {"norm": "plain", "norm_at": "after", "norm_eps": 1e-5, "causal": False, "final_norm": False}
    words = {**LLAMA, "heads": 8, **own, **layer}
    both = Loop(Layers(layers, **words), steps=low_steps + 1, name="low")
    return Program(TwoStates(both, steps=steps, name="loop"))


def hrm_text(layers: int = 16, *, steps: int = 2, low_steps: int = 3, **layer: Any) -> Program:
    """HRM-Text 1B (2026): two stacks of gated attention; the input is the first slow state.

    Left out: the scale of embeddings, which an import folds into their weights.
    """
    own = {"heads": 12, "head_width": 128, "norm": "plain", "output_gate": True}
    words = {**LLAMA, **own, **layer}
    low = Loop(Layers(layers, **words), steps=low_steps, name="low")
    high = Layers(layers, name="high", **words)
    return Program(TwoStates((low, high), steps=steps, inject="none", name="loop"))


def deq(layers: int = 1, *, steps: int = 30, **layer: Any) -> Program:
    """A deep equilibrium transformer (Bai et al., 2019): input at every step, run to a fixed point.

    Run it until `Converged`. Left out: relative positions, the solver, implicit gradients. The input is added
    to the state here, and to queries, keys and values there, whose norms have no weights.
    """
    words = {"heads": 8, "norm_at": "after", "activation": "relu", "positions": "none", **layer}
    loop = Loop(Layers(layers, **{**words, "final_norm": False}), steps=steps, name="loop")
    return Program(Layers(0, name="embedding", positions="learned"), loop)


LOOP_MODELS: dict[str, Callable[..., Program]] = {
    "ouro": ouro,
    "nanbeige": nanbeige,
    "huginn": huginn,
    "parcae": parcae,
    "retrofit": retrofit,
    "mor_cycle": mor_cycle,
    "mor_sequence": mor_sequence,
    "universal": universal,
    "albert": albert,
    "hrm": hrm,
    "trm": trm,
    "hrm_text": hrm_text,
    "deq": deq,
}
"""The published loop models by name."""


def small_loop_model(name: str, *, heads: int, causal: bool = True) -> Program:
    """Return a published loop model with one layer in each module and `heads` heads, for small widths.

    Mixture of Recursions has two layers in the middle: with one, its cycle and its sequence are the same.

    >>> print(small_loop_model("nanbeige", heads=4))
    loop  ⟲ 2 steps, inject none
      1 layer × 4 heads, RMS norm, no bias, RoPE, gated silu, 2 KV heads
    """
    preset = LOOP_MODELS[name]
    counts = {"layers", "prelude", "core", "coda"} & {*signature(preset).parameters}
    words: dict[str, Any] = dict.fromkeys(counts, 1)
    if name in ("mor_cycle", "mor_sequence"):
        words["core"] = 2
    if any(layers.kv_heads is not None for layers in modules_of(preset())):
        words["kv_heads"] = max(1, heads // 2)
    return preset(heads=heads, head_width=None, causal=causal, **words)
