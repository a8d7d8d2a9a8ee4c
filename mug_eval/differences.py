"""What differs between two nested records, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, of runs or of stores, one line a field: ``config.agents was 3, is 4``."""
    before, now = _flat(old), _flat(new)
    return [
        f"{name} was {_shown(before, name)}, is {_shown(now, name)}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name, _flat) != now.get(name, _flat)
    ]


def _shown(values: Mapping[str, Any], name: str) -> str:
    """A value as it stands in the file; a text bare, unless it could then be taken for another value or for more than one line."""
    if name not in values:
        return "not there"
    value = values[name]
    coded = json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, str) or not value.isprintable() or value in ("", "not there") or value != value.strip():
        return coded
    try:
        json.loads(value)
    except ValueError:
        return value
    return coded


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
