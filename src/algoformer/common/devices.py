"""Choose a device by name, name its hardware, and set the precision of matrix products."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def pick_device(name: str) -> str:
    """Return the device of that name; "auto" is a CUDA GPU if there is one, else the CPU.

    Raises:
        ValueError: PyTorch sees no device of that kind.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device cuda was asked for, but PyTorch sees none; choose cpu or auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device mps was asked for, but PyTorch sees none; choose cpu or auto")
    return name


def device_name(device: torch.device) -> str:
    """Return the name of the GPU, or the kind of device with the processor's architecture and threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {torch.get_num_threads()} threads)"


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Take matrix products inside in full single precision ("fp32"), or allow TF32 ("tf32", "bf16")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision in ("tf32", "bf16") else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
