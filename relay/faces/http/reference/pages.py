"""`GET /openapi.json`, and a page of it for people: made here, without scripts.

Invariant: the page says what the document says, and nothing that is not in it.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any

from aiohttp import web

from relay.faces.http.reference.openapi import document

Json = dict[str, Any]

_CSS = """\
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem }
article { border-top: 1px solid #8884; padding: .75rem 0 }
code, h3 { font-family: ui-monospace, monospace; font-size: .95em }
h3 { margin: 0 }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0 }
p { margin: .35rem 0 }
"""


def reference_routes() -> list[web.RouteDef]:
    """The routes of the document and its page."""
    return [
        web.get("/openapi.json", _document),
        web.get("/reference", _reference),
        web.get("/reference.css", _css),
    ]


async def _document(_request: web.Request) -> web.Response:
    return web.Response(body=_text(), content_type="application/json", charset="utf-8")


async def _reference(_request: web.Request) -> web.Response:
    return web.Response(body=_page(), content_type="text/html", charset="utf-8")


async def _css(_request: web.Request) -> web.Response:
    return web.Response(text=_CSS, content_type="text/css")


@cache
def _text() -> bytes:
    return json.dumps(document(), ensure_ascii=False).encode()


@cache
def _page() -> bytes:
    api = document()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>relay: its doors</title>",
        '<link rel=stylesheet href="/reference.css"><meta name=viewport content="width=device-width">',
        f"<h1>The doors of relay {escape(api['info']['version'])}</h1>",
        f"<p>{_prose(api['info']['description'])}</p>",
        "<p>Send <code>X-API-Key</code> (or <code>Authorization: Bearer</code>) with each request; "
        "<code>relay keys create NAME</code> makes a key. "
        "<a href=/openapi.json>openapi.json</a> is this for programs.</p>",
        "<p>Any operation's request may also say <code>agent_id</code>, <code>agent_type</code>, "
        "<code>session_id</code> and <code>name</code>; the header <code>X-Relay-Session</code> names the "
        "session too: two that differ are refused.</p>",
    ]
    for tag in api["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        for path, methods in api["paths"].items():
            for method, entry in methods.items():
                if entry["tags"] == [tag["name"]]:
                    parts.append(_entry(api, method, path, entry))
    return "\n".join([*parts, "</html>\n"]).encode()


def _entry(operation: Json, method: str, path: str, entry: Json) -> str:
    rows = [
        _row(parameter["name"], parameter["schema"], parameter["required"], parameter["in"])
        for parameter in entry["parameters"]
        if parameter["in"] != "header" and parameter["name"] not in _SAID_ABOVE
    ]
    body = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    needed = body.get("required", ())
    for name, schema in body.get("properties", {}).items():
        if name not in _SAID_ABOVE:
            rows.append(_row(name, schema, name in needed, "body"))
    good = next(iter(entry["responses"].items()))
    parts = [
        f"<article><h3>{method.upper()} {escape(path)}</h3><p>{_prose(entry['summary'])}</p>",
        f"<p>{_prose(entry.get('description', ''))}</p>",
        f"<table>{''.join(rows)}</table>" if rows else "",
        f"<p>{good[0]}: {_answer(operation, good[1])}</p></article>",
    ]
    return "".join(parts)


_SAID_ABOVE = frozenset({"agent_id", "agent_type", "session_id", "name"})


def _row(name: str, schema: Json, required: bool, place: str) -> str:
    about = escape(schema.get("description", ""))
    must = "required" if required else ""
    return f"<tr><td><code>{escape(name)}</code><td>{escape(_kind(schema))}<td>{place} {must}<td>{about}</tr>"


def _kind(schema: Json) -> str:
    """A schema in a few words."""
    if "enum" in schema:
        return " | ".join(json.dumps(part) for part in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_kind(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = schema.get("type", "any JSON")
    words = [part for part in kind if part != "null"] if isinstance(kind, list) else [str(kind)]
    inner = f" of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else ""
    return " | ".join(words) + inner


def _answer(described: Json, response: Json) -> str:
    schema = next(iter(response["content"].values()))["schema"]
    listed = schema.get("type") == "array"
    inner = schema["items"] if listed else schema
    if "$ref" not in inner:
        return escape(_kind(schema))
    fields = described["components"]["schemas"][inner["$ref"].rpartition("/")[2]].get("properties", {})
    shown = ", ".join(f"<code>{escape(name)}</code>" for name in fields)
    return f"{'a list of ' if listed else ''}{{{shown}}}"


def _prose(text: str) -> str:
    """Text with `code` in it as HTML."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
