"""Transformer layers as frozen data: one module of a program."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any, ClassVar

from algoformer.common.names import check_choice
from algoformer.common.plain_data import check_count, is_number
from algoformer.common.terminal import short
from algoformer.nn.tables import ACTIVATIONS, NORMS, PLACES, POSITIONS, LayerSizes, check_places

QK_NORMS = ("none", "head", "full", "plain")
"""RMS norms of queries and keys: of each head, of all heads together, or of each head without weights."""


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a part; empty means that a part has none."""
    if name == "":
        return
    shown = repr(name) if len(repr(name)) <= 60 else f"{repr(name)[:60]}…"
    if not isinstance(name, str) or not (name.isascii() and name.replace("_", "").isalpha()):
        raise ValueError(f"a part's name is made of ASCII letters and underscores, got {shown}")
    if keyword.iskeyword(name) or name.startswith("__"):
        raise ValueError(f"a part cannot be named {shown}, which is a word of Python; choose another name")
    if name == "width":
        raise ValueError(
            "a part cannot be named 'width', which is a setting of the model; choose another name"
        )


@dataclass(frozen=True)
class Layers:
    """`count` distinct transformer layers, with positions added before them and a norm after them.

    This is one module of the paper (a pre-, looped or post-transformer). The defaults are GPT-2's block;
    `equation_one` gives the paper's Equation 1. A module without layers may still add positions or a norm.

    Attributes:
        count: how many layers.
        heads: attention heads of each layer.
        head_width: width of a head; None means the stream's width divided by the heads.
        hidden: width of the feed-forward network; None means four times the stream.
        causal: whether a token attends only to itself and to earlier tokens.
        norm: the norm of attention and feed-forward, a name in `nn.NORMS`: "layer", "rms", "none", ...
        scaled: whether scores are divided by √head_width.
        activation: the activation of the feed-forward network, a name in `nn.ACTIVATIONS`.
        bias: whether linear maps have biases; "qkv" gives them to queries, keys and values only.
        positions: the positions, a name in `nn.POSITIONS`: "learned" (added on entry, in a loop at every
            iteration), "rope" (rotates queries and keys), "none", ...
        final_norm: whether the stack ends with a norm (in a loop: at every iteration); it is of the same kind
            as the others, or a layer norm if there are no others.
        name: for addresses and outlines; empty means the part's place in its program.
        rope_base: base of the angles of "rope".
        norm_at: where the norms stand: "in" for f(norm(x)), "out" for x + norm(f(x)), "after" for
            norm(x + f(x)), or several, such as "in+out".
        norm_eps: epsilon of the norms.
        kv_heads: heads of keys and values; fewer than `heads` is grouped-query attention, None means as many.
        qk_norm: the RMS norm of queries and keys: "none", over each "head", over all heads ("full"), or
            "plain", over each head without weights.
        output_gate: whether what the heads read is multiplied by the sigmoid of a linear map of the stream.
        gated: whether the feed-forward network is gated (GLU; with `activation="silu"` SwiGLU).

    Programs of older versions have true and false for `norm` and `positions`; they are still read.
    """

    count: int
    heads: int = 8
    head_width: int | None = None
    hidden: int | None = None
    causal: bool = True
    norm: str | bool = "layer"
    scaled: bool = True
    activation: str = "gelu"
    bias: bool | str = True
    positions: str | bool = "learned"
    final_norm: bool = True
    name: str = ""
    rope_base: int | float = 10_000
    norm_at: str = "in"
    norm_eps: float = 1e-5
    kv_heads: int | None = None
    qk_norm: str = "none"
    output_gate: bool = False
    gated: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        check_count("count", self.count, 0)
        check_count("heads", self.heads)
        for field in ("head_width", "hidden", "kv_heads"):
            if getattr(self, field) is not None:
                check_count(field, getattr(self, field))
        if not (is_number(self.rope_base) and 1 < self.rope_base < 1e12):
            raise ValueError(f"rope_base must be a number between 1 and 1e12, got {short(self.rope_base)}")
        for table in (NORMS, ACTIVATIONS, POSITIONS):
            value = getattr(self, table.kind)
            if not isinstance(value, str) or value not in table:
                object.__setattr__(self, table.kind, table.name_of(value))
        if self.norm_at not in PLACES:
            object.__setattr__(self, "norm_at", check_places(self.norm_at))
        if self.qk_norm not in QK_NORMS:
            check_choice("qk_norm", self.qk_norm, QK_NORMS)
        if not isinstance(self.norm_eps, int | float) or not 0 <= self.norm_eps < 1:
            got = short(self.norm_eps)
            raise ValueError(f"norm_eps must be a number of at least 0 and below 1, got {got}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"heads must be a multiple of kv_heads, got heads={self.heads} and kv_heads={self.kv_heads}"
            )
        if not isinstance(self.bias, bool) and self.bias != "qkv":
            raise ValueError(f"bias must be true, false or 'qkv', got {short(self.bias)}")
        for flag in ("causal", "scaled", "final_norm", "output_gate", "gated"):
            if not isinstance(getattr(self, flag), bool):
                raise ValueError(f"{flag} must be true or false, got {short(getattr(self, flag))}")
        if self.count == 0 and not (self.adds_positions or self.final_norm):
            raise ValueError("Layers(0) without positions and final_norm does nothing; leave it out")

    @property
    def adds_positions(self) -> bool:
        """True if positions are added to the stream on entry."""
        return POSITIONS[self.positions].added is not None

    @property
    def key_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def ends_with_norm(self) -> bool:
        """True if the last thing done to the stream is a norm."""
        after = self.count > 0 and "after" in self.norm_at and self.norm != "none"
        return self.final_norm or after

    @property
    def final_norm_kind(self) -> str:
        """The kind of the final norm; "none" if there is none."""
        if not self.final_norm:
            return "none"
        return "layer" if self.norm == "none" else str(self.norm)

    bodies: ClassVar[tuple[Any, ...]] = ()
    """The programs inside this part: none."""

    def sizes(self, width: int, context: int = 0) -> LayerSizes:
        """Return what these layers are built from, on a stream of `width` and sequences of `context`."""
        one = self.width_of_head(width)
        return LayerSizes(width=width, head_width=one, context=context, norm_eps=self.norm_eps, settings=self)

    def width_of_head(self, width: int) -> int:
        """Return how wide one head is on a stream of `width`."""
        if self.head_width is not None:
            return self.head_width
        if width % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide a stream of width {width}; "
                "choose other heads, another width, or give head_width"
            )
        return width // self.heads
