"""The test environment: stricter than a user's, and the same on every run."""

import gc
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings

from runtime_types import checked

# the garbage collector visits every object; modules and collected tests are millions of them, and stay
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from now on, without a visit to what was imported and collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


# the import hook takes its decorator from here, for all modules that are imported from now on
jaxtyping.jaxtyped = checked

# tests send Ctrl-C, which a job in the background ignores, and so would every process that it starts
signal.signal(signal.SIGINT, signal.default_int_handler)

# two processes with two threads each are slower on two cores than two processes with one
torch.set_num_threads(1)

# without a GPU, Triton's kernels are run by its interpreter; it looks once, when they are made
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
if importlib.util.find_spec("triton") is not None:
    # the shape hook rewrites functions, but Triton has a language of its own: import these without it
    importlib.import_module("algoformer.kernels")
    hooked = list(sys.meta_path)
    sys.meta_path[:] = [finder for finder in hooked if "jaxtyping" not in type(finder).__module__]
    for kernel in ("attention", "attention_backward", "cross_entropy", "rows"):
        importlib.import_module(f"algoformer.kernels.{kernel}")
    sys.meta_path[:] = hooked

# no deadline: shared machines stall; the same examples on every run: a red build is never a matter of luck
settings.register_profile("algoformer", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("algoformer")


# a run leaves the same files whether or not this is installed; the tests that need it bring it back
sys.modules["tensorboard"] = None  # type: ignore[assignment]


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Switch the shape hook off: what it would catch first, the library must refuse on its own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def other_news(tmp_path: Path) -> None:
    """A folder like that of AG News, with other texts."""
    (tmp_path / "ag_news").mkdir()
    for name in ("train", "valid", "test"):
        rows = "".join(f"{label},{name} number {label}\n" for label in range(4))
        (tmp_path / "ag_news" / f"{name}.csv").write_text("label,text\n" + rows)
    (tmp_path / "ag_news" / "classes.txt").write_text("one\ntwo\nthree\nfour\n")
