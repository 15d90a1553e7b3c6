"""The loops of a program that an unroll does not count: those inside the traced loop, and those before it.

Such a loop is called by its address without iterations, `loop/inner`, or by its last word if that is unique.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from algoformer.model.address import part_address
from algoformer.model.program import Loop, Parallel, Part, Program, traced_part


def inner_loops(program: Program) -> dict[str, Loop]:
    """Return all loops but the traced one, by their address without iterations.

    >>> from algoformer.model.presets import nested
    >>> [(name, loop.steps) for name, loop in inner_loops(nested(inner_steps=4)).items()]
    [('loop/inner', 4)]
    """
    return dict(_in_program(program, "", traced=True))


def inner_steps(program: Program, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the iterations of some inner loops by full address, from names or addresses.

    Raises:
        ValueError: there is no such loop, or several have that name; the message lists those that exist.
    """
    known = list(inner_loops(program))
    found: dict[str, int] = {}
    for name, steps in wanted.items():
        matching = [one for one in known if name in (one, one.rpartition("/")[2])]
        if len(matching) != 1:
            raise ValueError(f"inner: {_why_not(name, matching, known)}")
        found[matching[0]] = steps
    return found


def _why_not(name: str, matching: list[str], known: list[str]) -> str:
    if matching:
        return f"{len(matching)} loops are named {name!r}; give one of {', '.join(matching)}"
    if not known:
        return f"the program has no loop besides the traced one, got {name!r}; set the unroll's steps"
    words = {one.rpartition("/")[2]: one for one in known} | {one: one for one in known}
    near = difflib.get_close_matches(name, words, n=1)
    hint = f"did you mean {words[near[0]]!r}?" if near else f"there are {', '.join(known)}"
    return f"no inner loop is named {name!r}; {hint}"


def with_inner_steps(program: Program, wanted: Mapping[str, int]) -> Program:
    """Return the program whose inner loops run as often as asked for.

    >>> from algoformer.model.presets import nested
    >>> changed = with_inner_steps(nested(inner_steps=4), {"inner": 9})
    >>> inner_loops(changed)["loop/inner"].steps
    9
    """
    return _changed(program, "", inner_steps(program, wanted)) if wanted else program


def _in_program(program: Program, prefix: str, *, traced: bool) -> Iterator[tuple[str, Loop]]:
    """Yield the loops of a program; with `traced` its traced loops are left out."""
    last = traced_part(program) if traced else None
    for index, part in enumerate(program):
        address = part_address(program, index, prefix)
        if isinstance(part, Loop):
            if index != last:
                yield address, part
            yield from _in_program(part.body, address, traced=False)
        elif isinstance(part, Parallel):
            for number, branch in enumerate(part.branches):
                yield from _in_program(branch, f"{address}/branch{number}", traced=index == last)


def _changed(program: Program, prefix: str, steps: Mapping[str, int]) -> Program:
    parts = enumerate(program)
    return Program(
        *(_changed_part(part, part_address(program, index, prefix), steps) for index, part in parts)
    )


def _changed_part(part: Part, address: str, steps: Mapping[str, int]) -> Part:
    if isinstance(part, Loop):
        body = _changed(part.body, address, steps)
        return replace(part, body=body, steps=steps.get(address, part.steps))
    if isinstance(part, Parallel):
        branches = enumerate(part.branches)
        changed = (_changed(branch, f"{address}/branch{number}", steps) for number, branch in branches)
        return Parallel(*changed, name=part.name)
    return part
