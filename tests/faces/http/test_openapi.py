"""The OpenAPI document says what there is, and its page says what the document says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from relay.faces.http.reference.openapi import document
from relay.faces.operations.registry import OPERATIONS
from tests.faces.house import house
from tests.faces.recorder import Recorder

#: Routes that say otherwise what they are: the page's files, the socket, MCP.
_NOT_IN_IT = {"/", "/assets/{name}", "/ws", "/mcp"}
#: Routes that floor 4 adds to those of `create_app`; tests/e2e holds them against the running daemon.
_ADDED = (
    "/api/repair",
    "/api/guard",
    "/api/permissions",
    "/api/needs",
    "/api/since",
    "/api/airspace",
    "/api/worktrees",
)
_ADDED += ("/api/locks", "/api/tasks/", "/api/inbox", "/api/review")
_ADDED += ("/api/messages/{message}/", "/api/pins")
_ADDED += ("/api/code",)


def refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for one in value.values() for ref in refs(one)]
    return [ref for one in value for ref in refs(one)] if isinstance(value, list) else []


async def test_every_route_is_in_the_document_and_the_other_way_round(tmp_path: Path) -> None:
    async with house(tmp_path, services=lambda *_: Recorder().services()) as home:
        routes = {
            (route.method, route.resource.canonical)
            for route in home.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
        described = {
            (method.upper(), path) for path, methods in document()["paths"].items() for method in methods
        }
        here = {one for one in routes if one[1] not in _NOT_IN_IT}
        assert here - described == set()
        assert {one for one in described - here if not one[1].startswith(_ADDED)} == set()
        status, told, _ = await home.ask("GET", "/openapi.json")
        assert (status, told) == (200, json.loads(json.dumps(document())))
        status, page, response = await home.ask("GET", "/reference")
        assert status == 200
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert not re.search(r"<script|style=|onload|href=.?javascript", page)
        assert all(path in page for path in told["paths"])
        assert (await home.ask("GET", "/reference.css"))[0] == 200


def test_the_document_is_whole() -> None:
    told = document()
    assert told["openapi"] == "3.1.0"
    for ref in refs(told):
        place: Any = told
        for step in ref.removeprefix("#/").split("/"):
            place = place[step]
    ids = [one["operationId"] for methods in told["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    assert set(OPERATIONS) <= set(ids)
    acquire = told["paths"]["/locks/acquire"]["post"]
    assert {"400", "401", "403", "503"} <= set(acquire["responses"])
    fields = acquire["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"file_path", "reason", "ttl_minutes", "agent_id", "session_id"} <= set(fields)
