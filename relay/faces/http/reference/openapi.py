"""The OpenAPI 3.1 document: the operations from the registry, the room's own routes from a table.

Invariant: what is said of an operation is its declaration; a test holds the paths against the routes that there are.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from operator import itemgetter
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from relay import __version__
from relay.faces.http.reference.openapi_room import NAME, ROOM_ROUTES, RoomRoute, exactly_one, not_both
from relay.faces.operations.keys import CreateKey, RevokeKey
from relay.faces.operations.locks import Explain, Renew, ThisLock
from relay.faces.operations.operation import Operation
from relay.faces.operations.registry import OPERATIONS
from relay.faces.operations.tasks import SubmitWork, ThisTask
from relay.model import SCOPES

Json = dict[str, Any]
#: The name of each model in the document.
Names = dict[tuple[type[BaseModel], JsonSchemaMode], str]
SESSION = "^[A-Za-z0-9._:@+~-]{1,128}$"
_REF = "#/components/schemas/{model}"
_PLACE = re.compile(r"\{(\w+)\}")
_NAME: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": 64, "pattern": NAME}
#: Fields about the caller that the request of any operation may have (docs/coordination.md, "Who asks").
_WHO: dict[str, Json] = {
    "agent_id": {**_NAME, "description": "who asks; only the key's own identity is accepted"},
    "agent_type": {
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": 60,
        "description": "what asks, like claude_code",
    },
    "session_id": {
        "type": ["string", "null"],
        "pattern": SESSION,
        "description": "its session; X-Relay-Session, if sent, says the same",
    },
    "name": {**_NAME, "description": "the same as agent_id, for people; one of the two"},
}
#: What a field is beyond its declaration: the wings check it, and say in their own words what is wrong with it. No
#: schema tells all of what a path or pattern may be.
_UUID = "[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}"
_TASK: Json = {"pattern": f"^(?:#?[1-9][0-9]{{0,11}}|{_UUID})$"}
_PATH: Json = {"pattern": r"^(?!(?:.|\n)*(?:[^/]{256}|[\u0000-\u001f\u007f-\u009f]))"}
_SPAN = "[1-9][0-9]{0,2}[smhdwSMHDW]"
_LENGTH: Json = {"minimum": 1 / 60}
_BEYOND: dict[str, Json] = {
    "task_id": _TASK,
    "depends_on": _TASK,
    "file_path": _PATH,
    "file_paths": _PATH,
    "path": _PATH,
    "paths": _PATH,
    "files": _PATH,
    "event_type": {"maxLength": 64},
    "expires": {"pattern": f"^ *(?:[nN][eE][vV][eE][rR]|{_SPAN}) *$"},
    "lease_minutes": _LENGTH,
    "ttl_minutes": _LENGTH,
    "scopes": {"enum": sorted(SCOPES)},
}
_BEYOND_ONE: dict[type[BaseModel], dict[str, Json]] = {
    ThisTask: {"id": _TASK},
    ThisLock: {"id": _PATH},
    Renew: {"id": _PATH},
    Explain: {"id": _PATH},
    CreateKey: {"identity": {"maxLength": 64, "pattern": NAME}},
    RevokeKey: {"id": {"pattern": "^(?:rk_)?[0-9a-f]{16}$"}},
    SubmitWork: {"task_id": {"pattern": f"^{_UUID}$"}},
}
_SESSION = {
    "name": "X-Relay-Session",
    "in": "header",
    "required": False,
    "description": "the caller's session; without it the key's own",
    "schema": {"type": "string", "pattern": SESSION},
}
_REFUSED = {
    "400": "malformed: `error.message` names the field",
    "401": "no key, or one that is unknown, expired or revoked",
    "403": "another's identity, or a scope that the key lacks",
    "404": "an unknown id or path",
    "408": "the body took too long",
    "413": "the request is too large",
    "415": "the body has an unsupported Content-Encoding",
    "429": "too many requests; Retry-After says when to come again",
    "503": "busy: Retry-After says when to come again; unavailable, without it: a person has to repair it first",
}
_ROOM_TAG = "the room's own doors"
_ABOUT = """\
The room where people and agents work on one codebase: locks, work, memory, changesets, and the room itself.
What the domain refuses is 200 with `success: false`; each refusal says what would make it succeed (`fix`)."""


@cache
def document() -> Json:
    """The whole document."""
    paths: dict[str, Json] = {}
    names, schemas = _schemas()
    tags = (operation.tag for operation in OPERATIONS.values())
    for operation in OPERATIONS.values():
        for number, (method, path) in enumerate(operation.endpoints):
            entry = _operation(operation, method, path, names, schemas)
            entry["operationId"] = f"{operation.name}_{number + 1}" if number else operation.name
            paths.setdefault(path, {})[method.lower()] = entry
    for route in ROOM_ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _room_route(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "relay", "version": __version__, "description": _ABOUT},
        "security": [{"ApiKey": []}, {"Bearer": []}],
        "tags": [{"name": tag} for tag in [*dict.fromkeys(tags), _ROOM_TAG]],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "Bearer": {"type": "http", "scheme": "bearer"},
            },
            "responses": {f"Refused{code}": _refused(code, text) for code, text in _REFUSED.items()},
            "schemas": {**schemas, "Refused": _refused_schema()},
        },
    }


def _schemas() -> tuple[Names, dict[str, Json]]:
    """The name of each model in the document, which is its title, and its schema."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    for operation in OPERATIONS.values():
        models += [(operation.request, "validation"), (operation.result, "serialization")]
    refs, whole = models_json_schema(list(dict.fromkeys(models)), ref_template=_REF)
    titles = {_REF.format(model=key): schema["title"] for key, schema in whole["$defs"].items()}
    named: Names = {(model, mode): titles[refs[model, mode]["$ref"]] for model, mode in models}
    return named, {
        schema["title"]: schema for schema in sorted(whole["$defs"].values(), key=itemgetter("title"))
    }


def _operation(
    operation: Operation,
    method: str,
    path: str,
    names: Names,
    schemas: dict[str, Json],
) -> Json:
    request = dict(schemas[names[operation.request, "validation"]])
    request["properties"] = _beyond(operation.request, request.get("properties", {}))
    result: Json = {"$ref": _REF.format(model=names[operation.result, "serialization"])}
    if operation.result_list:
        result = {"type": "array", "items": result}
    summary, _, more = operation.doc.partition("\n")
    entry: Json = {
        "summary": summary,
        "description": _description(operation, more),
        "tags": [operation.tag],
        # A request says its session once: in its body where it has one, else in the header.
        "parameters": [*_parameters(request, method, path), *([] if method == "POST" else [_SESSION])],
        "responses": _responses("200", "done, or refused by the domain", result),
    }
    if method == "POST":
        body = {**copy.deepcopy(request)}
        required = body.get("required", ())
        fields = body.get("properties", {})
        # Null is as good as left out (`relay.faces.operations.operation`).
        own = {name: field if name in required else _or_null(field) for name, field in fields.items()}
        body["properties"] = {**_WHO, **own}
        # An operation's own `name` says nothing of the caller.
        rules = [] if "name" in own else [not_both("agent_id", "name")]
        if operation.request.exactly_one:
            rules.append(exactly_one(*operation.request.exactly_one))
        if rules:
            body["allOf"] = rules
        entry["requestBody"] = {
            "required": bool(body.get("required")),
            "content": {"application/json": {"schema": body}},
        }
    return entry


def _description(operation: Operation, more: str) -> str:
    scope = f"Scope: `{operation.scope}`." if operation.scope else "Any good key."
    tool = f"MCP tool: `{operation.name}`." if operation.tool else ""
    return " ".join(part for part in (more, scope, tool) if part)


def _parameters(request: Json, method: str, path: str) -> list[Json]:
    places = _PLACE.findall(path)
    fields: dict[str, Json] = request.get("properties", {})
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _not_null(fields.get(name, {"type": "string"})),
        }
        for name in places
    ]
    if method == "POST":
        return parameters
    required = request.get("required", ())
    who = {name: schema for name, schema in _WHO.items() if name not in ("name", "session_id")}
    for name, schema in {**fields, **who}.items():
        if name not in places:
            shown = {"name": name, "in": "query", "required": name in required, "schema": _not_null(schema)}
            parameters.append(shown)
    return parameters


def _beyond(request: type[BaseModel], fields: Json) -> Json:
    """The fields with what holds beyond their declaration."""
    more = dict(_BEYOND)
    for model, own in _BEYOND_ONE.items():
        more.update(own if issubclass(request, model) else {})
    return {name: _with(schema, more[name]) if name in more else schema for name, schema in fields.items()}


def _with(schema: Json, more: Json) -> Json:
    """The schema, its texts and numbers being `more`; of a list each entry is."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_with(branch, more) for branch in schema["anyOf"]]}
    if schema.get("type") == "array":
        return {**schema, "items": _with(schema["items"], more)}
    return {**schema, **more} if schema.get("type") in ("string", "number") else schema


def _or_null(schema: Json) -> Json:
    """The schema of a field that may be left out: null is allowed too."""
    result = copy.deepcopy(schema)
    if "anyOf" in result:
        if {"type": "null"} not in result["anyOf"]:
            result["anyOf"].append({"type": "null"})
    elif "enum" in result:
        result["enum"] = [*result["enum"], *([None] if None not in result["enum"] else [])]
        result.pop("type", None)
    elif isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    elif "$ref" in result or "const" in result:
        result = {"anyOf": [result, {"type": "null"}]}
    return result


def _not_null(schema: Json) -> Json:
    """The schema of a parameter: a query has no null."""
    result = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    if isinstance(result.get("type"), list):
        result["type"] = next(kind for kind in result["type"] if kind != "null")
    choices = [choice for choice in result.pop("anyOf", ()) if choice.get("type") != "null"]
    return {**result, **choices[0]} if len(choices) == 1 else result


def _responses(status: str, text: str, schema: Json, *, kind: str = "application/json") -> Json:
    good = {"description": text, "content": {kind: {"schema": schema}}}
    return {status: good} | {code: {"$ref": f"#/components/responses/Refused{code}"} for code in _REFUSED}


def _rules(route: RoomRoute) -> list[Any]:
    """The rules between the fields of a route's body. Of two names for the speaker, one is left out."""
    own = list(route.rules)
    both = not_both("name", "agent_id")
    return own if both in own or "agent_id" not in (route.body or {}) else [*own, both]


def _room_route(route: RoomRoute) -> Json:
    entry: Json = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "summary": route.summary,
        "tags": [_ROOM_TAG],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PLACE.findall(route.path)
        ]
        + [
            {"name": name, "in": "query", "required": name in route.needed, "schema": dict(schema)}
            for name, schema in route.query.items()
        ],
        "responses": _responses(
            str(route.status),
            "done, or refused by the domain",
            {"type": "array", "items": {"type": "object"}} if route.lists else {"type": "object"},
            kind=route.kind,
        ),
    }
    if route.kind != "application/json":
        entry["responses"][str(route.status)]["content"] = {route.kind: {"schema": {"type": "string"}}}
    if route.open:
        entry["security"] = []
    if route.body is not None:
        entry["requestBody"] = {
            "required": bool(route.required),
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {name: dict(schema) for name, schema in route.body.items()},
                        "required": list(route.required),
                        "additionalProperties": False,
                        **({"allOf": [dict(rule) for rule in _rules(route)]} if _rules(route) else {}),
                    }
                }
            },
        }
    return entry


def _refused(code: str, text: str) -> Json:
    refused: Json = {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": _REF.format(model="Refused")}}},
    }
    if code in ("429", "503"):
        wait = {"description": "seconds to wait", "schema": {"type": "string"}}
        refused["headers"] = {"Retry-After": wait}
    return refused


def _refused_schema() -> Json:
    text = {"type": "string"}
    problem = {
        "type": "object",
        "properties": {"code": text, "message": text, "fix": text},
        "required": ["code", "message", "fix"],
    }
    return {
        "type": "object",
        "description": "What was not done: `reason` is a code, `fix` says what would make it succeed.",
        "properties": {
            "success": {"const": False},
            "reason": text,
            "message": text,
            "fix": text,
            "error": problem,
        },
        "required": ["success", "reason", "message", "fix", "error"],
    }
