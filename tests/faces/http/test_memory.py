"""Working memory and skills on HTTP: whose they are, and what a request may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.memory import working
from relay.model import ADMIN, SCOPES, Caller
from tests.engines import BOTH, all_events
from tests.faces.house import House, house, real_services

pytestmark = BOTH
ANN = Caller("ann", "person-ann", "person", person=True, scopes=SCOPES | {ADMIN})


async def key_of(home: House, name: str, **more: Any) -> dict[str, str]:
    made = await home.auth.keys.create(ANN, name, **more)
    return {"X-API-Key": made["key"]}


async def test_a_session_has_its_own_and_a_resumed_one_finds_it(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        key, other = await key_of(home, "CLAUDE"), await key_of(home, "CODEX")
        one, two = {**key, "X-Relay-Session": "one"}, {**key, "X-Relay-Session": "two"}
        status, told, _ = await home.ask("POST", "/memory/working", json={"content": "x"}, headers=one)
        assert (status, [item["content"] for item in told["items"]]) == (200, ["x"])
        for headers in (two, key, {**other, "X-Relay-Session": "one"}):
            assert (await home.ask("GET", "/memory/working", headers=headers))[1]["items"] == []
        await home.ask("POST", "/sessions/end", json={"session_id": "one"}, headers=key)
        assert (await home.ask("GET", "/memory/working", headers=one))[1] == told
        assert (await home.ask("POST", "/memory/working", json={}, headers=one))[1] == told


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/memory/working", {"critical": True}, "no `content`"),
        ("/memory/working", {"key": "k"}, "no `content`"),
        ("/memory/working", {"content": ""}, "empty"),
        ("/memory/working", {"content": "a\0b"}, "NUL"),
        ("/memory/working", {"content": 7}, "content"),
        ("/memory/working", {"content": "x", "key": "sk-ant-api03-" + "a1B2" * 9}, "looks like a key"),
        ("/memory/working", {"content": "x", "key": "k" * 1000}, "at most 200"),
        ("/memory/working", {"content": "x", "session": "two"}, "Unknown field"),
        ("/memory/skills", {}, "task_type"),
        ("/memory/skills", {"task_type": "t", "success": True}, "`name` is missing"),
        ("/memory/skills", {"task_type": "t", "name": "n", "steps": ["a"]}, "`success` is missing"),
        ("/memory/skills", {"task_type": "t", "name": "n", "success": "yes"}, "success"),
        ("/memory/skills", {"task_type": "t", "name": "n", "success": True, "steps": "a"}, "steps"),
        ("/memory/skills", {"task_type": "t" * 65}, "64"),
    ],
)
async def test_what_is_malformed_is_refused_and_changes_nothing(
    tmp_path: Path, path: str, body: dict[str, Any], says: str
) -> None:
    async with house(tmp_path, services=real_services) as home:
        key = await key_of(home, "CLAUDE")
        status, told, _ = await home.ask("POST", path, json=body, headers=key)
        assert (status, told["success"]) == (400, False)
        assert says in told["message"] and told["reason"] != "bad_key", told
        assert (await home.ask("GET", "/memory/working", headers=key))[1]["items"] == []
        assert (await home.ask("GET", "/memory/skills?task_type=t", headers=key))[1]["skills"] == []


async def test_a_skills_name_is_no_callers_and_only_some_keys_count(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        key, reads = await key_of(home, "CLAUDE"), await key_of(home, "CODEX", scopes=["read"])
        use = {"task_type": "t", "name": "ann", "success": True}
        status, told, _ = await home.ask("POST", "/memory/skills", json=use, headers=key)
        assert (status, told["skills"][0]["name"]) == (200, "ann")
        status, told, _ = await home.ask("POST", "/memory/skills", json=use, headers=reads)
        assert (status, told["error"]["code"]) == (403, "scope")
        status, told, _ = await home.ask("GET", "/memory/skills?task_type=t&name=ann", headers=reads)
        assert (status, told["skills"][0]["uses"]) == (200, 1)


async def test_the_timeline_tells_a_note_to_its_session_and_to_people(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        key, other = await key_of(home, "CLAUDE"), await key_of(home, "CODEX")
        one = {**key, "X-Relay-Session": "one"}
        await home.ask("POST", "/memory/working", json={"content": "the plan"}, headers=one)
        [event] = await all_events(home.store, working.STORED)
        show = {"what": "show", "moment": event.id}
        for headers, seen in ((one, True), ({}, True), (key, False), (other, False)):
            _, told, _ = await home.ask("POST", "/timeline", json=show, headers=headers)
            assert ("the plan" in str(told)) is seen, headers
            assert ("withheld" in told["event"]) is not seen
