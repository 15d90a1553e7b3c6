"""Random changes to JSON, text, bytes and words, all drawn from one generator."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**39, -(10**39)),
    *(10**400, 0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), -float("inf")),
    *("", " ", "a", "A" * 3000, "\x00", "\x1b]0;x\x07", "\ud800", "../../x", "linear", "[bold]", "None"),
    *("1", "nan", "\n", "Ⅻ", "ﬁ", "__class__", "%s", "{0}", "/dev/full", "/proc/self/mem"),
    *([], {}, [[]], [None], [1, 2, 3], {"name": "x"}, {"": 0}, [[[[]]]], ["a"] * 300),
)
"""Values that do not belong where they are put, or only just."""

ODD_WORDS: tuple[str, ...] = (
    *("", " ", "-", "--", "-1", "0", "1", "2", "3", "-0", "1.5", "1e3", "1e-320", "1e308", "nan", "inf"),
    *("-inf", "9" * 400, "2147483648", "9223372036854775808", "0x10", "1_0", "١٢", "true", "None", "a"),
    *("a" * 5000, "../..", ".", "/", "/dev/null", "/dev/full", "/dev/zero", "/proc/self/mem", "/etc/passwd"),
    *("\n", "\t", "é", "\udcff", "[bold]x[/bold]", "$HOME", "a b", "a,b", ",", "a:b", ":", "same:0"),
    *("shift:nan", "converged:-1", "x.json", "x.safetensors", "\x1b[2J", "linear:", "json:loads", "*", "?"),
)
"""Words for options and file names."""

ODD_BYTES: tuple[bytes, ...] = (
    *(b"", b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n\n", b'"', b'""', b"'"),
    *(b",", b"\t", b"\xe2\x80\xa8", b"\xc0\x80", b"\xed\xa0\x80", b"{", b"[" * 5000, b'{"a":' * 3000),
    *(b"NaN", b"1e999", b"9" * 5000, b"\x1b[2J", b"A" * 20000, "🙂".encode(), b"null", b"\\u0000"),
)
"""Bytes to put into files."""


def mutate_json(rng: random.Random, value: Any) -> Any:
    """Return a copy of plain JSON data with one to three changes at random places."""
    changed = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        changed = _changed_at_random(rng, changed)
    return changed


def _changed_at_random(rng: random.Random, root: Any) -> Any:
    places = _places(root)
    if not places or rng.random() < 0.01:
        return copy.deepcopy(rng.choice(ODD_VALUES))
    holder, key = rng.choice(places)
    what = rng.random()
    if what < 0.6:
        holder[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    elif what < 0.7:
        del holder[key]
    elif what < 0.8:
        other, name = rng.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif what < 0.88:
        holder[key] = _nested(holder[key], rng.choice([1, 3, 60]))
    elif isinstance(holder, dict):
        name = rng.choice(["x", "", "name", "__class__", str(key).upper()])
        holder[name] = copy.deepcopy(rng.choice(ODD_VALUES))
    else:
        holder.insert(key, copy.deepcopy(rng.choice([holder[key], *ODD_VALUES])))
    return root


def _places(root: Any) -> list[tuple[Any, Any]]:
    found, waiting = [], [root]
    while waiting:
        holder = waiting.pop()
        keys = (
            list(holder) if isinstance(holder, dict) else range(len(holder)) if type(holder) is list else ()
        )
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return bytes with one to four changes: flipped, cut off, doubled, moved, or odd ones put in."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        where = rng.randrange(len(changed) + 1)
        until = min(len(changed), where + rng.choice([1, 4, 40, 400]))
        what = rng.randrange(6)
        if what == 0 and where < len(changed):
            changed[where] ^= 1 << rng.randrange(8)
        elif what == 1:
            del changed[where:until]
        elif what == 2:
            changed[where:where] = rng.choice(ODD_BYTES)
        elif what == 3:
            changed[where:until] = rng.choice(ODD_BYTES)
        elif what == 4:
            changed[where:where] = changed[where:until] * rng.choice([1, 2, 50])
        elif rng.random() < 0.2:
            del changed[where:]
    return bytes(changed)


def mutate_text(rng: random.Random, text: str) -> str:
    """Return JSON text with changed values, or any text with changed bytes."""
    if rng.random() < 0.7:
        try:
            return json.dumps(mutate_json(rng, json.loads(text)))
        except ValueError:
            pass
    return mutate_bytes(rng, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
