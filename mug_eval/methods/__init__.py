"""One file a protocol."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from mug_eval.methods.method import CallRange, Method, Table, Verdict

__all__ = ["CallRange", "Method", "Table", "Verdict", "methods"]


@cache
def methods() -> dict[str, Method]:
    """Every protocol by name: each module of this package that defines ``METHOD``, so that a new one is one new file."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        method = getattr(importlib.import_module(f"{__name__}.{module.name}"), "METHOD", None)
        if isinstance(method, Method):
            found[method.name] = method
    return found
