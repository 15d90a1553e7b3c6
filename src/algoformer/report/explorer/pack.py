"""Models as JSON that a browser can run: the program, the sizes, and the weights as base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.model import AlgoFormer, Program

FORMAT = 1
"""Version of the JSON that the page reads; the page refuses any other."""

LARGEST_PAGE = 96 * 2**20
"""The most bytes of base64 weights that a page may hold; browsers become slow beyond it."""

INSTEAD = "measure this model with algoformer evaluate"
"""The advice for a model that a page cannot run."""

ASSETS = Path(__file__).parent / "page"
"""The folder with the scripts, the style and the skeleton of the page."""

_NUMPY_NAMES = {torch.float16: "<f2", torch.float32: "<f4", torch.float64: "<f8"}


def known_words() -> dict[str, dict[str, Any]]:
    """Return the fields of each part that the page can run, with the values it knows."""
    return json.loads((ASSETS / "words.json").read_text(encoding="utf-8"))


def pack_model(model: AlgoFormer) -> dict[str, Any]:
    """Return the model as plain JSON types; weights are stored in the smallest precision that is exact.

    Raises:
        ValueError: the program has a part or a word that the page cannot run, or the page would be too large.
    """
    sizes = ("dim", "out", "context", "width", "row_maps", "blanks", "exact_context")
    return pack_program(
        model.program,
        model.state_dict(),
        model.read_out.weight.dtype,
        {name: getattr(model, name) for name in sizes},
    )


def pack_program(
    program: Program,
    state: Mapping[str, Tensor],
    dtype: torch.dtype,
    sizes: Mapping[str, Any],
    *,
    instead: str = INSTEAD,
) -> dict[str, Any]:
    """Return a program and the weights around it as plain JSON types; refuses what `pack_model` refuses.

    Args:
        program: the program.
        state: weights by name.
        dtype: the precision in which the page computes.
        sizes: further numbers that the page needs.
        instead: what to do with a model that is refused.
    """
    parts = json.loads(program.to_json())
    check_program(parts, known_words(), instead)
    values = {name: value.detach().cpu() for name, value in state.items()}
    stored = smallest_exact(list(values.values()))
    _check_size(sum(value.numel() for value in values.values()), stored, instead)
    tensors, start = {}, 0
    for name, value in values.items():
        tensors[name] = [start, list(value.shape)]
        start += value.numel()
    numbers = torch.cat([value.to(stored).reshape(-1) for value in values.values()]).numpy()
    return {
        "format": FORMAT,
        "program": parts,
        "sizes": dict(sizes),
        "dtype": "float64" if dtype == torch.float64 else "float32",
        "stored": str(stored).removeprefix("torch."),
        "tensors": tensors,
        "data": base64.b64encode(numbers.astype(_NUMPY_NAMES[stored]).tobytes()).decode("ascii"),
    }


def smallest_exact(tensors: list[Tensor]) -> torch.dtype:
    """Return the smallest of float16, float32 and float64 that holds every number unchanged.

    >>> smallest_exact([torch.tensor([0.5, 3.0])]), smallest_exact([torch.tensor([0.1])])
    (torch.float16, torch.float32)
    """
    for dtype in (torch.float16, torch.float32):
        if all(torch.equal(value.to(dtype).to(value.dtype), value) for value in tensors):
            return dtype
    return torch.float64


def check_program(program: list[Any], words: Mapping[str, Mapping[str, Any]], instead: str = INSTEAD) -> None:
    """Refuse a program, as JSON data, that the page cannot run; the message ends with what to do `instead`.

    Raises:
        ValueError: a part, a field or a value is unknown; the message says what is known and what to do.
    """
    for part in _all_parts(program):
        kind = str(part.get("part"))
        if kind not in words:
            raise ValueError(f"the page cannot run the part {kind!r}; it knows {', '.join(words)}; {instead}")
        for name, value in part.items():
            if name == "part" or value is None:
                continue
            allowed = words[kind].get(name)
            if allowed is None and value not in (False, 0, "none"):
                raise ValueError(
                    f"the page cannot run {name}={value!r} of {kind}; it does not know {name}; {instead}"
                )
            values = str(value).split("+") if name == "norm_at" else [value]
            if isinstance(allowed, list) and any(item not in allowed for item in values):
                choices = ", ".join(map(str, allowed))
                raise ValueError(f"the page cannot run {name}={value!r} of {kind}, only {choices}; {instead}")


def _all_parts(program: list[Any]) -> Iterator[Mapping[str, Any]]:
    for part in program:
        yield part
        yield from _all_parts(part.get("body", []))
        for branch in part.get("branches", []):
            yield from _all_parts(branch)


def _check_size(parameters: int, stored: torch.dtype, instead: str) -> None:
    size = parameters * stored.itemsize * 4 // 3
    if size > LARGEST_PAGE:
        most = LARGEST_PAGE * 3 // 4 // stored.itemsize
        raise ValueError(
            f"the page would hold {size / 2**20:.0f} MB of weights, more than {LARGEST_PAGE / 2**20:.0f}; "
            f"in {str(stored).removeprefix('torch.')} a page takes at most {most / 1e6:.0f} million "
            f"parameters, this model has {parameters / 1e6:.0f} million; {instead}"
        )
