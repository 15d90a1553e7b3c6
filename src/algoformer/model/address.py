"""Names for the states inside a program, and the notebook that keeps those asked for.

An address is a path: `pre` is the state after that part, `pre/0` after its layer 0, `loop[3]` after the
third iteration of a loop and `loop[3]/0` after layer 0 inside that iteration. In nested programs the path
goes on: `loop[3]/inner[2]/0`. A part without a name goes by its place in its program, except that the
single unnamed module inside a loop needs no word of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from torch import Tensor

from algoformer.model.program import Layers, Loop, Part, Program, traced_part
from algoformer.model.visibility import Visibility


def part_address(program: Program, index: int, prefix: str) -> str:
    """Where part `index` of `program` stands, if the program itself stands at `prefix`."""
    part = program.parts[index]
    alone = len(program) == 1 and isinstance(part, Layers) and not part.name and prefix
    if alone:
        return prefix
    word = part.name or str(index)
    return f"{prefix}/{word}" if prefix else word


def addresses(program: Program, steps: int | None = None) -> Iterator[str]:
    """Every address of a program whose traced loop runs `steps` times (by default as it says itself).

    >>> from algoformer.model.presets import algoformer
    >>> list(addresses(algoformer(steps=2)))
    ['pre', 'pre/0', 'loop[1]', 'loop[1]/0', 'loop[2]', 'loop[2]/0', 'post', 'post/0']
    """
    yield from (address for address, _ in _in_program(program, "", steps))


def layer_addresses(program: Program, steps: int | None = None) -> Iterator[tuple[str, Layers]]:
    """Every address at which a layer runs, in the order they run, each with the module it belongs to.

    >>> from algoformer.model.presets import algoformer
    >>> [address for address, _ in layer_addresses(algoformer(steps=2))]
    ['pre/0', 'loop[1]/0', 'loop[2]/0', 'post/0']
    """
    for address, layers in _in_program(program, "", steps):
        if layers is not None:
            yield address, layers


def _in_program(program: Program, prefix: str, steps: int | None) -> Iterator[tuple[str, Layers | None]]:
    traced = traced_part(program)
    for index, part in enumerate(program):
        address = part_address(program, index, prefix)
        if address != prefix and not isinstance(part, Loop):
            yield address, None
        yield from _in_part(part, address, steps if index == traced else None)


def _in_part(part: Part, address: str, steps: int | None) -> Iterator[tuple[str, Layers | None]]:
    if isinstance(part, Layers):
        yield from ((f"{address}/{layer}", part) for layer in range(part.count))
    elif isinstance(part, Loop):
        for iteration in range(1, (steps or part.steps) + 1):
            yield f"{address}[{iteration}]", None
            yield from _in_program(part.body, f"{address}[{iteration}]", None)
    else:
        for number, branch in enumerate(part.branches):
            yield from _in_program(branch, f"{address}/branch{number}", steps)


class Notebook:
    """Goes with a stream through a program: keeps the states whose addresses were asked for.

    It also knows what the tokens see, where that is not simply all or all before them (`visibility`).

    Raises:
        ValueError: an address does not exist in the program; the message names the nearest that does.
    """

    def __init__(
        self, keep: Iterable[str], program: Program, steps: int, visibility: Visibility | None = None
    ) -> None:
        self.keep = frozenset(keep)
        self.visibility = visibility
        self.states: dict[str, Tensor] = {}
        if not self.keep:
            return
        known = list(addresses(program, steps))
        for address in sorted(self.keep - set(known)):
            near = difflib.get_close_matches(address, known, n=1)
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else f"; there are {len(known)} addresses, e.g. {known[0]!r}"
            )
            raise ValueError(f"no state at address {address!r} when the loop runs {steps} step(s){hint}")

    def note(self, address: str, state: Tensor) -> None:
        """Remember `state` if its address was asked for."""
        if address in self.keep:
            self.states[address] = state
