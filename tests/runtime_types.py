"""Checks of types and shapes at run time that cost less than those of jaxtyping's own decorator.

The import hook of jaxtyping decorates every function of the packages. Its decorator binds the arguments and
checks them twice in each call, and keeps sizes of axes even where no shape is annotated. The decorator here
checks them once, and keeps sizes of axes only where a shape is annotated.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import jaxtyping
import torch
from beartype import BeartypeConf, beartype

CONF = BeartypeConf(violation_type=TypeError)
"""A wrong type raises TypeError, as it does where nothing checks types."""


def checked(function: Any = None, **settings: Any) -> Any:
    """Check arguments and results of a function or a property, or the fields of a dataclass, in each call."""
    if function is None:
        return checked
    if function == "context":
        return _context()
    if isinstance(function, classmethod | staticmethod):
        return type(function)(_checked(function.__func__))
    if isinstance(function, property):
        return property(*(one and _checked(one) for one in (function.fget, function.fset, function.fdel)))
    if not inspect.isclass(function):
        return _checked(function)
    if dataclasses.is_dataclass(function) and "__init__" in vars(function):
        function.__init__ = _checked(function.__init__)
    return function


_context = partial(jaxtyping.jaxtyped, "context")


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    written = function.__annotations__
    hints = {name: _resolved(hint, function.__globals__) for name, hint in written.items()}
    function.__annotations__ = hints
    typed = beartype(function, conf=CONF)
    function.__annotations__ = written
    has_shapes = any(map(_has_shape, hints.values()))

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        # not where a function is traced, which the checks cannot be
        traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
        if traced or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **options)
        if not has_shapes:
            return typed(*arguments, **options)
        with _context():
            return typed(*arguments, **options)

    return call


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """Return what an annotation means; names that are imported for type checkers alone mean anything."""
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"hint": hint}), names, include_extras=True)[
            "hint"
        ]
    except Exception:
        return Any


def _has_shape(hint: Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_has_shape, get_args(hint)))
