"""Programs from JSON that may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from algoformer.common.terminal import short
from algoformer.model.program import Layers, Loop, Parallel, Part, Program
from algoformer.model.two_states import TwoStates

KINDS = {"layers": Layers, "loop": Loop, "twostates": TwoStates, "parallel": Parallel}
"""The parts of a program, by the word that a file has for them."""


def from_data(data: object, *, depth: int = 0) -> Program:
    """Read what `to_data` wrote; unknown parts and fields raise ValueError."""
    if not isinstance(data, list):
        raise ValueError(f"a program is a list of parts, got {type(data).__name__}")
    if depth > 50:
        raise ValueError("a program nested more than 50 deep is not read")
    return Program(*(_part_from(item, depth) for item in data))


def _part_from(data: object, depth: int) -> Part:
    if not isinstance(data, Mapping):
        raise ValueError(f"a part is an object with the key 'part', got {type(data).__name__}")
    rest = dict(data)
    kind = rest.pop("part", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"a part is one of {', '.join(KINDS)}, got {short(kind)}")
    allowed = {item.name for item in fields(KINDS[kind])}
    strange = sorted(set(rest) - allowed)
    if strange:
        raise ValueError(f"{kind} has no field {short(strange[0])}; it has {', '.join(sorted(allowed))}")
    try:
        if kind == "parallel":
            branches = [from_data(branch, depth=depth + 1) for branch in rest.pop("branches")]
            return Parallel(*branches, **rest)
        if kind != "layers":
            rest["body"] = from_data(rest["body"], depth=depth + 1)
        return KINDS[kind](**rest)
    except (TypeError, KeyError) as error:
        raise ValueError(f"{kind} cannot be read: {str(error)[:300]}") from None
