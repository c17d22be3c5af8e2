"""Every tool called once on an empty, freshly migrated database: through MCP with no daemon, and through HTTP.

(Issue 3, "Checks and figures".)
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clients import PLACES, HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import room, settings

NOBODYS = str(uuid.uuid4())
#: The tools, what each is asked, and what of its answer is known before: reading first, then what writes.
ASKED: list[tuple[str, dict[str, Any], dict[str, Any] | list[Any]]] = [
    ("check_locks", {}, []),
    ("recall", {"task_description": "anything"}, []),
    ("working_memory", {}, {"success": True, "items": [], "tokens": 0, "compressed": False, "removed": []}),
    ("skill", {"task_type": "t"}, {"success": True, "skills": []}),
    ("knowledge", {}, {"success": True, "entries": [], "relations": [], "more": False}),
    ("get_work", {}, {"success": True, "task_id": None}),
    ("explain", {"kind": "lock", "id": "a.py"}, {"success": True, "free": True, "locks": []}),
    ("help", {}, {"topic": None}),
    ("timeline", {"what": "log"}, {"success": True, "events": []}),
    ("timeline", {"what": "checkpoints"}, {"success": True, "checkpoints": []}),
    ("renew", {"kind": "lock", "id": "a.py"}, {"success": False, "reason": "not_held"}),
    ("release_lock", {"file_path": "a.py"}, {"success": False, "released": False, "reason": "not_held"}),
    ("complete_work", {"task_id": NOBODYS, "success": True}, {"success": False, "reason": "unknown_task"}),
    ("release_work", {"task_id": NOBODYS}, {"success": False, "reason": "unknown_task"}),
    ("resolve", {"id": "c1", "text": "x = 1"}, {"success": False, "reason": "not_found"}),
    ("check_merge", {"a": "one", "b": "other"}, {"success": False, "reason": "not_found"}),
    ("verification", {}, {"success": True, "verifications": []}),
    ("land", {}, {"success": True, "agent": "first", "state": "asked", "place": 1}),
    ("read_room", {}, {}),
    ("who", {}, {}),
    ("acquire_lock", {"file_path": "a.py"}, {"success": True, "action": "acquired", "fencing_token": 1}),
    ("submit_work", {"task_type": "t", "task_description": "d"}, {"success": True, "number": 1}),
    ("remember", {"event_type": "e", "summary": "s"}, {"success": True, "merged": False}),
    ("feedback", {"memory_id": "r1", "useful": True}, {"success": True}),
    ("declare_intent", {"paths": ["a.py"]}, {"success": True, "paths": ["a.py"]}),
    ("post_message", {"body": "hello"}, {"success": True}),
]


def known(answer: Any, expected: dict[str, Any] | list[Any], tool: str) -> None:
    if isinstance(expected, list):
        assert answer == expected, tool
    else:
        assert {key: answer[key] for key in expected} == expected, (tool, answer)


@pytest.mark.parametrize("store", sorted(STORES))
async def test_through_mcp_where_nothing_was(tmp_path: Path, store: str) -> None:
    async with STORES[store](tmp_path) as (more, env), room(tmp_path / "room", settings(**more)) as one:
        client = await McpClient.open(one, "first", **env)
        tools = {tool["name"] for tool in (await client.request("tools/list"))["tools"]}
        assert tools == {tool for tool, _, _ in ASKED}
        for tool, said, expected in ASKED:
            known(await client.call(tool, **said), expected, tool)
        assert await client.close() == 0


@pytest.mark.parametrize("store", sorted(STORES))
async def test_through_http_in_a_new_room(tmp_path: Path, store: str) -> None:
    async with STORES[store](tmp_path) as (more, env), room(tmp_path / "room", settings(**more)) as one:
        await one.start(env=env)
        status, made = await one.ask("POST", "/keys", json={"identity": "first"})
        assert status == 200, made
        client = HttpClient("first", one, made["key"])
        for tool, said, expected in ASKED:
            method, path = PLACES[tool]
            status, answer = await client.ask(method, path, **({"json": said} if method == "POST" else {}))
            assert status == (
                404
                if isinstance(expected, dict) and expected.get("reason") in ("unknown_task", "not_found")
                else 200
            )
            known(answer, expected, tool)
