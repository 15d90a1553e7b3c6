"""Random programs for property tests: nested, parallel, named or not, with every switch thrown.

`words` adds the words that not every test's model knows: other positions, starts, injections and `halt`.
"""

from typing import Any

import jaxtyping
from hypothesis import strategies as st

from algoformer.model import Layers, Loop, Parallel, Program, TwoStates

NAMES = ("", "", "pre", "loop", "inner", "post", "with_underscore", "gr_e")


def build(kind: type[Any], *values: Any, **named: Any) -> Any:
    """Make a part without type checks: beartype looks at random items, and drawing must not be random."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return kind(*values, **named)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@st.composite
def layers(
    draw: st.DrawFn, *, causal: bool | None = None, most: int = 2, name: str = "", words: bool = False
) -> Layers:
    count = draw(st.integers(0, most))
    positions = draw(st.sampled_from((True, False, "rope", "sinusoid")) if words else st.booleans())
    widths = (2, 4) if positions == "rope" else (None, None, 1, 3)
    return build(
        Layers,
        count,
        heads=draw(st.sampled_from((1, 2, 4))),
        head_width=draw(st.sampled_from(widths)),
        hidden=draw(st.sampled_from((None, None, 1, 6))),
        causal=draw(st.booleans()) if causal is None else causal,
        norm=draw(st.booleans()),
        scaled=draw(st.booleans()),
        activation=draw(st.sampled_from(("gelu", "relu"))),
        bias=draw(st.booleans()),
        positions=positions,
        final_norm=draw(st.booleans()) or (count == 0 and positions in (False, "rope")),
        name=name,
    )


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    causal: bool | None = None,
    depth: int = 2,
    loops: bool = False,
    most: int = 3,
    words: bool = False,
) -> Program:
    """Programs nested up to `depth` deep; `loops` asks for at least one loop at the top."""
    parts = [draw(_part(causal, depth, name, words)) for name in _names(draw, draw(st.integers(1, most)))]
    if loops:
        parts.append(draw(_loop(causal, depth, "traced", words)))
        parts += [draw(layers(causal=causal, name="end"))] if draw(st.booleans()) else []
    return build(Program, *parts)


def _names(draw: st.DrawFn, count: int) -> list[str]:
    named = [draw(st.sampled_from(NAMES)) for _ in range(count)]
    return [name if name not in named[:index] else "" for index, name in enumerate(named)]


@st.composite
def _loop(draw: st.DrawFn, causal: bool | None, depth: int, name: str, words: bool) -> Loop:
    body = draw(_body(causal, depth, words))
    steps = draw(st.integers(1, 3))
    if draw(st.sampled_from((False, False, True))):
        low = build(Loop, body, draw(st.integers(2, 3)), "add", "low")
        high = [draw(layers(causal=causal, name="high", words=words))] if draw(st.booleans()) else []
        return build(TwoStates, (low, *high), steps, draw(st.sampled_from(("add", "none"))), name)
    signal = draw(st.sampled_from(("none", "none", "sinusoid")))
    inject = draw(st.sampled_from(("add", "none", "gate")))
    if not words:
        return build(Loop, body, steps, inject, name, step_signal=signal)
    inject = draw(st.sampled_from((inject, "concat", "decay")))
    start = "auto" if inject == "none" else draw(st.sampled_from(("auto", "input", "vector")))
    damp, halt = draw(st.sampled_from((1, 0.5))), draw(st.sampled_from(("none", "gate", "act")))
    return build(Loop, body, steps, inject, name, start, damp, signal, halt)


@st.composite
def _parallel(draw: st.DrawFn, causal: bool | None, depth: int, name: str, words: bool) -> Parallel:
    branch = _body(causal, depth, words)
    return build(Parallel, *(draw(branch) for _ in range(draw(st.integers(2, 3)))), name=name)


def _body(causal: bool | None, depth: int, words: bool) -> st.SearchStrategy[Program | Layers]:
    if depth > 1:
        return programs(causal=causal, depth=depth - 1, most=2, words=words)
    return layers(causal=causal, words=words)


def _part(
    causal: bool | None, depth: int, name: str, words: bool
) -> st.SearchStrategy[Layers | Loop | Parallel]:
    plain = layers(causal=causal, name=name, words=words)
    if not depth:
        return plain
    return st.one_of(plain, _loop(causal, depth, name, words), _parallel(causal, depth, name, words))
