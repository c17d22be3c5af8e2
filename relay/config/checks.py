"""From plain JSON values to frozen dataclasses, by the dataclasses' own types.

Invariant: a value is taken as it stands or refused with its key, what was found and what is allowed; it is
never bent into shape ("90" is not 90, 1 is not true). All problems of a tree are found in one pass.

The types may be: bool, int, float, str, Path, a Literal of strings, `X | None`, `tuple[X, ...]`,
`Mapping[str, X]`, and dataclasses made of these. `setting` gives a field its meaning and its bounds, once.
"""

from __future__ import annotations

import difflib
import json
import math
import shlex
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class _Bad:
    """Stands where a value was refused; its problem has been noted."""


_BAD = _Bad()
#: The rules for the items of a list or an object.
_ITEM: Mapping[str, Any] = {"low": None, "high": None, "empty": True, "words": False, "shell": False}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `key` with its full path, what was found there, what is allowed, a way out."""

    key: str
    found: str
    allowed: str = ""
    hint: str = ""

    def __str__(self) -> str:
        message = f"{self.key}: {self.found}" if self.key else self.found
        if self.allowed:
            message += f"; allowed: {self.allowed}"
        return f"{message}; {self.hint}" if self.hint else message


@dataclass(frozen=True, slots=True)
class Key:
    """One line of the table of keys: `kind` is what is allowed, `default` its JSON text."""

    path: str
    kind: str
    default: str
    meaning: str


@dataclass(slots=True)
class Reading:
    """One pass over a tree: `folder` is what relative paths are relative to; problems are gathered.

    `known` are the paths of all keys, to find the place of one that stands at the wrong one.
    """

    folder: Path
    known: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, key: str, what: str, allowed: str = "", hint: str = "") -> _Bad:
        self.problems.append(Problem(key, what, allowed, hint))
        return _BAD


def setting(
    meaning: str,
    default: Any = MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    empty: bool = True,
    words: bool = False,
    shell: bool = False,
) -> Any:
    """A dataclass field: what the key means, its default, and for numbers the bounds (both included).

    `empty=False` refuses an empty text; `words=True` takes a text for a list of texts, split as a shell does;
    `shell=True` takes a text for a command of a shell, which runs it.
    A section (a dataclass with a default for every key) is given as its class.
    """
    rules = {"low": low, "high": high, "empty": empty, "words": words, "shell": shell}
    metadata = {"meaning": meaning, **rules}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(section: type) -> dict[str, tuple[Field[Any], Any]]:
    """The keys of a section: name -> (field, type). Fields made without `setting` are not keys."""
    hints = get_type_hints(section)
    return {each.name: (each, hints[each.name]) for each in fields(section) if "meaning" in each.metadata}


def read_section(section: type, value: object, at: str, reading: Reading, **extra: Any) -> Any:
    """`value` as a `section`, or a marker that is no `section` when anything in it was refused.

    `extra` are the fields that are not keys. Problems go to `reading`.
    """
    if not isinstance(value, dict):
        return reading.refuse(at or "the whole file", _found(value), "an object {...}")
    keys = keys_of(section)
    taken: dict[str, Any] = dict(extra)
    for name in value:
        if name not in keys:
            path = _join(at, name)
            reading.refuse(path, "unknown key", ", ".join(sorted(keys)), _nearest(name, at, keys, reading))
    for name, (each, kind) in keys.items():
        if name in value:
            taken[name] = _read(kind, value[name], _join(at, name), reading, each.metadata)
        elif is_dataclass(kind):
            taken[name] = _read(kind, {}, _join(at, name), reading, each.metadata)
        elif each.default is MISSING and each.default_factory is MISSING:
            taken[name] = reading.refuse(_join(at, name), "is missing", describe(kind, each.metadata))
        elif isinstance(each.default, Path):
            taken[name] = reading.folder / each.default
    if any(taken[name] is _BAD for name in taken):
        return _BAD
    return section(**taken)


def _read(kind: Any, value: object, at: str, reading: Reading, rules: Mapping[str, Any]) -> Any:
    optional, kind = _optional(kind)
    if optional and value is None:
        return None
    if is_dataclass(kind) and isinstance(kind, type):
        return read_section(kind, value, at, reading)
    origin = get_origin(kind)
    if rules["words"] and isinstance(value, str):
        value = _words(value)
    if rules["shell"] and isinstance(value, str) and value.strip() and "\0" not in value:
        value = ["/bin/sh", "-c", value]
    if origin is tuple and isinstance(value, list) and (value or rules["empty"]):
        inner = get_args(kind)[0]
        read = [_read(inner, item, f"{at}[{index}]", reading, _ITEM) for index, item in enumerate(value)]
        return _BAD if any(item is _BAD for item in read) else tuple(read)
    if origin is Mapping and isinstance(value, dict):
        inner = get_args(kind)[1]
        pairs = {name: _read(inner, item, _join(at, name), reading, _ITEM) for name, item in value.items()}
        return _BAD if any(pair is _BAD for pair in pairs.values()) else types.MappingProxyType(pairs)
    if kind is Any:
        return value
    return _read_plain(kind, value, at, reading, rules)


def _read_plain(kind: Any, value: object, at: str, reading: Reading, rules: Mapping[str, Any]) -> Any:
    allowed = describe(kind, rules)
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if isinstance(value, str) and value in choices:
            return value
        near = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
        return reading.refuse(at, _found(value), allowed, f"nearest: {_text(near[0])}" if near else "")
    if isinstance(value, bool):
        return value if kind is bool else reading.refuse(at, _found(value), allowed)
    if kind is int and isinstance(value, int) and _within(value, rules):
        return value
    # A whole number is a number: 90 stands for 90.0 and loses nothing.
    if kind is float and isinstance(value, int | float) and _within(value, rules):
        return float(value)
    if kind is str and isinstance(value, str) and (value.strip() or rules["empty"]):
        return value
    if kind is Path and isinstance(value, str) and value.strip() and "\0" not in value:
        return _path(value, at, reading)
    return reading.refuse(at, _found(value), allowed)


def _words(value: str) -> list[str] | str:
    try:
        return shlex.split(value)
    except ValueError:  # a quote without its other half; refused as the text that it is
        return value


def _path(value: str, at: str, reading: Reading) -> Path | _Bad:
    try:
        return reading.folder / Path(value).expanduser()
    except RuntimeError:
        return reading.refuse(at, f"found {_text(value)}, but there is no home folder", "a path without ~")


def _within(value: float, rules: Mapping[str, Any]) -> bool:
    low, high = rules["low"], rules["high"]
    try:
        if not math.isfinite(value):
            return False
    except OverflowError:
        return False
    return (low is None or value >= low) and (high is None or value <= high)


def _optional(kind: Any) -> tuple[bool, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        inner = [arg for arg in get_args(kind) if arg is not type(None)]
        return True, inner[0]
    return False, kind


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _found(value: object) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        str: "text",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return f"found {_text(value)}" + (f" ({names[type(value)]})" if type(value) in names else "")


def _nearest(name: str, at: str, keys: Mapping[str, Any], reading: Reading) -> str:
    near = [_join(at, key) for key in difflib.get_close_matches(name.lower(), list(keys), 1)]
    # Spelled right at the wrong place: `port` belongs into `ui`.
    near = near or [path for path in reading.known if path.rpartition(".")[2] == name]
    return f"nearest: {near[0]}" if near else ""


def describe(kind: Any, rules: Mapping[str, Any]) -> str:
    """What is allowed for a type with its bounds, in words: the same in errors and in the table."""
    optional, kind = _optional(kind)
    if optional:
        return f"{describe(kind, rules)}, or null"
    origin = get_origin(kind)
    if origin is Literal:
        return " | ".join(_text(choice) for choice in get_args(kind))
    if origin is tuple:
        listed = f"a list of {_plural(get_args(kind)[0])}"
        if rules["shell"]:
            return f"{listed}, or a string that a shell runs"
        return f"{listed}, or a string that is split as a shell does" if rules["words"] else listed
    if origin is Mapping:
        inner = get_args(kind)[1]
        return "an object" if inner is Any else f"an object of {_plural(inner)}"
    if kind in (int, float):
        noun = "a whole number" if kind is int else "a number"
        low, high = rules["low"], rules["high"]
        if high is not None:
            return f"{noun} from {low} to {high}"
        return noun if low is None else f"{noun}, at least {low}"
    if kind is str:
        return "text" if rules["empty"] else "text, not empty"
    return {bool: "true | false", Path: "a path"}.get(kind, "an object")


def _plural(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"strings ({describe(kind, _ITEM)})"
    return {str: "strings", Path: "paths", int: "whole numbers", float: "numbers"}.get(kind, "objects")


def table(section: type, at: str = "") -> Iterator[Key]:
    """Every key below `section` in the order of the types, sections opened, lists of them as `name[]`."""
    for name, (each, kind) in keys_of(section).items():
        rules, path = each.metadata, _join(at, name)
        _, inner = _optional(kind)
        if is_dataclass(inner) and isinstance(inner, type):
            yield from table(inner, path)
            continue
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        shown = "required" if default is MISSING else _shown(default)
        yield Key(path, describe(kind, rules), shown, rules["meaning"])
        origin, named = get_origin(inner), ".NAME" if get_origin(inner) is Mapping else "[]"
        listed = get_args(inner)[-1 if origin is Mapping else 0] if origin in (tuple, Mapping) else None
        if is_dataclass(listed) and isinstance(listed, type):
            yield from table(listed, f"{path}{named}")


def _shown(default: object) -> str:
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    plain: object = default
    if isinstance(default, Path):
        plain = default.as_posix()
    elif isinstance(default, Mapping):
        plain = dict(default)
    return json.dumps(plain, default=_set_keys)


def _set_keys(section: Any) -> dict[str, object]:
    """A section as it would stand in the file: what is not its default."""
    return {
        each.name: getattr(section, each.name)
        for each in fields(section)
        if getattr(section, each.name) != each.default
    }
