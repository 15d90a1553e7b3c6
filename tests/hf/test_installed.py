"""A missing or an old `transformers` is one clear line."""

import subprocess
import sys
from types import ModuleType

import pytest

from algoformer.hf.installed import transformers


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r"'transformers'.*pip install 'algoformer\[hf\]'"):
        transformers()


@pytest.mark.parametrize(
    ("version", "fits"), [("4.57.1", False), ("5.8.2", False), ("5.9.0", True), ("6.0", True)]
)
def test_a_version_that_is_too_old_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    package = ModuleType("transformers")
    package.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", package)
    if fits:
        assert transformers() is package
    else:
        with pytest.raises(ImportError, match=f"needs transformers 5.9 or newer, found {version}"):
            transformers()


def test_importing_the_room_does_not_import_the_package() -> None:
    code = "import sys, algoformer.hf; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
