"""The wheel holds the package, its data and the shipped models, and nothing else."""

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from algoformer.shipped import CHECKOUT_ONLY

ROOT = Path(__file__).parents[1]
DATA = {
    ".safetensors",
    ".sha256",
    ".typed",
    ".html",
    ".js",
    ".css",
    ".j2",
    ".txt",
    ".md",
    ".json",
    ".csv",
    ".gz",
    ".xz",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="pip install algoformer[test]")
    (path,) = wheel.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return Path(path)


@pytest.fixture(scope="module")
def names(built: Path) -> list[str]:
    with zipfile.ZipFile(built) as archive:
        return sorted(archive.namelist())


def tracked(folder: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if (ROOT / line).is_file()}


def test_the_wheel_holds_the_package_and_its_metadata_only(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert tops == {"algoformer", next(top for top in tops if top.endswith(".dist-info"))}


def test_every_file_of_the_package_is_tracked_by_git(names: list[str]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    expected = {name.removeprefix("src/") for name in tracked("src")}
    expected |= {
        f"algoformer/{name}" for name in tracked("checkpoints") if Path(name).stem not in CHECKOUT_ONLY
    }
    found = {name for name in names if name.startswith("algoformer/")}
    assert found <= expected, sorted(found - expected)[:5]
    assert {name for name in expected if name.endswith((".py", ".safetensors"))} <= found


def test_the_wheel_holds_the_small_models_and_leaves_out_those_that_the_library_names(
    built: Path, names: list[str]
) -> None:
    inside = {Path(name).stem for name in names if name.endswith(".safetensors")}
    assert inside == {"dbpedia", "linear", "representation", "sudoku", "tatoeba_de_en"}
    assert {path.stem for path in (ROOT / "checkpoints").iterdir()} - inside == set(CHECKOUT_ONLY)
    assert built.stat().st_size < 25e6


def test_files_of_the_wheel_are_python_or_known_data(names: list[str]) -> None:
    inside = [name for name in names if name.startswith("algoformer/")]
    assert {Path(name).suffix for name in inside} <= DATA | {".py"}


def test_the_description_of_the_package_has_no_link_that_only_works_in_the_repository() -> None:
    pytest.importorskip("hatchling")
    from scripts.package_readme import for_index

    text = for_index((ROOT / "README.md").read_text(encoding="utf-8"))
    addresses = re.findall(r"\]\(([^)]+)\)", text)
    assert all(address.startswith("https://") for address in addresses)
    assert "Getting started" in text
    code = "```python\nx[0](1)\n```\n"
    assert for_index(f"![a](a.png)\n\n{code}[b](c.md)") == f"{code}b"


def test_the_wheel_carries_the_description() -> None:
    metadata = pytest.importorskip("hatchling.metadata.core")
    manager = pytest.importorskip("hatchling.plugin.manager").PluginManager()
    core = metadata.ProjectMetadata(str(ROOT), manager).core
    assert core.readme_content_type == "text/markdown"
    assert core.readme.startswith("# algoformer\n")
    assert "](docs/" not in core.readme


def test_the_source_distribution_makes_the_same_wheel(names: list[str], tmp_path: Path) -> None:
    source = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    (packed,) = source.build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    wheel = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(folder))
    (path,) = wheel.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == names
