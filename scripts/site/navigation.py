"""The table of contents of the site."""

from __future__ import annotations

from collections.abc import Iterator

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("getting-started", "notebooks/student", "notebooks/researcher", "faq", "README"),
    "Use": (
        *("text-models", "language-data", "decoding", "extending", "puzzles", "loop-models"),
        *("program-diagrams", "hugging-face", "models/index"),
    ),
    "Train": ("depth", "optimizers", "engines", "search", "several-processes"),
    "Understand": ("inside-the-loop", "explorer", "theorems/index", "examples/index"),
    "Results": ("results/README", "results/short/README", "reproduce", "reliability", "benchmarks/README"),
    "Look up": ("reference/index", "glossary", "notation", "rooms", "CONTRIBUTING", "CHANGELOG"),
}
"""Captions of the sidebar, and the pages under each, by their place in the site without suffix."""

TITLES = {"README": "Overview", "results/short/README": "Claims of the paper"}
"""Shorter titles for the sidebar."""

NESTED: dict[str, tuple[str, ...]] = {
    "results/README": (
        *("results/lab-notes", "results/nested/README", "results/puzzles/README", "results/language/README"),
        *("results/search/README", "results/healing/README"),
        *("results/scaling/README", "results/scaling/deployment"),
    ),
    "results/short/README": ("results/short/table1", "results/short/table2"),
}
"""Pages that stand under another page instead of in the sidebar's first level."""


def toctrees(present: set[str]) -> str:
    """Return the Markdown of the sidebar: one hidden table of contents for each caption."""
    return "".join(_toctree(names, present, caption=caption) for caption, names in NAVIGATION.items())


def nested_toctree(page: str, present: set[str]) -> str:
    """Return the table of contents of the pages under a page; empty if there are none."""
    names = NESTED.get(page, ())
    if page.endswith("/index"):
        folder = page.removesuffix("index")
        names = tuple(sorted(name for name in present if name.startswith(folder) and name != page))
    return _toctree(names, present)


def _toctree(names: tuple[str, ...], present: set[str], *, caption: str = "") -> str:
    def lines() -> Iterator[str]:
        yield "\n```{toctree}\n:hidden:"
        if caption:
            yield f":caption: {caption}"
        yield ""
        yield from (_entry(name) for name in names if name in present)
        yield "```\n"

    return "\n".join(lines()) if present.intersection(names) else ""


def _entry(name: str) -> str:
    return f"{TITLES[name]} </{name}>" if name in TITLES else f"/{name}"
