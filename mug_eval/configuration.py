"""Settings as the user writes them -> frozen dataclasses: typed, checked, and with a clear line for every mistake."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import yaml

from mug_eval.errors import UserError
from mug_eval.names import nearest, unknown

Config = TypeVar("Config")

_LARGEST_FILE = 1 << 20
_NOT_SET = object()


class _Loader(yaml.SafeLoader):
    """YAML with the plain scalars of YAML 1.2 only, no aliases and no duplicate keys.

    YAML 1.1 turns ``no`` into False, ``010`` into 8, ``1:30`` into 90 and leaves ``1e-3`` a text: all surprises in a settings file.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own way to start from no resolver

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is not a name", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _plain(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))


_plain("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_plain("null", "~|null|Null|NULL|", "~nN\0")
_plain("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789")
_plain("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+", "-+.0123456789")


def _load_yaml(text: str, where: str) -> Any:
    """Parse YAML or say where it is wrong, in one line."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" line {mark.line + 1}" if mark and where else ""
        raise UserError(f"{where}{at}: {error.problem or error.context}".removeprefix(": ")) from None
    except yaml.YAMLError as error:
        raise UserError(f"{where}: {str(error).splitlines()[0]}".removeprefix(": ")) from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply".removeprefix(": ")) from None
    except ValueError as error:
        raise UserError(f"{where}: {error}".removeprefix(": ")) from None


def load_config(path: Path) -> dict[str, Any]:
    """Read a ``--config`` file: YAML, the same shape as ``--set`` (a mapping of namespaces to fields).

    Raises:
        UserError: no such file, bad YAML (with its line), a duplicate key, or not a mapping.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise UserError(f"--config {path}: larger than 1 MiB, surely not a settings file")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"--config {path}: {reason}") from None
    values = _load_yaml(text, f"--config {path}")
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"--config {path}: write a mapping such as 'mug: {{agents: 4}}', not {_kind(values)}")
    return values


def parse_set(settings: Sequence[str]) -> dict[str, Any]:
    """Turn ``["mug.agents=4", ...]`` into ``{"mug": {"agents": 4}}``; the values are YAML scalars or flow lists.

    Raises:
        UserError: no ``=``, an empty name, a value that is not YAML, or the same field twice.
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise UserError(f"--set {setting!r}: write NAME.FIELD=VALUE without spaces around '=', e.g. --set mug.agents=4")
        try:
            parsed = _load_yaml(value, "")
        except UserError as error:
            raise UserError(f"--set {setting!r}: {value!r} is no YAML value ({error})") from None
        node = tree
        for key in keys[:-1]:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise UserError(f"--set {setting!r}: {key!r} is given a value of its own as well; keep one of them")
        if keys[-1] in node:
            raise UserError(f"--set {name.strip()} is given twice; keep one of them")
        node[keys[-1]] = parsed
    return tree


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The two trees as one; where both give a value, ``over`` has it."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return merged


def resolve(config_type: type[Config], values: Mapping[str, Any], *, where: str = "") -> Config:
    """Build a frozen dataclass from the user's values; fields that are not given keep their defaults.

    Args:
        config_type: a dataclass whose fields are int, float, str, bool, Literal, Optional, tuples or dataclasses of these.
        values: field name -> YAML value.
        where: the namespace for messages, e.g. ``mug``.

    Raises:
        UserError: an unknown or missing field, a value of the wrong type or one that ``__post_init__`` refuses.
    """
    hints = typing.get_type_hints(config_type)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, config_type)) if field.init}
    for name in values:
        if name not in fields:
            place = f" of {where}" if where else ""
            raise UserError(unknown(f"field{place}", name, fields))
    arguments = {name: _convert(hints[name], value, _join(where, name)) for name, value in values.items()}
    for name, field in fields.items():
        if name not in arguments and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UserError(f"{_join(where, name)} must be set ({_describe(hints[name])})")
    try:
        return config_type(**arguments)
    except ValueError as error:
        given = ", ".join(f"{_join(where, name)}={_show(value)}" for name, value in arguments.items())
        raise UserError(f"{where or config_type.__name__}: {error}" + (f" (given: {given})" if given else "")) from None


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return {str: "a text", bool: "true/false", int: "a whole number", float: "a number", type(None): "null"}.get(
        type(value), f"a {type(value).__name__}"
    )


def _show(value: Any) -> str:
    """The value as the user would write it, short."""
    plain = as_json(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    try:
        text = json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."


def _describe(kind: Any) -> str:
    """What a field takes, in words."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " | ".join(_word(member) for member in members)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(member) for member in members)
    if origin is tuple:
        if len(members) == 2 and members[1] is ...:
            return f"a list of {_describe(members[0])}"
        return f"a list of {len(members)}: " + ", ".join(_describe(member) for member in members)
    if dataclasses.is_dataclass(kind):
        return "a mapping"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "null"}.get(kind, str(kind))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _convert(kind: Any, value: Any, where: str) -> Any:
    """The value as ``kind``, or a UserError that names the field, the value and what is allowed."""
    converted = _try_convert(kind, value, where)
    if converted is not _NOT_SET:
        return converted
    hint = ""
    if typing.get_origin(kind) is Literal and isinstance(value, str):
        close = nearest(value, [member for member in typing.get_args(kind) if isinstance(member, str)], most=1)
        hint = f"; did you mean {close[0]}?" if close else ""
    elif kind is str:
        hint = f"""; to give it as a text, quote it within: '"{_show(value)}"'"""
    raise UserError(f"{where}={_show(value)} is {_kind(value)}: it takes {_describe(kind)}{hint}")


def _try_convert(kind: Any, value: Any, where: str) -> Any:
    """Like :func:`_convert`, with ``_NOT_SET`` where the value's type does not fit."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        for member in members:
            converted = _try_convert(member, value, where)
            if converted is not _NOT_SET:
                return converted
        return _NOT_SET
    if origin is Literal:
        return next((member for member in members if type(member) is type(value) and member == value), _NOT_SET)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return _NOT_SET
        if len(members) == 2 and members[1] is ...:
            return tuple(_convert(members[0], item, f"{where}[{place}]") for place, item in enumerate(value))
        if len(value) != len(members):
            return _NOT_SET
        pairs = enumerate(zip(members, value, strict=True))
        return tuple(_convert(member, item, f"{where}[{place}]") for place, (member, item) in pairs)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return resolve(kind, value, where=where) if isinstance(value, Mapping) else _NOT_SET
    if kind is float:
        numeric = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if numeric else _NOT_SET
    if kind in (int, str, bool, type(None)):
        return value if type(value) is kind else _NOT_SET
    raise TypeError(f"{where}: a config field of type {kind} is not supported")


def as_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values: dataclasses become mappings, tuples lists."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    return typing.cast(dict[str, Any], plain(config))


def config_hash(values: Any) -> str:
    """SHA-256 (hex) of JSON values in canonical form: sorted keys, no spaces; NaN and infinity are refused (ValueError)."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FieldNote:
    """One setting for ``--list``: its dotted name, what it takes, and its default as the user would write it ("" if none)."""

    name: str
    takes: str
    default: str


def field_notes(config_type: type[Any], where: str = "") -> Iterable[FieldNote]:
    """Every field of a config dataclass, those of nested dataclasses by dotted name."""
    hints = typing.get_type_hints(config_type)
    for field in dataclasses.fields(config_type):
        if not field.init:
            continue
        name, kind = _join(where, field.name), hints[field.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from field_notes(kind, name)
            continue
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield FieldNote(name, _describe(kind), "" if default is dataclasses.MISSING else _word(as_json(default)))
