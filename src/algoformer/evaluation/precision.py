"""Full precision while measuring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from algoformer.common.products import onednn_linear
from algoformer.trace import Solver


@contextmanager
def full_precision(solver: Solver, device: torch.device) -> Iterator[None]:
    """Disable gradients, TF32 and autocast, and put a module into evaluation mode; restore all afterwards.

    TF32 keeps three digits of a product, which is the size of the errors that are measured here. On a CPU the
    products of a module's linear layers are oneDNN's, in fp32 as well.
    """
    backends: Any = torch.backends
    products = backends.cuda.matmul, backends.mkldnn.matmul
    before = [product.fp32_precision for product in products]
    modules = list(solver.modules()) if isinstance(solver, nn.Module) else []
    training = [module.training for module in modules]
    try:
        for product in products:
            product.fp32_precision = "ieee"
        for module in modules:
            module.training = False
        faster = onednn_linear(solver) if isinstance(solver, nn.Module) else nullcontext()
        with torch.no_grad(), torch.autocast(device.type, enabled=False), faster:
            yield
    finally:
        for product, precision in zip(products, before, strict=True):
            product.fp32_precision = precision
        for module, mode in zip(modules, training, strict=True):
            module.training = mode
