"""A request's JSON Schema as a model should read it: what steers it, and no more.

Invariant: pure; it takes away what says nothing (titles, null beside a type, defaults of null) and resolves
references in place, and accepts nothing that the pydantic model refuses because of what was taken away.
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
