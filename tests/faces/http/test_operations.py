"""The operations on HTTP: who asks, what each refusal looks like, and what a key may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.access.keys import Keys
from relay.coordination.locks import wait_line
from relay.faces.http.requests.auth import owner
from relay.model import ADMIN, SCOPES, Caller, Fault, Refusal
from relay.store.ports import StoreBusy
from tests.engines import BOTH
from tests.faces.house import House, house, real_services
from tests.faces.recorder import Recorder

ANN = Caller("ann", "person-ann", "person", person=True, scopes=SCOPES | {ADMIN})


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
async def home(tmp_path: Path, seen: Recorder) -> AsyncIterator[House]:
    async with house(tmp_path, services=lambda *_: seen.services()) as one:
        yield one


async def key_of(home: House, name: str, **more: Any) -> tuple[str, dict[str, str]]:
    """Its public id, and the header that shows it."""
    made = await home.auth.keys.create(ANN, name, **more)
    return made["id"], {"X-API-Key": made["key"]}


async def test_who_asks_with_the_token(home: House, seen: Recorder) -> None:
    me = owner()
    for body, headers, agent, session, kind in (
        ({}, {}, me, f"person-{me}", "person"),
        ({"agent_id": "bot-1"}, {}, "bot-1", "person-bot-1", "agent"),
        ({"name": "ann", "agent_type": "script"}, {}, "ann", "person-ann", "script"),
        ({"agent_id": "bot-1", "session_id": "s-2"}, {}, "bot-1", "s-2", "agent"),
        ({"agent_id": "bot-1", "session_id": "s-2"}, {"X-Relay-Session": "s-2"}, "bot-1", "s-2", "agent"),
        ({"agent_id": "bot-1", "session_id": None}, {"X-Relay-Session": "s-3"}, "bot-1", "s-3", "agent"),
        ({"agent_id": "a" * 64}, {}, "a" * 64, "person-" + "a" * 64, "agent"),
    ):
        status, _, _ = await home.ask(
            "POST", "/locks/acquire", json={"file_path": "a", **body}, headers=headers
        )
        assert status == 200
        caller = seen.last[1]
        assert (caller.agent, caller.session, caller.agent_type) == (agent, session, kind)
        assert caller.person and ADMIN in caller.scopes
    for body, status, code in (
        ({"agent_id": "CLAUDE"}, 403, "reserved"),
        ({"agent_id": "claude"}, 403, "reserved"),
        ({"name": "RELAY"}, 403, "reserved"),
        ({"agent_id": "a", "name": "b"}, 400, "bad_request"),
        ({"agent_id": 7}, 400, "bad_request"),
        ({"agent_id": "a" * 65}, 400, "bad_name"),
        ({"session_id": "a/b"}, 400, "bad_session"),
        ({"agent_type": ""}, 400, "bad_request"),
    ):
        got, told, _ = await home.ask("POST", "/locks/acquire", json={"file_path": "a", **body})
        assert (got, told["error"]["code"]) == (status, code)
        assert (told["success"], told["reason"]) == (False, code)


async def test_two_sessions_that_differ_are_refused(home: House, seen: Recorder) -> None:
    body, header = {"file_path": "a", "session_id": "s-2"}, {"X-Relay-Session": "s-3"}
    both = [{"by": "X-Relay-Session", "session": "s-3"}, {"by": "session_id", "session": "s-2"}]
    twice = [*home.key.items(), ("X-Relay-Session", "s-3"), ("X-Relay-Session", "s-4")]
    for method, path, more, sessions in (
        ("POST", "/locks/acquire", {"json": body, "headers": header}, both),
        ("GET", "/who?session_id=s-2", {"headers": header}, both),
        ("POST", "/mcp?session_id=s-2", {"json": {}, "headers": header}, both),
    ):
        status, told, _ = await home.ask(method, path, **more)
        assert (status, told["reason"], told["sessions"]) == (400, "sessions_differ", sessions), path
        assert all(repr(one["session"]) in told["message"] for one in sessions) and told["fix"]
    async with home.client.get("/who", headers=twice) as response:
        assert (response.status, (await response.json())["reason"]) == (400, "sessions_differ")
    assert seen.asked == []


async def test_a_persons_session_has_an_id_whatever_the_name(home: House, seen: Recorder) -> None:
    sessions = set()
    for name in ("Jörg", "Jürg", "ann b", "ann_b"):
        status, _, _ = await home.ask("POST", "/locks/check", json={"name": name})
        assert status == 200
        sessions.add(seen.last[1].session)
    assert len(sessions) == 4


async def test_who_asks_with_a_key(home: House, seen: Recorder) -> None:
    id, key = await key_of(home, "CLAUDE", agent_type="claude_code", scopes=["locks", "read"])
    body = {"file_path": "a"}
    for more, headers in (
        ({}, {}),
        ({"agent_id": "CLAUDE", "name": "CLAUDE"}, {}),
        ({"agent_type": "person"}, {}),
    ):
        assert (await home.ask("POST", "/locks/acquire", json=body | more, headers=key | headers))[0] == 200
        caller = seen.last[1]
        assert (caller.agent, caller.session, caller.person) == ("CLAUDE", f"key-{id}", False)
        assert caller.scopes == {"locks", "read"}
    bearer = {"X-API-Key": "", "Authorization": f"Bearer {key['X-API-Key']}"}
    del bearer["X-API-Key"]
    async with home.client.get("/locks", headers=bearer) as response:
        assert response.status == 200
    for more in ({"agent_id": "ann"}, {"name": "ann"}, {"agent_id": "claude"}):
        status, told, _ = await home.ask("POST", "/locks/acquire", json=body | more, headers=key)
        assert (status, told["error"]["code"], told["success"]) == (403, "foreign_identity", False)
    status, told, _ = await home.ask("GET", "/who?agent_id=ann", headers=key)
    assert (status, told["reason"]) == (403, "foreign_identity")
    # A session of another name is no other identity: the holder is the pair.
    assert (await home.ask("GET", "/who", headers=key | {"X-Relay-Session": "person-ann"}))[0] == 200
    status, told, _ = await home.ask("POST", "/work/claim", json={}, headers=key)
    assert (status, told["reason"], told["scope"]) == (403, "scope", "work")
    await home.auth.keys.revoke(ANN, id)
    status, told, _ = await home.ask("GET", "/locks", headers=key)
    assert (status, told["reason"]) == (401, "no_credential")


async def test_without_a_good_key_there_is_nothing(home: House, seen: Recorder) -> None:
    for method, path in (
        ("POST", "/locks/acquire"),
        ("GET", "/locks"),
        ("GET", "/openapi.json"),
        ("GET", "/help"),
    ):
        for headers in ({}, {"X-API-Key": "nonsense"}, {"X-API-Key": "rk_" + "0" * 16 + "_" + "A" * 43}):
            async with home.client.request(method, path, headers=headers) as response:
                told = await response.json()
                assert (response.status, told["success"], told["error"]["code"]) == (
                    401,
                    False,
                    "no_credential",
                )
    assert seen.asked == []


async def test_each_fault_has_its_status(home: House, seen: Recorder) -> None:
    for error, status in (
        (Refusal("It is held.", "Wait.", Fault.REFUSED, "locked", details={"locked_by": "ann"}), 200),
        (Refusal("No path.", "Give one.", Fault.MALFORMED, "bad_path"), 400),
        (Refusal("Nothing.", "Look.", Fault.UNKNOWN), 404),
        (Refusal("No.", "Ask.", Fault.FORBIDDEN, "scope"), 403),
        (Refusal("Later.", "Wait.", Fault.BUSY), 503),
        (Refusal("Slower.", "Wait.", Fault.BUSY, "too_many"), 429),
        (StoreBusy("the database was locked"), 503),
    ):
        seen.answers["locks.acquire"] = error
        got, told, response = await home.ask("POST", "/locks/acquire", json={"file_path": "a"})
        assert got == status
        assert told["success"] is False
        assert told["reason"] == told["error"]["code"]
        assert set(told["error"]) == {"code", "message", "fix"}
        assert ("Retry-After" in response.headers) == (status in (503, 429))
    seen.answers["locks.acquire"] = RuntimeError("a secret")
    got, told, _ = await home.ask("POST", "/locks/acquire", json={"file_path": "a"})
    assert (got, told["reason"]) == (500, "internal")
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/locks/acquire", "{", 400, "not JSON"),
        ("POST", "/locks/acquire", "[]", 400, "not an object"),
        ("POST", "/locks/release", "", 400, "no body"),
        ("POST", "/locks/acquire", '{"file_path": "a", "agent": "x"}', 400, "Unknown field 'agent'"),
        ("POST", "/locks/acquire", '{"file_path": NaN}', 400, "file_path"),
        ("POST", "/locks/acquire?file_path=a", '{"file_path": "a"}', 400, "body"),
        ("POST", "/locks/nothing", "{}", 404, "nothing here"),
        ("PUT", "/locks/acquire", "{}", 405, "method"),
        ("GET", "/work/pending?limit=x", None, 400, "limit"),
        ("GET", "/work/pending?limit=0", None, 400, "limit"),
        ("GET", "/work/pending?limit=1&limit=2", None, 400, "2 times"),
        ("GET", "/work/pending?what=1", None, 400, "Unknown field"),
        ("GET", "/sessions?all=yes", None, 400, "all"),
        ("GET", "/locks/status", None, 400, "path is missing"),
        ("GET", "/locks/status/x?path=y", None, 400, "in the path and in the query"),
        ("GET", "/locks/status/%ff", None, 400, "not UTF-8"),
        ("GET", "/locks/status/a/%C3", None, 400, "not UTF-8"),
        ("GET", "/locks/status?path=%ff", None, 400, "not UTF-8"),
        ("GET", "/locks/status/a%00", None, 400, "NUL"),
        ("GET", "/locks/status?path=%00", None, 400, "NUL"),
        ("GET", "/room/messages?cursor=abc", None, 400, "cursor"),
        ("GET", "/help/love", None, 404, "no help"),
        ("GET", "/api/metrics?days=0", None, 400, "days"),
        ("GET", "/api/metrics?days=7.0", None, 400, "days"),
    ],
)
async def test_what_is_wrong_says_so(
    home: House, method: str, path: str, body: str | None, status: int, says: str
) -> None:
    got, told, _ = await home.ask(method, path, data=body)
    assert got == status
    assert says in told["error"]["message"]
    assert (told["success"], told["reason"]) == (False, told["error"]["code"])


async def test_a_number_that_may_be_left_out_is_a_number_in_a_query(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        for query, days in (("", None), ("?days=7", 7)):
            status, told, _ = await home.ask("GET", f"/api/metrics{query}")
            assert (status, told["success"], told["days"]) == (200, True, days)
            assert told["metrics"][0]["name"] == "lock_conflicts" and told["metrics"][0]["value"] is None


async def test_a_path_arrives_as_it_was_meant(home: House, seen: Recorder) -> None:
    for path, meant in (
        ("/locks/status/src/app.py", "src/app.py"),
        ("/locks/status/src%2Fapp.py", "src/app.py"),
        ("/locks/status/a%2520b", "a%20b"),
        ("/locks/status/%C3%BCber/a,b&c.py", "über/a,b&c.py"),
        ("/locks/status/app/%5Bid%5D/page.tsx", "app/[id]/page.tsx"),
        ("/locks/status/123", "123"),
        ("/locks/status/%25ff", "%ff"),
        ("/locks/status/a?path=a", "a"),
        ("/locks/status?path=..%2F..%2Fx", "../../x"),
        ("/locks/status?path=api:GET%20/v1/users", "api:GET /v1/users"),
    ):
        from yarl import URL

        url = URL(f"http://{home.at}{path}", encoded=True)
        async with home.client.session.get(url, headers=home.key) as response:
            assert response.status == 200
        assert seen.last[2] == (meant,)
    await home.ask("GET", "/locks?file_paths=a&file_paths=b")
    assert seen.last[2] == (["a", "b"],)
    for path in ("/work/claim", "/work/get"):
        assert (await home.ask("POST", path))[0] == 200, "a body may be left out where nothing is required"
    async with home.client.head("/locks", headers=home.key) as response:
        assert response.status == 200


async def test_a_key_keeps_to_its_scopes_at_the_rooms_own_routes(home: House, seen: Recorder) -> None:
    _, agent = await key_of(home, "CLAUDE")
    _, mute = await key_of(home, "reader", scopes=["read"])
    _, person = await key_of(home, "bea", agent_type="person", scopes=["read", "room", "work"])
    _, admin = await key_of(home, "ops", agent_type="person", scopes=["admin"])
    for method, path, body, allowed in (
        ("GET", "/api/state", None, {"agent", "mute", "person"}),
        ("POST", "/api/messages", {"body": "hi"}, {"agent", "person"}),
        ("POST", "/api/tasks", {"title": "x"}, {"person"}),
        ("POST", "/api/agents/CLAUDE/pause", {}, {"admin"}),
        ("PATCH", "/api/agents/CLAUDE", {"model": "x"}, {"admin"}),
        # Its session would outlive the key, and speak for any person.
        ("POST", "/api/links", {}, set()),
        ("POST", "/api/queue/1/retry", {}, {"admin"}),
        ("POST", "/locks/force-release", {"file_path": "a", "reason": "r"}, {"admin"}),
    ):
        for name, key in {"agent": agent, "mute": mute, "person": person, "admin": admin}.items():
            status, told, _ = await home.ask(method, path, json=body, headers=key)
            if name in allowed:
                assert status < 300, (path, name, told)
            else:
                assert (status, told["reason"]) == (403, "scope"), (path, name)
                assert told["error"]["fix"]
    # A key opens no session of the page, which would have no scopes.
    status, told, _ = await home.ask("POST", "/api/sign-in", json={"key": agent["X-API-Key"]})
    assert (status, told["reason"]) == (401, "bad_key")


async def test_an_agents_key_speaks_as_its_agent(home: House, seen: Recorder) -> None:
    id, key = await key_of(home, "CLAUDE")
    status, told, _ = await home.ask("POST", "/api/messages", json={"body": "done"}, headers=key)
    assert (status, told) == (201, {"id": "m", "cursor": "1", "number": 1})
    what, caller, args, _ = seen.last
    assert (what, caller.agent, caller.session, caller.person) == ("room.post", "CLAUDE", f"key-{id}", False)
    assert args == ("done",)
    status, told, _ = await home.ask("POST", "/api/messages", json={"body": "x", "name": "ann"}, headers=key)
    assert (status, told["reason"]) == (403, "foreign_identity")
    async with home.ws(headers=key) as socket:
        await socket.send_json({"after": None, "name": "ann"})
        assert (await socket.receive()).data == 4400
    async with home.ws(headers=key) as socket:
        await socket.send_json({"after": None, "name": "CLAUDE"})
        assert (await socket.receive_json())["type"] == "hello"
        await home.auth.keys.revoke(ANN, id)
        while (last := await socket.receive()).type.name == "TEXT":
            pass
        assert last.data == 4401, "a connection ends with its key"


async def test_a_list_that_is_too_long_says_where_it_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        paths = [f"docs/{number}.md" for number in range(120)]
        assert (await home.ask("POST", "/locks/acquire", json={"file_paths": paths}))[0] == 200
        status, page, response = await home.ask("GET", "/locks")
        assert (status, len(page)) == (200, 100)
        cursor = response.headers["X-Next-Cursor"]
        status, rest, response = await home.ask("GET", f"/locks?cursor={cursor}&limit=50")
        assert (status, len(rest)) == (200, 20) and "X-Next-Cursor" not in response.headers
        assert len((await home.ask("GET", "/locks?limit=1000"))[1]) == 120
        assert (await home.ask("GET", "/locks?limit=0"))[0] == 400


@BOTH
async def test_who_waits_with_a_key_that_is_revoked_or_over_gets_nothing(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        wait = {"file_path": "src/a.py", "wait_seconds": 200}
        assert (await home.ask("POST", "/locks/acquire", json={"file_path": "src"}))[0] == 200
        ends, by_http = await key_of(home, "EVE")
        _, by_mcp = await key_of(home, "FAY", expires="1m")
        _, stays = await key_of(home, "GIL")
        call = {"name": "acquire_lock", "arguments": wait}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"Accept": "application/json, text/event-stream", "X-Relay-Session": "named-2"}
        line = []
        for who, path, body, headers in (
            ("EVE", "/locks/acquire", wait, by_http | {"X-Relay-Session": "named-1"}),
            ("FAY", "/mcp", message, by_mcp | accept),
            ("GIL", "/locks/acquire", wait, stays),
        ):
            line.append(asyncio.create_task(home.ask("POST", path, json=body, headers=headers)))
            await _in_line(home, lambda names, who=who: names[-1:] == [who])
        # One is revoked by another process, one runs out; the line moves up.
        await Keys(home.store).revoke(ANN, ends)
        status, told, _ = await asyncio.wait_for(line[0], 10)
        assert (status, told["success"], told["reason"]) == (401, False, "bad_key")
        assert "revoked" in told["message"] and told["fix"]
        await _in_line(home, lambda names: names == ["FAY", "GIL"])
        home.clock.now += 60
        await home.ask("POST", "/locks/acquire", json={"file_path": "src"})
        status, text, _ = await asyncio.wait_for(line[1], 10)
        answer = json.loads(next(one for one in text.splitlines() if one.startswith("data: {"))[6:])["result"]
        told = answer["structuredContent"]
        assert status == 200 and answer["isError"] and told["reason"] == "bad_key"
        assert "expired" in told["message"]
        assert (await home.ask("POST", "/locks/release", json={"file_path": "src"}))[0] == 200
        status, told, _ = await asyncio.wait_for(line[2], 10)
        assert (status, told["success"], told["locks"][0]["locked_by"]) == (200, True, "GIL")
        held = (await home.ask("GET", "/locks"))[1]
        assert [one["locked_by"] for one in held] == ["GIL"]


async def test_what_is_a_persons_alone_is_refused_to_an_agents_key_with_every_scope(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        every = [*SCOPES, ADMIN]
        _, agent = await key_of(home, "EVE", scopes=every)
        _, person = await key_of(home, "bea", agent_type="person", scopes=every)
        _, gil = await key_of(home, "GIL", scopes=every)
        mine = {"file_path": "g", "session_id": "gil-1"}
        await home.ask("POST", "/locks/acquire", json=mine, headers=gil)
        for path, body in (
            ("/locks/force-release", {"file_path": "a", "reason": "mine"}),
            ("/keys", {"identity": "fay", "key_type": "person"}),
            ("/sessions/end", {"of": "GIL", "session_id": "gil-1"}),
        ):
            await home.ask("POST", "/locks/acquire", json={"file_path": "a"})
            status, told, _ = await home.ask("POST", path, json=body, headers=agent)
            assert (status, told["reason"] in ("forbidden", "person_only")) == (403, True), path
            assert "EVE is an agent" in told["message"] and told["fix"]
            assert (await home.ask("POST", path, json=body, headers=person))[1]["success"], path
        told = (await home.ask("POST", "/locks/release", json=mine, headers=gil))[1]
        assert (told["reason"], told["forced_by"]) == ("stale_token", "bea"), "whose session she ended"
        done = {"summary": "s", "files": ["g"], "session_id": "gil-1"}
        assert (await home.ask("POST", "/changesets", json=done, headers=gil))[1]["reason"] == "stale_token"
        # A key that is revoked, and its session with it.
        its, key = await key_of(home, "GIL")
        await home.ask("POST", "/locks/acquire", json={"file_path": "k"}, headers=key)
        assert (await home.ask("DELETE", f"/keys/{its}", headers=person))[0] == 200
        again = {"file_path": "k", "session_id": f"key-{its}"}
        told = (await home.ask("POST", "/locks/release", json=again, headers=gil))[1]
        assert (told["reason"], told["forced_why"]) == ("stale_token", "its key was revoked")
        assert (await home.ask("POST", "/keys", json={"identity": "fay"}, headers=agent))[1]["success"]


async def _in_line(home: House, right: Callable[[list[str]], bool]) -> None:
    """Until those stand in line who should."""
    wakeup = home.store.wakeup()
    while not right([one.agent for one in await home.store.read(wait_line.line)]):
        assert await wakeup.wait(10)
    wakeup.close()
