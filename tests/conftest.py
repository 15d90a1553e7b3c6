"""The test environment: stricter than a user's, and the same on every run."""

import sys
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings

# two processes with two threads each are slower on two cores than two processes with one
torch.set_num_threads(1)

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
