"""Build the documentation site: `python -m scripts.site [OUT] [--quick]`, also called by `make docs`.

The site works from a disk, without a server and without any request to another host. `--quick` leaves out
what takes long: the outputs of notebooks and the explorer of a trained model.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.site.models import model_pages, program_page
from scripts.site.navigation import nested_toctree, toctrees
from scripts.site.notebooks import cells_page, notebook_cells, run_cells, script_cells
from scripts.site.pages import ROOT, Sources, written_pages
from scripts.site.reference import reference_pages


def build(out: Path, *, trained: str = "linear", quick: bool = False) -> int:
    """Write the site to a folder and return Sphinx's exit status; a warning is an error.

    Args:
        out: the folder, which is replaced.
        trained: the trained model that one of the explorers shows: a run folder, a file or a shipped model.
        quick: leave out the outputs of notebooks and the explorer of the trained model.
    """
    from sphinx.cmd.build import main as sphinx

    with tempfile.TemporaryDirectory(prefix="algoformer-site-") as name:
        sources = Sources(Path(name) / "sources")
        explorers = Path(name) / "explorers"
        sources.explorers = write_explorers(explorers / "explorers", "" if quick else trained)
        stage(sources, run=not quick)
        shutil.rmtree(out, ignore_errors=True)
        options = ["-c", str(ROOT / "docs"), "-b", "html", "-q", "-W", "--keep-going"]
        extra = ["-D", f"html_extra_path={explorers}", "-d", str(Path(name) / "doctrees")]
        status = sphinx([*options, *extra, str(sources.folder), str(out)])
    return status


def stage(sources: Sources, *, run: bool) -> None:
    """Write everything that Sphinx reads: the repository's pages and the generated ones."""
    sources.add_written(written_pages())
    for place, text in (*reference_pages(), *model_pages()):
        sources.write(place, text)
    sources.write("program-diagrams.md", program_page())
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = notebook_cells(path)
        outputs = run_cells(cells) if run else None
        link = f"\nThis page is the notebook [{path.name}]({path.name}).\n"
        sources.write(f"notebooks/{path.stem}.md", sources.for_site(cells_page(cells, outputs), path) + link)
        shutil.copyfile(path, sources.folder / "notebooks" / path.name)
    stage_examples(sources)
    present = sources.pages()
    for page in present:
        file = sources.folder / f"{page}.md"
        if file.exists():
            sidebar = toctrees(present) if page == "index" else nested_toctree(page, present)
            file.write_text(file.read_text(encoding="utf-8") + sidebar, encoding="utf-8")


def stage_examples(sources: Sources) -> None:
    """Write the pages of the examples, and one that lists them."""
    listed = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        cells = script_cells(path)
        link = f"\nThis page is the script [{path.name}]({path.name}).\n"
        sources.write(f"examples/{path.stem}.md", sources.for_site(cells_page(cells), path) + link)
        shutil.copyfile(path, sources.folder / "examples" / path.name)
        listed.append(f"- [{cells[0].text.splitlines()[0].lstrip('# ')}]({path.stem}.md)")
    words = "Scripts with `# %%` cells. Run them, or open them in an editor that shows cells."
    sources.write("examples/index.md", f"# Examples\n\n{words}\n\n" + "\n".join(listed) + "\n")


def write_explorers(folder: Path, trained: str) -> set[str]:
    """Write the pages in which models run and return their names; of two theorems alone without `trained`."""
    from algoformer.cli.explore_pages import make_page

    models = {"newton": "newton", "gradient_descent": "gradient_descent"} | (
        {"trained": trained, "text": "dbpedia"} if trained else {}
    )
    for name, model in models.items():
        make_page(model, folder / f"{name}.html")
    return set(models)


def main(arguments: list[str]) -> int:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "site", help="folder of the site")
    parser.add_argument("--trained", default="linear", help="model that runs in the explorer's page")
    parser.add_argument("--quick", action="store_true", help="without what takes long")
    chosen = parser.parse_args(arguments)
    return build(chosen.out.resolve(), trained=chosen.trained, quick=chosen.quick)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
