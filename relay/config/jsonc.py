"""config.json as text: reading it strictly, and changing one object in it without touching the rest.

Invariant: a change to one object leaves every other byte of the file as it was, so that a person's order,
indentation and line ends survive what the page writes back.

Pure text; `relay.config.settings` gives it a meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class JsonError(ValueError):
    """The text is not the JSON that a configuration may be. The message names the line."""


def parse(text: str) -> Any:
    """The value of `text`. Raises JsonError: broken syntax, a key that stands twice, NaN or Infinity."""
    twice: list[str] = []

    def one_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(sorted({name for name in names if names.count(name) > 1}))
        return members

    def no_constant(name: str) -> Any:
        raise JsonError(f"{name} is not a JSON number")

    try:
        value = json.loads(text, object_pairs_hook=one_each, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise JsonError(_where(text, error)) from None
    except RecursionError:
        raise JsonError("nested too deeply") from None
    if twice:
        raise JsonError("; ".join(f'"{name}" is given twice in one object' for name in twice))
    return value


def _where(text: str, error: json.JSONDecodeError) -> str:
    lines = text.splitlines() or [""]
    line = lines[min(error.lineno, len(lines)) - 1].strip()
    message = f"line {error.lineno}, column {error.colno}: {error.msg}"
    if line:
        message += f", in: {line[:80]}"
    rest = text[error.pos :].lstrip()
    if rest.startswith(("//", "#", "/*")):
        message += " (JSON has no comments)"
    elif rest.startswith(("}", "]")) and text[: error.pos].rstrip().endswith(","):
        message += " (no comma after the last one)"
    elif rest.startswith("'"):
        message += ' (JSON wants "double quotes")'
    return message


def change_object(text: str, path: tuple[str | int, ...], changes: Mapping[str, Any]) -> str:
    """`text` with the object at `path` (keys and indexes from the root) changed.

    A value of None removes its key; a key that is new goes to the end of the object. Raises KeyError when
    there is no such place. `text` must be JSON that `parse` accepts.
    """
    at = _skip(text, 0)
    for step in path:
        at = _members(text, at)[step][1]
    for key, value in changes.items():
        text = _remove(text, at, key) if value is None else _put(text, at, key, value)
    return text


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, at: int) -> dict[str | int, tuple[int, int, int]]:
    """Of the object or array that starts at `at`: key or index -> (start, start of the value, its end)."""
    members: dict[str | int, tuple[int, int, int]] = {}
    named = text[at] == "{"
    if text[at] not in "{[":
        return members
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        start, key = at, len(members)
        if named:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        members[key] = (start, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members


def _put(text: str, at: int, key: str, value: Any) -> str:
    members = _members(text, at)
    written = json.dumps(value, ensure_ascii=False)
    if key in members:
        _, start, end = members[key]
        return text[:start] + written + text[end:]
    written = f"{json.dumps(key, ensure_ascii=False)}: {written}"
    if not members:
        return text[: at + 1] + written + text[_skip(text, at + 1) :]
    spans = list(members.values())
    # The gap before the last member is how this object sets its members apart: a blank or a line end
    # with its indentation.
    if len(spans) > 1:
        gap = text[text.index(",", spans[-2][2]) + 1 : spans[-1][0]]
    else:
        gap = text[at + 1 : spans[-1][0]]
        gap = gap if "\n" in gap else " "
    end = spans[-1][2]
    return f"{text[:end]},{gap}{written}{text[end:]}"


def _remove(text: str, at: int, key: str) -> str:
    members = _members(text, at)
    if key not in members:
        return text
    start, _, end = members[key]
    after = _skip(text, end)
    if text[after] == ",":
        return text[:start] + text[_skip(text, after + 1) :]
    earlier = [span[2] for name, span in members.items() if name != key]
    return text[: earlier[-1] if earlier else start] + text[end:]
