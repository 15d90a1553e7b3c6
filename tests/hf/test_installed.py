"""A missing or an old `transformers` is one clear line."""

import subprocess
import sys

import pytest

pytest.importorskip("transformers")

from algoformer.hf.installed import check_version


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = "import sys; sys.modules['transformers'] = None; import algoformer.hf"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "this needs the package 'transformers'" in last
    assert last.endswith("pip install 'algoformer[hf]'")


@pytest.mark.parametrize("version", ["5.10.0", "5.23.0", "6.0.0.dev0", "10.1"])
def test_a_version_that_is_new_enough_is_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["4.57.1", "5.9.2", "5.9.0.dev0"])
def test_a_version_that_is_too_old_is_refused(version: str) -> None:
    with pytest.raises(ImportError, match=f"needs transformers 5.10 or newer, found {version}"):
        check_version(version)
