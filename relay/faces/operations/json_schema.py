"""A request's JSON Schema as a model should read it: what steers it, and no more.

Invariants, both pure:
- `input_schema` takes away what says nothing (titles, null beside a type, defaults of null) and resolves references
  in place, and accepts nothing that the pydantic model refuses because of what was taken away;
- `listed_schema`, which every conversation of a model begins with, leaves out as well the bounds that nobody reaches
  by chance: how long a text and a list may be, that a text is not empty and no count negative. Who does is refused
  with the bound.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel


@cache
def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a request, for `inputSchema`."""
    whole = model.model_json_schema()
    schema: dict[str, Any] = _slim(whole, whole.get("$defs", {}))
    schema.pop("description", None)  # the tool's own says it
    return {"type": "object", "properties": {}, **schema}


@cache
def listed_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a request, for `tools/list`."""
    listed: dict[str, Any] = _listed(input_schema(model))
    return listed


def _listed(value: Any) -> Any:
    if isinstance(value, list):
        return [_listed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    listed: dict[str, Any] = {}
    for key, inner in value.items():
        if key == "properties":
            listed[key] = {name: _listed(field) for name, field in inner.items()}
        elif key not in _UNREACHED and (key, inner) not in _OBVIOUS:
            listed[key] = _listed(inner)
    # The closer of two lower bounds.
    if "minimum" in listed and listed.get("exclusiveMinimum", listed["minimum"]) < listed["minimum"]:
        del listed["exclusiveMinimum"]
    return listed


_UNREACHED = frozenset({"maxLength", "maxItems"})
#: That a text is not empty, a number not negative, and what the widest counter holds.
_OBVIOUS = (("minLength", 1), ("minimum", 0), ("minimum", 1), ("maximum", 2**63 - 1))


def _slim(value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_slim(entry, known) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        named = known[value["$ref"].rsplit("/", 1)[-1]]
        return _slim({**named, **{key: inner for key, inner in value.items() if key != "$ref"}}, known)
    slim = {
        key: {name: _slim(field, known) for name, field in inner.items()}
        if key == "properties"
        else _slim(inner, known)
        for key, inner in value.items()
        if key not in ("title", "$defs") and not (key == "default" and inner in (None, [], ""))
    }
    either = slim.get("anyOf")
    if isinstance(either, list):
        left = [choice for choice in either if choice != {"type": "null"}]
        if len(left) == 1:
            del slim["anyOf"]
            slim = {**left[0], **slim}
        else:
            slim["anyOf"] = left
    return slim
