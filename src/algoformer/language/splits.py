"""Splits that do not leak: by the text's own hash, duplicates together, nothing held out in training."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace

from algoformer.language.text import Corpus, ParallelText, Split

LARGEST_HELD_OUT_GROUP = 20
"""A larger group of texts that repeat each other stays in training: held out, it would fill the split."""

_NOT_A_LETTER = re.compile(r"[\W_]+")


def fingerprint(text: str) -> str:
    """Return a key that is equal for texts that differ only in case, spaces and punctuation.

    >>> fingerprint("Der Hund, der Hund!") == fingerprint("der hund der hund")
    True
    >>> fingerprint("...")
    '...'
    """
    return _NOT_A_LETTER.sub("", text.casefold()) or text.strip()


def without_overlap(split: Split, held_out: Iterable[Split]) -> Split:
    """Take out every text that also appears in a held-out split; of a pair, one side is enough.

    Texts are compared by `fingerprint`, so another case or a missing full stop does not hide a repeat.
    Give every test set that a model will be scored on, those of other corpora too.
    """
    seen: dict[int, set[str]] = {}
    for other in held_out:
        for number, column in enumerate(other.columns()):
            seen.setdefault(number, set()).update(map(fingerprint, column))
    leaked = {
        row
        for number, column in enumerate(split.columns())
        for row, text in enumerate(column)
        if fingerprint(text) in seen.get(number, ())
    }
    return split.take(row for row in range(len(split)) if row not in leaked) if leaked else split


def hold_out(split: Split, *, share: float, salt: str = "valid") -> tuple[Split, Split]:
    """Part a split in two, about `share` of it in the second; the same texts always go the same way.

    The hash of a text decides, not its place, so adding or reordering texts moves no other. Texts with one
    fingerprint go together, and so do pairs that share a sentence on either side, however long the chain.
    Returns what remains, and what is held out.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    groups = _groups(split)
    limit = int(share * 2**64)
    away = {
        row
        for key, rows in groups.items()
        if len(rows) <= LARGEST_HELD_OUT_GROUP and _number(f"{salt}|{key}") < limit
        for row in rows
    }
    return split.take(row for row in range(len(split)) if row not in away), split.take(sorted(away))


def together(
    first: Corpus[ParallelText],
    *others: Corpus[ParallelText],
    also_tested: Iterable[Corpus[ParallelText]] = (),
) -> Corpus[ParallelText]:
    """Return the first corpus with the training pairs of all, less those that any of them holds out.

    Bring them into one spelling before, with `Corpus.mapped`.

    Args:
        first: whose validation and test splits stay.
        others: whose training pairs are added.
        also_tested: whose test splits are added, as `test-NAME` beside `test`; nothing that they hold out is
            trained on.
    """
    tested = list(also_tested)
    held_out = [
        split
        for corpus in (first, *others, *tested)
        for name, split in corpus.splits().items()
        if name.startswith(("valid", "test"))
    ]
    notes = list(first.notes)
    pairs: dict[tuple[str, str], None] = {}
    for corpus in (first, *others):
        kept = without_overlap(corpus.train, held_out)
        removed = len(corpus.train) - len(kept)
        notes.append(f"train: {len(kept)} pairs of {corpus.name}, {removed} left out, held out elsewhere")
        pairs |= dict.fromkeys(zip(*kept.columns(), strict=True))
    source, target = zip(*pairs, strict=True) if pairs else ((), ())
    elsewhere = {
        f"{name}-{corpus.name}": split
        for corpus in tested
        for name, split in corpus.splits().items()
        if name.startswith("test")
    }
    everyone = (first, *others, *tested)
    return replace(
        first,
        name="+".join(dict.fromkeys(corpus.name for corpus in (first, *others))),
        train=ParallelText(source=source, target=target),
        further={**first.further, **elsewhere},
        notes=tuple(notes),
        terms="; ".join(dict.fromkeys(corpus.terms for corpus in everyone)),
        files={path: digest for corpus in everyone for path, digest in corpus.files.items()},
        credits=tuple(dict.fromkeys(credit for corpus in (first, *others) for credit in corpus.credits)),
    )


def _number(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def _groups(split: Split) -> dict[str, list[int]]:
    """Rows that repeat each other, under the alphabetically first fingerprint among them."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    rows = [
        [(number, fingerprint(text)) for number, text in enumerate(texts)]
        for texts in zip(*split.columns(), strict=True)
    ]
    for nodes in rows:
        # the smaller fingerprint becomes the root, so that a group's name does not depend on the order
        roots = sorted(root(node) for node in nodes)
        for other in roots[1:]:
            parent[root(other)] = roots[0]
    groups: dict[str, list[int]] = {}
    for row, nodes in enumerate(rows):
        groups.setdefault(root(nodes[0])[1], []).append(row)
    return groups
