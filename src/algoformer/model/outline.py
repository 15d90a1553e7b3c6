"""Programs as indented lines of text, which say what differs from the defaults."""

from __future__ import annotations

from collections.abc import Iterator

from algoformer.model.halting import HALTING
from algoformer.model.program import Layers, Loop, Program
from algoformer.model.two_states import TwoStates
from algoformer.nn import NORMS, POSITIONS


def outline(program: Program) -> str:
    """Return a program as indented lines."""
    return "\n".join(_outline(program))


def _outline(program: Program, indent: str = "") -> Iterator[str]:
    broad = max(len(part.name) for part in program)
    for part in program:
        label = indent + (part.name.ljust(broad) + "  " if broad else "")
        if isinstance(part, Layers):
            yield label + describe_layers(part)
        elif isinstance(part, Loop):
            yield label + describe_loop(part)
            yield from _outline(part.body, indent + "  ")
        else:
            yield f"{label}∥ {len(part.branches)} branches, summed"
            for number, branch in enumerate(part.branches, start=1):
                yield f"{indent}  branch {number}"
                yield from _outline(branch, indent + "    ")


def describe_layers(layers: Layers) -> str:
    """Describe layers in one line: their number and heads, and what differs from the trained default."""
    text = f"{layers.count} layer{'' if layers.count == 1 else 's'}"
    if layers.count:
        text += f" × {layers.heads} head{'' if layers.heads == 1 else 's'}"
    words = {
        "causal": "full attention",
        "norm": NORMS[layers.norm].outline,
        "norm_at": f"norms {layers.norm_at.replace('+', ' and ')}",
        "qk_norm": f"QK norm {layers.qk_norm}",
        "scaled": "unscaled scores",
        "bias": "QKV bias only" if layers.bias == "qkv" else "no bias",
        "output_gate": "gated heads",
        "positions": POSITIONS[layers.positions].outline,
        "final_norm": "no final norm",
    }
    if not layers.count:
        words = {name: words[name] for name in ("norm", "positions", "final_norm")}
    notes = [word for name, word in words.items() if getattr(layers, name) != getattr(Layers, name)]
    if not layers.count:
        return ", ".join([text, *notes])
    gated = "gated " if layers.gated else ""
    notes += [gated + layers.activation] if gated or layers.activation != Layers.activation else []
    notes += [f"{layers.kv_heads} KV heads"] if layers.kv_heads is not None else []
    notes += [f"heads {layers.head_width} wide"] if layers.head_width is not None else []
    notes += [f"hidden {layers.hidden}"] if layers.hidden is not None else []
    return ", ".join([text, *notes])


def describe_loop(loop: Loop) -> str:
    """Describe a loop in one line: its steps and injection, and what differs from the default."""
    text = f"⟲ {loop.steps} step{'' if loop.steps == 1 else 's'}, inject {loop.inject}"
    text += ", two states" if isinstance(loop, TwoStates) else ""
    text += "" if loop.start == "auto" else f", start {loop.start}"
    text += "" if loop.damp == 1 else f", damp {loop.damp:g}"
    text += "" if loop.step_signal == "none" else f", {loop.step_signal} of the step added"
    return text + HALTING[loop.halt].outline
