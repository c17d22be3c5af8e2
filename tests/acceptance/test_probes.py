"""What a hostile or careless client sends, at both interfaces and on every store: the answer is as the contract says.

(004; issue 3; docs/coordination.md, "Answers".) A row is an operation, its arguments, the fault and the reason.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from yarl import URL

from tests.acceptance.clients import PLACES, HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import Outside, room, settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
OK, REFUSED, MALFORMED, UNKNOWN = "ok", "refused", "malformed", "unknown"
STATUS = {OK: 200, REFUSED: 200, MALFORMED: 400, UNKNOWN: 404}
NOBODYS = str(uuid.uuid4())
WORK = {"task_type": "probe-work", "task_description": "d"}
KEPT = {"event_type": "probe", "summary": "s"}

#: What needs nothing before it.
TABLE: list[tuple[str, Any, str, str | None]] = [
    *[("acquire_lock", {"file_path": "ttl.py", "ttl_minutes": ttl}, *told) for ttl, told in (
        (0, (MALFORMED, "bad_request")), (-1, (MALFORMED, "bad_request")), ("5", (MALFORMED, "bad_request")),
        (True, (MALFORMED, "bad_request")), ([], (MALFORMED, "bad_request")),
        (1e308, (MALFORMED, "bad_ttl_minutes")),
        (0.016, (MALFORMED, "bad_ttl_minutes")), (480.001, (MALFORMED, "bad_ttl_minutes")),
        (481, (MALFORMED, "bad_ttl_minutes")), (0.0166, (OK, None)), (480, (OK, None)), (None, (OK, None)),
    )],
    *[("acquire_lock", {"file_path": path}, MALFORMED, "bad_path") for path in (
        "/etc/passwd", "..", "../x", "a/../../x", ".", "./", "   ", "C:/x", "C:\\x", "a\\b", "a\nb", "\x7f",
        "x" * 256,
        "é/" * 400,
    )],
    *[("acquire_lock", said, MALFORMED, "bad_request") for said in (
        {}, {"file_path": None}, {"file_path": ""}, {"file_path": 5}, {"file_path": ["a"]}, {"path": "a"},
        {"file_path": "a\0b"}, {"file_path": "x" * 10_240}, {"file_path": "a/" * 600},
        {"file_path": "a", "file_paths": ["b"]},
        {"file_paths": []}, {"file_path": "a", "mode": "SHARED"}, {"file_path": "a", "wait_seconds": "1"},
        {"file_path": "a", "extra": 1},
        {"file_path": "a", "wait_seconds": 301}, {"file_path": "a", "reason": ""},
    )],
    ("acquire_lock", {"file_paths": [f"many{number}" for number in range(257)]}, MALFORMED, "bad_request"),
    ("release_lock", {"file_path": "never.py"}, REFUSED, "not_held"),
    ("release_lock", {"file_path": "never.py", "fencing_token": "1"}, MALFORMED, "bad_request"),
    ("release_lock", {"file_path": "never.py", "fencing_token": -1}, MALFORMED, "bad_request"),
    ("renew", {"kind": "lock", "id": "never.py"}, REFUSED, "not_held"),
    ("renew", {"kind": "claim", "id": NOBODYS}, UNKNOWN, "unknown_task"),
    ("renew", {"kind": "lease", "id": "a"}, MALFORMED, "bad_request"),
    ("check_locks", {"file_paths": "a.py"}, MALFORMED, "bad_request"),
    ("check_locks", {"file_paths": ["/a.py"]}, MALFORMED, "bad_path"),
    ("explain", {"kind": "work", "id": NOBODYS}, UNKNOWN, "unknown_task"),
    ("explain", {"kind": "work", "id": "x"}, MALFORMED, "bad_task_id"),
    *[("submit_work", {**WORK, **said}, *told) for said, told in (
        ({"priority": 0}, (MALFORMED, "bad_request")), ({"priority": 11}, (MALFORMED, "bad_request")),
        ({"priority": 5.5}, (MALFORMED, "bad_request")), ({"priority": "5"}, (MALFORMED, "bad_request")),
        ({"priority": True}, (MALFORMED, "bad_request")), ({"priority": None}, (OK, None)),
        ({"depends_on": [NOBODYS]}, (UNKNOWN, "unknown_dependency")),
        ({"depends_on": ["x"]}, (MALFORMED, "bad_task_id")),
        ({"depends_on": "x"}, (MALFORMED, "bad_request")), ({"depends_on": [5]}, (MALFORMED, "bad_request")),
        ({"task_id": NOBODYS, "depends_on": [NOBODYS]}, (REFUSED, "self_dependency")),
        ({"task_type": ""}, (MALFORMED, "bad_request")),
        ({"task_description": " \n"}, (MALFORMED, "bad_task_description")),
        ({"task_description": "x" * 16_385}, (MALFORMED, "bad_request")),
        ({"files": ["/x"]}, (MALFORMED, "bad_path")),
        ({"input_data": "y" * 300_000}, (MALFORMED, "bad_input_data")),
        ({"on_failed": "explode"}, (MALFORMED, "bad_request")),
    )],
    ("get_work", {"task_types": "probe"}, MALFORMED, "bad_request"),
    ("get_work", {"task_types": []}, MALFORMED, "bad_task_types"),
    ("get_work", {"task_types": ["none of these"]}, OK, None),
    ("complete_work", {"task_id": NOBODYS, "success": True}, UNKNOWN, "unknown_task"),
    ("complete_work", {"task_id": "x", "success": True}, MALFORMED, "bad_task_id"),
    ("complete_work", {"task_id": "' OR 1=1 --", "success": True}, MALFORMED, "bad_task_id"),
    ("complete_work", {"task_id": NOBODYS}, MALFORMED, "bad_request"),
    ("complete_work", {"task_id": NOBODYS, "success": "true"}, MALFORMED, "bad_request"),
    ("release_work", {"task_id": NOBODYS}, UNKNOWN, "unknown_task"),
    ("remember", {**KEPT, "tags": "x"}, MALFORMED, "bad_request"),
    ("remember", {**KEPT, "tags": ["x", 5]}, MALFORMED, "bad_request"),
    ("remember", {**KEPT, "summary": ""}, MALFORMED, "bad_request"),
    ("remember", {**KEPT, "summary": "x" * 4097}, MALFORMED, "bad_request"),
    *[("recall", {"task_description": text}, OK, None) for text in (
        '"', "'", "%", "*", "a*", "NOT", "a AND (b", "summary:x", "-x", "   ", "\U0001f600", "^x", "NEAR(a b)",
        "a & | !b <-> c",
    )],
    ("recall", {"task_description": ""}, OK, None),
    ("recall", {"task_description": 5}, MALFORMED, "bad_request"),
    ("recall", {"task_description": "x", "limit": 0}, MALFORMED, "bad_request"),
    ("recall", {"task_description": "x", "limit": "5"}, MALFORMED, "bad_request"),
    ("post_message", {"body": ""}, MALFORMED, "bad_request"),
    ("post_message", {"body": "x", "in_reply_to": "#9999999"}, UNKNOWN, "not_found"),
    ("declare_intent", {"paths": "a"}, MALFORMED, "bad_request"),
    ("declare_intent", {"paths": ["/x"]}, MALFORMED, "bad_path"),
    ("read_room", {"cursor": "x"}, MALFORMED, "bad_request"),
    ("help", {"topic": "nope"}, UNKNOWN, "unknown_topic"),
]  # fmt: skip
#: Names of files that work, each a lock of its own, found again by GET /locks/status in both spellings.
NAMES = (
    "a,b.py", "a & b.py", "12345", "ü/ö.py", "app/[id]/page.tsx", "a%b.py", "a?b.py", "a#b.py", "a+b.py", "-rf",
    "x y/z",
    "'; DROP TABLE file_locks;--", "\U0001f600.py", "src/**/*.{ts,tsx}", "api:GET /v1/users", "db:schema",
)  # fmt: skip


#: What a room's own processes have in their environment: where its database is.
ENVIRON: dict[Path, Mapping[str, str]] = {}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(STORES))
async def open_room(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Outside]:
    folder = tmp_path_factory.mktemp("probes")
    async with STORES[request.param](folder) as (more, env), room(folder, settings(**more)) as one:
        await one.start(env=env)
        ENVIRON[one.folder] = env
        yield one


async def key_of(one: Outside, identity: str, **more: Any) -> HttpClient:
    status, made = await one.ask("POST", "/keys", json={"identity": identity, **more})
    assert status == 200, made
    return HttpClient(identity, one, made["key"])


def judged(answer: Any, fault: str, reason: str | None, row: Any) -> None:
    """An answer of that fault has its whole shape."""
    if fault == OK:
        assert isinstance(answer, list) or answer["success"] is True, (row, answer)
        return
    told = (answer["success"], answer["reason"], answer["error"]["code"])
    assert told == (False, reason, reason), (row, answer)
    assert answer["message"] and answer["fix"], (row, answer)
    assert "validation" not in answer["message"], (row, answer)


async def test_every_row_through_http(open_room: Outside) -> None:
    client = await key_of(open_room, "probe-http")
    for row in TABLE:
        operation, said, fault, reason = row
        method, path = PLACES[operation]
        how: Json = {"json": said} if method == "POST" else {"params": said}
        status, answer = await client.ask(method, path, **how)
        assert status == STATUS[fault], (row, status, answer)
        judged(answer, fault, reason, row)
    assert (await client.call("release_lock", file_path="ttl.py"))["released"] is True


async def test_every_row_through_mcp(open_room: Outside) -> None:
    client = await McpClient.open(open_room, "probe-mcp", **ENVIRON[open_room.folder])
    for row in TABLE:
        operation, said, fault, reason = row
        result = await client.request("tools/call", {"name": operation, "arguments": said})
        answer = result["structuredContent"]
        assert result.get("isError", False) is (fault in (MALFORMED, UNKNOWN)), (row, result)
        judged(answer.get("result", answer), fault, reason, row)
    foreign = await client.request("tools/call", {"name": "who", "arguments": {"agent_id": "bob"}})
    assert foreign["isError"] is True, "nobody speaks for another"
    assert await client.close() == 0


async def test_odd_names_are_names(open_room: Outside) -> None:
    ann, bob = await key_of(open_room, "names-ann"), await key_of(open_room, "names-bob")
    for name in NAMES:
        assert (await ann.call("acquire_lock", file_path=name))["action"] == "acquired", name
        for place in (
            "/locks/status/" + quote(name, safe="/"),
            "/locks/status/" + quote(name, safe=""),
            "/locks/status?path=" + quote(name, safe=""),
        ):
            async with open_room.session.get(
                _raw(open_room, place), headers={"X-API-Key": bob.key}
            ) as response:
                told = await response.json()
            assert response.status == 200, (place, told)
            assert (told["file_path"], told["locked"]) == (name, True), place
            assert [lock["locked_by"] for lock in told["locks"]] == ["names-ann"], place
        assert (await bob.call("acquire_lock", file_path=name))["locked_by"] == "names-ann"
        assert (await bob.call("release_lock", file_path=name))["reason"] == "not_yours"
        assert (await ann.call("release_lock", file_path=name))["released"] is True
    same = ("u\u0308/a//b", "ü/./a/b", "ü/x/../a/b/")
    assert {(await ann.call("acquire_lock", file_path=name))["fencing_token"] for name in same} == {
        (await ann.call("acquire_lock", file_path="ü/a/b"))["fencing_token"]
    }
    assert (await bob.call("acquire_lock", file_path="Ü/a/b"))["success"] is True, "case is told apart here"


def _raw(one: Outside, place: str) -> URL:
    return URL(one.url + place, encoded=True)


async def test_a_task_ends_once_and_only_by_who_has_it(open_room: Outside) -> None:
    ann, bob = await key_of(open_room, "ends-ann"), await key_of(open_room, "ends-bob")
    kind = {"task_type": "ends", "task_description": "d"}
    made = await ann.call("submit_work", **kind, idempotency_key="k")
    assert (await ann.call("submit_work", **kind, idempotency_key="k"))["task_id"] == made["task_id"]
    reused = await ann.call("submit_work", **{**kind, "task_description": "other"}, idempotency_key="k")
    assert reused["reason"] == "idempotency_key_reused"
    task = made["task_id"]

    async def ends(client: HttpClient, **said: Any) -> tuple[bool, str | None]:
        told = await client.call("complete_work", **{"task_id": task, "success": True, **said})
        return told["success"], told.get("reason")

    assert await ends(bob) == (False, "not_yours"), "nobody has it"
    got = await ann.call("get_work", task_types=["ends"])
    assert await ends(bob) == (False, "not_yours")
    assert await ends(ann, session_id="another") == (False, "not_yours")
    assert await ends(ann, fencing_token=got["fencing_token"] + 1000) == (False, "stale_token")
    assert await ends(ann, task_id=task.upper(), result={"a": 1}) == (True, None)
    assert await ends(ann, result={"a": 1}) == (True, None), "the same again"
    assert await ends(ann, result={"a": 2}) == (False, "already_completed")
    assert await ends(ann, success=False) == (False, "already_completed")
    status, told = await ann.ask("POST", "/work/reopen", json={"task_id": task})
    assert (status, told["reason"]) == (403, "person_only")
    status, told = await open_room.ask("POST", "/work/reopen", json={"task_id": task, "reason": "look again"})
    assert (status, told["success"]) == (200, True)
    assert await ends(ann, result={"a": 1}) == (False, "stale_token"), "it was opened again"
    assert (await bob.call("get_work", task_types=["ends"]))["task_id"] == task
    assert await ends(ann, result={"a": 1}, fencing_token=got["fencing_token"]) == (False, "stale_token")
    assert await ends(bob, result={"a": 3}) == (True, None)


#: Bodies that are none: how they are sent, and what is answered.
BODIES: list[tuple[str, Mapping[str, Any], int]] = [
    ("none", {}, 400),
    ("empty", {"data": b""}, 400),
    ("no JSON", {"data": b"{x"}, 400),
    ("a list", {"data": b"[]"}, 400),
    ("a number", {"data": b"5"}, 400),
    ("no UTF-8", {"data": b'{"file_path": "\xe4"}'}, 400),
    ("NaN", {"data": b'{"file_path": "b.py", "ttl_minutes": NaN}'}, 400),
    ("beyond a float", {"data": b'{"file_path": "b.py", "ttl_minutes": 1e999}'}, 400),
    ("half a character", {"data": rb'{"file_path": "\ud800"}'}, 400),
    ("deep", {"data": b"[" * 100_000 + b"]" * 100_000}, 400),
    ("large", {"data": b'{"file_path": "' + b"a" * 3_000_000 + b'"}'}, 400),
    ("a form", {"data": {"file_path": "b.py"}}, 400),
    ("no content type", {"data": b'{"file_path": "b.py"}', "headers": {"Content-Type": ""}}, 200),
]


async def test_bodies_keys_and_identities(open_room: Outside) -> None:
    one = open_room
    client = await key_of(one, "forms")

    async def ask(method: str, path: str, key: str = client.key, **how: Any) -> tuple[int, Any]:
        headers = {"X-API-Key": key, **how.pop("headers", {})} if key else {}
        async with one.session.request(method, f"{one.url}{path}", headers=headers, **how) as response:
            said = await response.read()
            return response.status, json.loads(said) if said else None

    for what, how, status in BODIES:
        got, told = await ask("POST", "/locks/acquire", **how)
        assert got == status, (what, got, told)
        assert told["success"] is (status == 200), (what, told)
    for method, path, status in (
        ("HEAD", "/locks", 200), ("PUT", "/locks/acquire", 405), ("GET", "/locks/acquire", 405),
        ("GET", "/nothing", 404),
        ("GET", "/locks/status", 400), ("GET", "/locks/status?path=a&path=b", 400), ("GET", "/work/x", 400),
        ("GET", f"/work/{NOBODYS}", 404), ("GET", "/work/pending?limit=-1", 400), ("GET", "/who?bogus=1", 400),
    ):  # fmt: skip
        got, told = await ask(method, path)
        assert got == status, (method, path, got, told)
    # Whose key it is decides, whatever the request says.
    for said in ({"agent_id": "other"}, {"name": "other"}, {"agent_id": "FORMS"}):
        got, told = await ask("POST", "/locks/acquire", json={"file_path": "i.py", **said})
        assert (got, told["reason"]) == (403, "foreign_identity"), said
    assert (await ask("GET", "/work/pending?agent_id=other"))[0] == 403
    for path, said in (
        ("/locks/force-release", {"file_path": "i.py", "reason": "x"}), ("/keys", {"identity": "eve"}),
        ("/sessions/end", {"of": "other"}),
    ):  # fmt: skip
        got, told = await ask("POST", path, json=said)
        assert (got, told["reason"]) == (403, "scope"), path
    reader = await key_of(one, "reader", scopes=["read"])
    assert (await ask("POST", "/locks/acquire", reader.key, json={"file_path": "i.py"}))[0] == 403
    assert (await ask("GET", "/locks", reader.key))[0] == 200
    # No key, a wrong one, one that was taken back: nothing is read or written.
    status, made = await one.ask("POST", "/keys", json={"identity": "gone"})
    assert (await ask("GET", "/locks", made["key"]))[0] == 200
    assert (await one.ask("DELETE", f"/keys/{made['id']}"))[0] == 200
    for key in ("", "x", client.key[:-1], client.key + "x", client.key.swapcase(), made["key"]):
        for method, path in (("GET", "/locks"), ("POST", "/locks/acquire"), ("GET", "/openapi.json")):
            got, told = await ask(method, path, key)
            assert (got, told["reason"]) == (401, "no_credential"), (key[:6], path)
            assert str(one.folder.parent) not in json.dumps(told)
            assert "/bin/" not in json.dumps(told), "an installation's place is nobody's business"
