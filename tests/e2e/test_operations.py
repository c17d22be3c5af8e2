"""Every operation once, on HTTP, in a room that was just made; and the routes by their own document."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from relay.faces.http.reference.openapi import document
from relay.faces.operations.registry import OPERATIONS
from tests.e2e.conftest import Open
from tests.git.repository import repository
from tests.outside import ECHO, Outside, agent


class Visitor:
    """Asks over HTTP and notes which operations answered."""

    def __init__(self, room: Outside) -> None:
        self.room, self.used = room, set[str]()

    async def ask(
        self, name: str, /, *, place: str = "", headers: dict[str, str] | None = None, **body: Any
    ) -> Any:
        operation = OPERATIONS[name]
        path = operation.path
        if place:
            path = path[: path.index("{")] + quote(place, safe="")
        how: dict[str, Any] = {"headers": headers or {"X-API-Key": self.room.token}}
        if operation.method == "POST":
            how["json"] = body
        elif body:
            path += "?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in body.items())
        async with self.room.session.request(operation.method, f"{self.room.url}{path}", **how) as response:
            told = await response.json()
            assert response.status == 200, (name, response.status, told)
        model = operation.result
        for one in told if operation.result_list else [told]:
            model.model_validate(one)
        self.used.add(name)
        return told


async def test_every_operation_once_in_a_new_room(open_room: Open) -> None:
    room = await open_room(agent("CLAUDE"), files={"echo.yaml": ECHO})
    visitor = Visitor(room)
    ask = visitor.ask

    # A person makes a key; what follows is the agent's.
    made = await ask("create_key", identity="CLAUDE", key_type="claude_code", expires="1d", note="for a test")
    key = {"X-API-Key": made["key"]}
    session = {**key, "X-Relay-Session": "s-1"}

    got = await ask(
        "acquire_lock", headers=session, file_path="./src//app.py", reason="to mend it", ttl_minutes=1
    )
    assert (got["success"], got["action"], got["file_path"]) == (True, "acquired", "src/app.py")
    assert (await ask("acquire_lock", headers=session, file_path="src/app.py"))["action"] == "refreshed"
    blocked = await ask("acquire_lock", file_path="src", agent_id="bot-7", session_id="s-7")
    assert (blocked["success"], blocked["action"], blocked["locked_by"]) == (False, "blocked", "CLAUDE")
    assert blocked["expires_at"]
    held = await ask("check_locks", headers=key)
    assert [(one["file_path"], one["locked_by"]) for one in held] == [("src/app.py", "CLAUDE")]
    assert (await ask("lock_status", place="src/app.py"))["locked"] is True
    assert (await ask("renew", headers=session, kind="lock", id="src/app.py"))["success"] is True
    assert (await ask("renew_lock", headers=session, file_path="src/app.py", ttl_minutes=60))[
        "success"
    ] is True
    assert await ask("explain", kind="lock", id="src")
    assert await ask("explain_lock", file_path="src/app.py")
    assert (await ask("declare_intent", headers=session, paths=["src/app.py"]))["paths"] == ["src/app.py"]
    recorded = await ask("record_changeset", headers=session, summary="Mend it.", files=["src/app.py"])
    assert recorded["success"] is True
    assert [one["changeset_id"] for one in await ask("list_changesets")] == [recorded["changeset_id"]]
    released = await ask(
        "release_lock", headers=session, file_path="src/app.py", fencing_token=got["fencing_token"]
    )
    assert (released["success"], released["released"]) == (True, True)
    await ask("acquire_lock", headers=session, file_path="docs/**")
    assert (await ask("force_release_lock", file_path="docs/**", reason="a person wants it"))[
        "success"
    ] is True

    first = await ask(
        "submit_work", task_type="code", task_description="one", input_data={"n": 1}, priority=1
    )
    second = await ask("submit_work", task_type="code", task_description="two", depends_on=[first["task_id"]])
    assert [(one["task_id"], one["status"]) for one in await ask("pending_work")] == [
        (first["task_id"], "pending")
    ]
    assert await ask("list_work", status="open")
    assert await ask("explain_work", headers=key, task_id=second["task_id"])
    claimed = await ask("get_work", headers=session, task_types=["code"])
    assert (claimed["task_id"], claimed["input_data"]) == (first["task_id"], {"n": 1})
    assert (await ask("renew_claim", headers=session, task_id=first["task_id"]))["success"] is True
    assert (await ask("release_work", headers=session, task_id=first["task_id"]))["success"] is True
    assert (await ask("set_needs", task_id=second["task_id"], depends_on=[]))["success"] is True
    claimed = await ask("get_work", headers=session)
    assert claimed["task_id"] == second["task_id"]
    done = await ask(
        "complete_work", headers=session, task_id=second["task_id"], success=True, result={"ok": True}
    )
    assert (done["success"], done["status"]) == (True, "completed")
    ended = await ask("show_task", place=second["task_id"])
    assert (ended["status"], ended["column"], "state" in ended) == ("completed", "done", False)
    assert (await ask("reopen_work", task_id=second["task_id"], reason="look again"))["success"] is True

    kept = await ask(
        "remember",
        headers=session,
        event_type="error",
        summary="the parser fails",
        lessons=["look"],
        tags=["py"],
    )
    found = await ask("recall", headers=session, task_description="mend the parser", tags=["py"])
    assert [one["memory_id"] for one in found] == [kept["memory_id"]]
    shown = await ask("show_memory", headers=session, place=kept["memory_id"])
    assert shown["summary"] == "the parser fails"
    assert (await ask("feedback", headers=session, memory_id="r1", useful=True))["success"] is True
    brought = await ask(
        "import_memories", lines=[{"event_type": "note", "summary": "what was kept elsewhere"}]
    )
    assert (brought["imported"], brought["refused"]) == (1, [])
    assert (await ask("forget", headers=session, memory_id=kept["memory_id"]))["success"] is True
    noted = await ask("working_memory", headers=session, content="read the parser first", critical=True)
    assert [one["content"] for one in noted["items"]] == ["read the parser first"]
    assert (await ask("read_working_memory", headers=session))["items"] == noted["items"]
    counted = await ask("skill", headers=session, task_type="code", name="read first", success=True)
    assert (await ask("list_skills", headers=session, task_type="code"))["skills"] == counted["skills"]
    assert (await ask("knowledge", headers=session))["entries"] == []

    handed = await ask("tell_change", headers=session, summary="I mended the parser", delivery_id="d-1")
    status = await ask("verification_status", headers=session, place=handed["changeset_id"])
    assert (status["agent"], status["source"], status["approvals"]) == ("CLAUDE", "agent", [])
    looked = (await ask("verification", headers=session))["verifications"]
    assert [one["reference"] for one in looked] == [handed["reference"]]

    landing = await ask("land", headers=session)
    assert (landing["agent"], landing["state"]) == ("CLAUDE", "asked")
    policy = {"name": "unit", "tier": 1, "executor": "inline", "patterns": ["*"], "run": ["true"]}
    assert (await ask("make_policy", **policy))["policy"]["name"] == "unit"
    assert [one["name"] for one in await ask("list_policies", headers=session)] == ["unit"]
    assert (await ask("drop_policy", place="unit"))["success"] is True
    measured = await ask("metrics", headers=session)
    assert "time_to_land" in json.dumps(measured)

    said = await ask("post_message", headers=session, body="I mended `src/app.py`.", client_id="once")
    page = await ask("read_room", headers=session)
    assert said["id"] in [one["id"] for one in page["entries"]]
    assert (await ask("who", headers=session))["you"]["session_id"] == "s-1"
    assert "POST /locks/force-release" in (await ask("help", topic="locks"))["text"]
    assert (await ask("heartbeat", headers=session))["session_id"] == "s-1"
    living = await ask("list_sessions")
    assert ("CLAUDE", "s-1") in [(one["agent_id"], one["session_id"]) for one in living]
    assert (await ask("end_session", headers=session))["success"] is True
    shown = {one["id"]: one for one in await ask("list_keys")}
    assert shown[made["id"]]["used_at"]
    assert (await ask("acquire_lock", headers=key, file_path="src/of-the-key.py"))["success"]
    assert (await ask("revoke_key", place=made["id"]))["state"] == "revoked"
    assert await ask("check_locks", file_paths=["src/of-the-key.py"]) == [], "its session ended with it"
    assert isinstance((await ask("timeline", what="log"))["events"], list)
    assert await ask("conflicts") == []
    repository(room.folder, {"kept.txt": "one\ntwo\n"})
    checked = await ask("check_merge", a="main", b="HEAD")
    assert (checked["conflicts"], checked["not_run"]) == ([], [4])
    blamed = await ask("blame", path="kept.txt")
    assert blamed["shares"] == [{"kind": "person", "who": "Ann", "lines": 2}]
    # A conflict comes of a merge (tests/merge); of one that is not there this says so.
    answer = {"headers": {"X-API-Key": room.token}, "json": {"id": "c1", "text": "x = 1\n"}}
    async with room.session.post(f"{room.url}/conflicts/answer", **answer) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")
    assert visitor.used == set(OPERATIONS) - {"resolve"}
    async with room.session.get(f"{room.url}/who", headers=key) as response:
        assert response.status == 401

    # What an agent said through the database is in the file too, and in the document are all the routes.
    assert said["id"] in [one["id"] for _, one in room.file_lines() if isinstance(one, dict)]
    status, told = await room.ask("GET", "/openapi.json")
    assert status == 200
    assert set(told["paths"]) == set(document()["paths"])
    for path, methods in told["paths"].items():
        async with room.session.options(
            f"{room.url}{re.sub(r'{[a-z_]+}', '1', path)}", headers={"X-API-Key": room.token}
        ) as response:
            assert response.status == 405, path
            allowed = response.headers["Allow"].split(",")
        assert {method.upper() for method in methods} == set(allowed) - {"HEAD"}, path


#: What every answer must be, whatever was asked.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


#: What a request must be for the route to take it: all of it stands in the document.
ACCEPTED = ("positive_data_acceptance", "negative_data_rejection", "unsupported_method", *CHECKS)
#: A tenth of the routes, one of each kind; all of them by hand (docs/http.md).
SOME = ("/keys", "/locks/renew", "/work/needs", "/api/queue", "/api/guard", "/api/tasks/{number}")


async def test_what_the_document_takes_the_routes_take_and_nothing_else(open_room: Open) -> None:
    """At the edges of each schema: every bound, every null, every field left out, every other method."""
    room = await open_room(agent("CLAUDE"), files={"echo.yaml": ECHO})
    told = json.loads(json.dumps(document()))
    told["paths"] = {path: told["paths"][path] for path in SOME}
    out = await _schemathesis(room, told, ACCEPTED, "--phases", "coverage", "--generation-codec", "latin-1")
    assert "No issues found" in out


async def test_whatever_is_asked_the_answer_is_as_the_document_says(open_room: Open) -> None:
    room = await open_room(agent("CLAUDE"), files={"echo.yaml": ECHO})
    told = json.loads(json.dumps(document()))
    for path, methods in told["paths"].items():
        # What people do in the room is known to it by its own tests; here it would send agents to work.
        for method in [one for one in methods if path.startswith("/api/") and one != "get"]:
            del methods[method]
    acquire = told["paths"]["/locks/acquire"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    acquire["properties"]["wait_seconds"]["maximum"] = 0.05
    out = await _schemathesis(room, told, CHECKS, "--phases", "fuzzing", "--max-examples", "4")
    assert "No issues found" in out


async def _schemathesis(room: Outside, told: Any, checks: tuple[str, ...], *more: str) -> str:
    """What it says of this document and that room; AssertionError when it finds anything."""
    (room.folder / "openapi.json").write_text(json.dumps(told))
    words = ["run", "openapi.json", "--url", room.url, "--header", f"X-API-Key:{room.token}", "--no-color"]
    words += ["--checks", ",".join(checks), "--seed", "4", "--no-shrink", "--warnings", "off", *more]
    run = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        *words,
        cwd=room.folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(run.communicate(), 120)
    assert run.returncode == 0, out.decode()[-6000:]
    return out.decode()
