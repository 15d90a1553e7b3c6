"""Settings of Sphinx for the documentation site; `make docs` builds it (see scripts/site)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from algoformer import __version__  # noqa: E402
from scripts.site.docstrings import as_restructured_text  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "algoformer"
release = version = __version__
html_title = "algoformer"
copyright = "the authors of algoformer, Apache 2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
smartquotes = False  # two dashes are an option, not a dash

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# summaries of search results are read with `fetch`, which browsers refuse for files on a disk
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5fa5", "color-brand-content": "#0b5fa5"},
    "dark_css_variables": {"color-brand-primary": "#7cb8f0", "color-brand-content": "#7cb8f0"},
}


def _translate(app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    lines[:] = as_restructured_text(lines)
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")  # Napoleon takes what stands before a colon in the first line for a type
    elif what == "class":
        # the attributes of a frozen value are what it is made from
        lines[:] = ["Args:" if line == "Attributes:" else line for line in lines]


def setup(app: Sphinx) -> None:
    """Translate docstrings before Napoleon reads their sections."""
    app.connect("autodoc-process-docstring", _translate, priority=100)
