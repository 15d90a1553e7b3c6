"""Packages that only some features need: found when asked for, or named with the way to get them."""

import importlib
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say which extra of algoformer brings it.

    >>> require("json", extra="viz").dumps([1])
    '[1]'

    Raises:
        ModuleNotFoundError: the package is missing; the message holds the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise  # the package is there, and something that it needs itself is not
        raise ModuleNotFoundError(
            f"this needs the package {package!r}, which is not installed: pip install 'algoformer[{extra}]'"
        ) from error
