"""Addresses of the states and of the loops inside a program.

An address is a path: `pre` is the state after that part, `pre/0` after its layer 0, `loop[3]` after the
third iteration of a loop and `loop[3]/0` after layer 0 inside that iteration. In nested programs the path
goes on: `loop[3]/inner[2]/0`. A part without a name is called by its number in its program, except that the
single unnamed module inside a loop needs no word of its own. The attention weights of a layer have an
address too: `loop[3]/0/attention`.

The loops that an unroll does not count, those inside the traced loop and those before it, are called by their
address without iterations, `loop/inner`, or by its last word if that is unique.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from algoformer.model.program import Layers, Loop, Parallel, Part, Program, traced_part

SUGGESTED_FROM = 10_000
"""The nearest match of an unknown address is looked for among this many addresses."""


def part_address(program: Program, index: int, prefix: str) -> str:
    """Return the address of part `index` of `program`, if the program itself stands at `prefix`."""
    part = program.parts[index]
    alone = len(program.parts) == 1 and isinstance(part, Layers) and not part.name and prefix
    if alone:
        return prefix
    word = part.name or str(index)
    return f"{prefix}/{word}" if prefix else word


def addresses(program: Program, steps: int | None = None) -> Iterator[str]:
    """Yield every address of a program whose traced loop runs `steps` times (default: as the program says).

    The attention weights of each layer, at the layer's address + "/attention", are not listed.

    >>> from algoformer.model.presets import algoformer
    >>> list(addresses(algoformer(steps=2)))
    ['pre', 'pre/0', 'loop[1]', 'loop[1]/0', 'loop[2]', 'loop[2]/0', 'post', 'post/0']
    """
    yield from (address for address, _ in _in_program(program, "", steps))


def layer_addresses(program: Program, steps: int | None = None) -> Iterator[tuple[str, Layers]]:
    """Yield every address at which a layer runs, in the order they run, each with the module it belongs to.

    >>> from algoformer.model.presets import algoformer
    >>> [address for address, _ in layer_addresses(algoformer(steps=2))]
    ['pre/0', 'loop[1]/0', 'loop[2]/0', 'post/0']
    """
    for address, layers in _in_program(program, "", steps):
        if layers is not None:
            yield address, layers


def _in_program(
    program: Program, prefix: str, steps: int | None, towards: str | None = None
) -> Iterator[tuple[str, Layers | None]]:
    """Yield the addresses inside a program, those of layers with their module.

    With `towards` only the way to that address is gone, however often the loops on it run.
    """
    traced = traced_part(program)
    for index, part in enumerate(program.parts):
        address = part_address(program, index, prefix)
        if towards is not None and not towards.startswith(address):
            continue
        if address != prefix and not isinstance(part, Loop):
            yield address, None
        yield from _in_part(part, address, steps if index == traced else None, towards)


def _in_part(
    part: Part, address: str, steps: int | None, towards: str | None
) -> Iterator[tuple[str, Layers | None]]:
    if isinstance(part, Layers):
        yield from ((f"{address}/{layer}", part) for layer in range(part.count))
    elif isinstance(part, Loop):
        iterations: Sequence[int] = range(1, (steps or part.steps) + 1)
        if towards is not None:
            named = re.match(r"\[([1-9]\d{0,8})\]", towards.removeprefix(address), re.ASCII)
            iterations = [int(named[1])] if named and int(named[1]) in iterations else []
        for iteration in iterations:
            yield f"{address}[{iteration}]", None
            yield from _in_program(part.body, f"{address}[{iteration}]", None, towards)
    else:
        for number, branch in enumerate(part.branches):
            yield from _in_program(branch, f"{address}/branch{number}", steps, towards)


def check_address(program: Program, address: str, steps: int) -> None:
    """Refuse an address that a program whose traced loop runs `steps` times does not have."""
    layer = address.removesuffix("/attention")
    for found, layers in _in_program(program, "", steps, towards=address):
        if found == address or (found == layer and layers is not None):
            return
    known = list(islice(addresses(program, steps), SUGGESTED_FROM))
    near = difflib.get_close_matches(address, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {len(known)} addresses, e.g. {known[0]!r}"
    raise ValueError(f"no state at address {address!r} when the loop runs {steps} step(s); {hint}")


def inner_loops(program: Program) -> dict[str, Loop]:
    """Return all loops but the traced one, by their address without iterations.

    >>> from algoformer.model.presets import nested
    >>> [(name, loop.steps) for name, loop in inner_loops(nested(inner_steps=4)).items()]
    [('loop/inner', 4)]
    """
    return dict(_loops_in(program, "", traced=True))


def inner_steps(program: Program, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the iterations of some inner loops by full address, from names that are unique or addresses."""
    known = list(inner_loops(program))
    found: dict[str, int] = {}
    for name, steps in wanted.items():
        matching = [name] if name in known else [one for one in known if one.rpartition("/")[2] == name]
        if len(matching) != 1:
            raise ValueError(f"inner: {_why_no_loop(name, matching, known)}")
        found[matching[0]] = steps
    return found


def _why_no_loop(name: str, matching: list[str], known: list[str]) -> str:
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


def _loops_in(program: Program, prefix: str, *, traced: bool) -> Iterator[tuple[str, Loop]]:
    """Yield the loops of a program; with `traced` its traced loops are left out."""
    last = traced_part(program) if traced else None
    for index, part in enumerate(program.parts):
        address = part_address(program, index, prefix)
        if isinstance(part, Loop):
            if index != last:
                yield address, part
            yield from _loops_in(part.body, address, traced=False)
        elif isinstance(part, Parallel):
            for number, branch in enumerate(part.branches):
                yield from _loops_in(branch, f"{address}/branch{number}", traced=index == last)


def _changed(program: Program, prefix: str, steps: Mapping[str, int]) -> Program:
    parts = enumerate(program.parts)
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
