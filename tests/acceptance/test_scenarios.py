"""The scenarios of document 004 that stand, by name: through MCP over stdio and through HTTP, on every store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio

from relay.coordination.writes.changesets import MOST_SUMMARY
from tests.acceptance.clients import AgentClient, HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import Outside, eventually, room, settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS_OF_THE_SOURCE = {
    "acquire_lock",
    "release_lock",
    "check_locks",
    "remember",
    "recall",
    "get_work",
    "complete_work",
    "submit_work",
}


@dataclass(frozen=True)
class House:
    """A room, and agents at one kind of interface."""

    room: Outside
    alice: AgentClient
    bob: AgentClient


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(STORES))
async def open_room(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Outside]:
    """A running room on each store."""
    folder = tmp_path_factory.mktemp("room")
    async with STORES[request.param](folder) as (more, env), room(folder, settings(**more)) as one:
        one.env.update(env)
        await one.start()
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["mcp", "http"])
async def house(request: pytest.FixtureRequest, open_room: Outside) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        clients: list[AgentClient] = []
        for agent in (f"alice-{request.param}", f"bob-{request.param}"):
            if request.param == "http":
                clients.append(await HttpClient.open(open_room, agent))
                continue
            client = await McpClient.open(open_room, agent)
            stack.push_async_callback(client.close)
            clients.append(client)
        yield House(open_room, *clients)


def new_path() -> str:
    return f"src/{uuid.uuid4().hex[:12]}.py"


def new_type() -> str:
    return f"type-{uuid.uuid4().hex[:12]}"


def moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    assert at.tzinfo is not None, f"{text} has no offset"
    return at


# -- Requirement: File Locking


async def test_agent_acquires_file_lock_successfully(house: House) -> None:
    path = new_path()
    got = await house.alice.call("acquire_lock", file_path=path, reason="refactoring", ttl_minutes=5)
    assert (got["success"], got["action"]) == (True, "acquired")
    ahead = moment(got["expires_at"]).timestamp() - datetime.now().timestamp()
    assert 200 < ahead <= 301
    again = await house.alice.call("acquire_lock", file_path=f"./{path}")
    assert (again["success"], again["action"]) == (True, "refreshed")
    assert (await house.bob.call("acquire_lock", file_path=path))["success"] is False


async def test_agent_attempts_to_lock_already_locked_file(house: House) -> None:
    path = new_path()
    held = await house.alice.call("acquire_lock", file_path=path)
    told = await house.bob.call("acquire_lock", file_path=path)
    assert (told["success"], told["action"], told["locked_by"]) == (False, "blocked", house.alice.agent)
    assert moment(told["expires_at"]) == moment(held["expires_at"])


async def test_lock_expires_automatically(house: House) -> None:
    path = new_path()
    await house.alice.call("acquire_lock", file_path=path, ttl_minutes=1 / 60)

    async def free() -> Any:
        got = await house.bob.call("acquire_lock", file_path=path)
        return got if got["success"] else None

    got = await eventually(free, "the lock's end")
    assert got["action"] == "acquired"
    late = await house.alice.call("release_lock", file_path=path)
    assert late["success"] is False


async def test_agent_releases_lock(house: House) -> None:
    path = new_path()
    await house.alice.call("acquire_lock", file_path=path)
    assert [lock["locked_by"] for lock in await house.bob.call("check_locks", file_paths=[path])] == [
        house.alice.agent
    ]
    released = await house.alice.call("release_lock", file_path=path)
    assert (released["success"], released["released"]) == (True, True)
    assert await house.bob.call("check_locks", file_paths=[path]) == []
    assert (await house.bob.call("acquire_lock", file_path=path))["action"] == "acquired"


# -- Requirement: Episodic Memory


async def test_agent_stores_episodic_memory(house: House) -> None:
    word = f"word{uuid.uuid4().hex[:10]}"
    stored = await house.alice.call(
        "remember",
        event_type="fix",
        summary=f"The cache went stale on {word}",
        details={"file": "src/cache.py"},
        outcome="success",
        lessons=["invalidate on write"],
        tags=["cache"],
    )
    assert stored["success"] is True
    assert uuid.UUID(stored["memory_id"])
    found = await house.bob.call("recall", task_description=word)
    assert len(found) == 1 and "invalidate on write" in found[0]["content"]


async def test_duplicate_memory_detection(house: House) -> None:
    summary = f"Twice the same {uuid.uuid4().hex[:10]}"
    one = await house.alice.call("remember", event_type="fix", summary=summary, lessons=["a"], tags=["x"])
    two = await house.alice.call("remember", event_type="fix", summary=summary, lessons=["b"], tags=["y"])
    assert one["memory_id"] == two["memory_id"]
    other = await house.bob.call("remember", event_type="fix", summary=summary)
    assert other["memory_id"] != one["memory_id"]
    found = await house.alice.call("recall", task_description=summary.rsplit(maxsplit=1)[-1])
    assert len(found) == 2
    merged = next(one for one in found if one["lessons"])
    assert (merged["lessons"], merged["tags"]) == (["a", "b"], ["x", "y"])


async def test_agent_retrieves_relevant_memories(house: House) -> None:
    word = f"topic{uuid.uuid4().hex[:10]}"
    for text in ("login form", "login form of the shop", "payment"):
        await house.alice.call("remember", event_type="task", summary=f"{word} {text}", tags=[word])
    found = await house.bob.call("recall", task_description=f"{word} login", tags=[word], limit=2)
    assert len(found) == 2
    assert all(one["memory_type"] == "episodic" and "login" in one["content"] for one in found)
    relevances = [one["relevance"] for one in found]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= one <= 1 for one in relevances)


# -- Requirement: Working Memory


async def forgotten(client: AgentClient) -> None:
    for item in (await client.call("working_memory"))["items"]:
        await client.call("working_memory", content="", key=item["key"])


async def test_agent_updates_working_memory(house: House) -> None:
    await forgotten(house.alice)
    word = f"word{uuid.uuid4().hex[:10]}"
    stored = await house.alice.call(
        "working_memory", content=f"The goal is {word}", critical=True, key="goal"
    )
    assert stored["success"] is True
    await house.alice.call("working_memory", content="Step 1 is done")
    await house.alice.call("working_memory", content=f"The goal is still {word}", critical=True, key="goal")
    told = await house.alice.call("working_memory")
    assert [item["content"] for item in told["items"]] == [f"The goal is still {word}", "Step 1 is done"]
    assert told["items"][0] == {
        "key": "goal",
        "content": f"The goal is still {word}",
        "critical": True,
        "compressed": False,
    }
    assert (told["compressed"], told["removed"], told["budget"]) == (False, [], 8000)
    assert 0 < told["tokens"] < 40
    # It is of this session: another agent neither reads it nor finds it.
    assert word not in str(await house.bob.call("working_memory"))
    assert word not in str(await house.bob.call("recall", task_description=word))


async def test_working_memory_compression(house: House) -> None:
    await forgotten(house.alice)
    rule = "Never touch the public API."
    await house.alice.call("working_memory", content=rule, critical=True, key="rule")
    notes = [f"Step {at}. " + f"The file src/part{at}.py was read. " * 100 for at in range(14)]
    for at, note in enumerate(notes):
        told = await house.alice.call("working_memory", content=note, key=f"s{at}")
        assert told["tokens"] <= told["budget"]
    held = {item["key"]: item for item in told["items"]}
    assert held["rule"]["content"] == rule and held["s13"]["content"] == notes[13].strip()
    assert list(held) == [key for key in ("rule", *(f"s{at}" for at in range(14))) if key in held]
    assert told["compressed"] is True and held["s0"]["compressed"] is True
    assert len(held["s0"]["content"]) < len(notes[0])
    # Everything is in the log, for its own session.
    shown = await house.alice.call("timeline", what="show", moment=told["removed"][0])
    assert shown["event"]["outputs"]["note"]["content"] == notes[0].strip()
    hidden = await house.bob.call("timeline", what="show", moment=told["removed"][0])
    assert hidden["event"]["outputs"] is None and "src/part0.py" not in str(hidden)
    # What is critical is not given up, and not more of it than fits is taken.
    refused = await house.alice.call("working_memory", content="word " * 8000, critical=True)
    assert (refused["success"], refused["reason"]) == (False, "over_budget")
    assert await house.alice.call("working_memory") == told
    await forgotten(house.alice)


# -- Requirement: Procedural Memory


async def test_procedural_skill_tracking(house: House) -> None:
    kind = new_type()
    for success in (True, True, False):
        told = await house.alice.call(
            "skill", task_type=kind, name="bisect", success=success, steps=["halve"]
        )
    assert told["success"] is True
    [skill] = told["skills"]
    assert (skill["name"], skill["task_type"], skill["uses"], skill["successes"]) == ("bisect", kind, 3, 2)
    assert skill["steps"] == ["halve"]
    # The end of a task counts for the skill that it was done by, and counts once.
    await submit(house.alice, kind)
    task = (await house.bob.call("get_work", task_types=[kind]))["task_id"]
    await house.bob.call("skill", task_type=kind, name="read the log", success=True)
    for _ in range(2):
        done = await house.bob.call("complete_work", task_id=task, success=True, skill="read the log")
        assert done["success"] is True
    listed = (await house.bob.call("skill", task_type=kind))["skills"]
    assert [(one["name"], one["uses"], one["successes"]) for one in listed] == [
        ("read the log", 1, 1),
        ("bisect", 3, 2),
    ]
    scores = [one["effectiveness"] for one in listed]
    assert scores == sorted(scores, reverse=True) and all(0 < score < 1 for score in scores)
    # A failed task is a failure of what it names.
    await submit(house.alice, kind)
    task = (await house.bob.call("get_work", task_types=[kind]))["task_id"]
    await house.bob.call("complete_work", task_id=task, success=False, skill="read the log")
    [after] = (await house.bob.call("skill", task_type=kind, name="read the log"))["skills"]
    assert (after["uses"], after["successes"]) == (2, 1) and after["effectiveness"] < scores[0]
    # Writers at once are all counted.
    calls = {"task_type": kind, "name": "both", "success": True}

    async def use(client: AgentClient) -> None:
        for _ in range(4):
            await client.call("skill", **calls)

    await asyncio.gather(use(house.alice), use(house.bob))
    [both] = (await house.bob.call("skill", task_type=kind, name="both"))["skills"]
    assert (both["uses"], both["successes"]) == (8, 8)


# -- 003, section 7.4: cross-agent queries


async def known(client: AgentClient, **asked: Any) -> list[Any]:
    told = await client.call("knowledge", **asked)
    assert told["success"] is True
    return list(told["entries"])


async def say(client: AgentClient, word: str, *lines: str) -> None:
    """Post lines of knowledge that have the word, and wait until they are taken in."""
    before = len(await known(client, about=word, limit=100))
    await client.call("post_message", body="\n".join(lines))

    async def taken_in() -> bool:
        return len(await known(client, about=word, limit=100)) == before + len(lines)

    await eventually(taken_in, "the follower takes it in")


def new_word() -> str:
    return f"word{uuid.uuid4().hex[:8]}"


async def test_query_agent_decisions(house: House) -> None:
    """What did Agent A decide about the database?"""
    word = new_word()
    await say(
        house.alice,
        word,
        f"DECISION: use PostgreSQL for the {word} instead of SQLite because rows are locked",
        f"FACT: the {word} is large",
    )
    await say(house.bob, word, f"DECISION: the {word} is named relay")
    [entry] = await known(house.bob, agent=house.alice.agent, kind="decision", about=word)
    assert entry.keys() >= {
        *("id", "knowledge_type", "content", "source_agent", "source_event", "topics", "related_files"),
        *("confidence", "references", "created_at", "validated_at", "is_valid", "rationale", "alternatives"),
        *("severity", "for_problem", "valid_from", "valid_to", "visibility", "visible_to", "extracted_by"),
        *("read_by", "referenced_by"),
    }
    assert (entry["source_agent"], entry["knowledge_type"]) == (house.alice.agent, "decision")
    assert (entry["rationale"], entry["alternatives"]) == ("rows are locked", ["SQLite"])
    read = (await known(house.alice, near=entry["id"]))[0]["read_by"]
    assert house.bob.agent in {reader["agent"] for reader in read}


async def test_query_file_history(house: House) -> None:
    """What modifications were made to file X?"""
    word, path = new_word(), new_path()
    await say(house.alice, word, f"CONSTRAINT (file {path}): {word} stays small")
    await say(house.bob, word, f"SOLUTION: {word} is parted in `{path}`", f"FACT: {word} elsewhere")
    history = await known(house.alice, file=path)
    assert [entry["source_agent"] for entry in history] == [house.bob.agent, house.alice.agent]
    assert all(entry["related_files"] == [path] for entry in history)
    assert [entry["knowledge_type"] for entry in await known(house.bob, file=path, kind="constraint")] == [
        "constraint"
    ]


async def test_query_by_topic(house: House) -> None:
    """What does Agent B know about authentication?"""
    word = new_word()
    await say(house.alice, word, f"FACT (topic {word}): keys are hashed")
    await say(house.bob, word, f"PATTERN: each route asks for its scope #{word}")
    [entry] = await known(house.alice, about=word, agent=house.bob.agent)
    assert (entry["topics"], entry["knowledge_type"]) == ([word], "pattern")
    assert len(await known(house.alice, about=word)) == 2


async def test_ingest_event(house: House) -> None:
    """What an agent says is taken in once, with the event that it comes from; a solution names its problem."""
    word = new_word()
    await say(house.alice, word, f"PROBLEM (high): the {word} races", f"SOLUTION: a lock for the {word}")
    [problem] = await known(house.bob, about=word, kind="problem")
    [solution] = await known(house.bob, about=word, kind="solution")
    assert problem["source_event"] == solution["source_event"]
    assert (problem["severity"], solution["for_problem"]) == ("high", problem["id"])
    told = await house.bob.call("knowledge", near=problem["id"])
    assert told["relations"] == [{"source": solution["id"], "relation": "solves", "target": problem["id"]}]


async def test_visibility(house: House) -> None:
    """003, section 7.6: who may read what; and what supersedes an entry closes it, and it stays."""
    word = new_word()
    lines = [
        f"DECISION: use PostgreSQL for the {word}",
        f"PROBLEM (private): the {word} is mine",
        f"CONTRACT (shared with {house.bob.agent}): the {word} is ours",
    ]
    await say(house.alice, word, *lines)
    assert {entry["knowledge_type"] for entry in await known(house.bob, about=word)} == {
        "decision",
        "contract",
    }
    [private] = await known(house.alice, about=word, kind="problem")
    assert "entries" not in await refused(house.bob, near=private["id"])
    [decision] = await known(house.bob, kind="decision", about=word)
    as_of = decision["valid_from"]
    await say(
        house.bob,
        word,
        f"DECISION: use SQLite for the {word} instead of PostgreSQL (supersedes {decision['id']})",
    )
    newest, older = await known(house.alice, about=word, kind="decision")
    assert (newest["source_agent"], newest["is_valid"], older["id"], older["is_valid"]) == (
        *(house.bob.agent, True),
        *(decision["id"], False),
    )
    told = await house.alice.call("knowledge", near=older["id"])
    assert told["relations"] == [{"source": newest["id"], "relation": "supersedes", "target": older["id"]}]
    assert [entry["id"] for entry in await known(house.alice, about=word, kind="decision", as_of=as_of)] == [
        older["id"]
    ]


async def refused(client: AgentClient, **asked: Any) -> Any:
    """What an interface answers where there is no such entry."""
    if isinstance(client, HttpClient):
        status, told = await client.ask("POST", "/knowledge", json=asked)
        assert status == 404
        return told
    assert isinstance(client, McpClient)
    result = await client.request("tools/call", {"name": "knowledge", "arguments": asked})
    assert result["isError"] is True
    return result


# -- Requirement: Work Queue


async def submit(client: AgentClient, kind: str, **more: Any) -> str:
    made = await client.call("submit_work", task_type=kind, task_description="do it", **more)
    assert made["success"] is True
    return str(uuid.UUID(made["task_id"]))


async def test_agent_claims_task_from_queue(house: House) -> None:
    kind = new_type()
    await submit(house.alice, kind, priority=7)
    urgent = await submit(house.alice, kind, priority=1, input_data={"file": "a.py", "n": 3})
    got = await house.bob.call("get_work", task_types=[kind])
    assert (got["success"], got["task_id"], got["task_type"]) == (True, urgent, kind)
    assert (got["task_description"], got["input_data"]) == ("do it", {"file": "a.py", "n": 3})


async def test_no_tasks_available(house: House) -> None:
    told = await house.bob.call("get_work", task_types=[new_type()])
    assert (told["success"], told["task_id"]) == (True, None)


async def test_agent_completes_task(house: House) -> None:
    kind = new_type()
    first = await submit(house.alice, kind)
    then = await submit(house.alice, kind, depends_on=[first])
    await house.bob.call("get_work", task_types=[kind])
    done = await house.bob.call("complete_work", task_id=first, success=True, result={"lines": 3})
    assert (done["success"], done["status"]) == (True, "completed")
    assert (await house.alice.call("get_work", task_types=[kind]))["task_id"] == then
    failed = await house.alice.call("complete_work", task_id=then, success=False, error_message="no")
    assert (failed["success"], failed["status"]) == (True, "failed")


async def test_agent_submits_new_task(house: House) -> None:
    kind = new_type()
    task = await submit(house.alice, kind, input_data=["x"], priority=10)
    board = {one["id"]: one for one in (await house.room.get("/api/tasks"))["tasks"]}
    assert board[task]["priority"] == 10
    assert board[task]["created_by"] == house.alice.agent


async def test_task_with_unmet_dependencies(house: House) -> None:
    kind, other = new_type(), new_type()
    first = await submit(house.alice, other)
    await submit(house.alice, kind, depends_on=[first], priority=1)
    assert (await house.bob.call("get_work", task_types=[kind]))["task_id"] is None


# -- Requirement: MCP Server Interface


async def test_local_agent_connects_via_mcp(house: House) -> None:
    local = await McpClient.open(house.room, f"local-{uuid.uuid4().hex[:8]}")
    listed = await local.request("tools/list")
    assert await local.close() == 0
    names = [tool["name"] for tool in listed["tools"]]
    assert set(names) >= TOOLS_OF_THE_SOURCE
    assert len(names) == 25


async def test_mcp_resource_access(house: House) -> None:
    local = await McpClient.open(house.room, f"local-{uuid.uuid4().hex[:8]}")
    path, kind = new_path(), new_type()
    await house.alice.call("acquire_lock", file_path=path)
    task = await submit(house.alice, kind)
    assert path in str(await local.resource("locks://current"))
    assert task in str(await local.resource("work://pending"))
    assert await local.close() == 0


# -- Requirement: HTTP API Interface


async def test_cloud_agent_acquires_lock_via_http(house: House) -> None:
    cloud = await HttpClient.open(house.room, f"cloud-{uuid.uuid4().hex[:8]}")
    path = new_path()
    status, told = await cloud.ask("POST", "/locks/acquire", json={"file_path": path})
    assert (status, told["success"], told["action"]) == (200, True, "acquired")
    status, told = await cloud.ask("GET", f"/locks/status/{path}")
    assert (status, told["locked"]) == (200, True)
    assert (await house.alice.call("acquire_lock", file_path=path))["locked_by"] == cloud.agent


async def test_invalid_api_key(house: House) -> None:
    cloud = await HttpClient.open(house.room, f"cloud-{uuid.uuid4().hex[:8]}")
    for key in ("", "wrong", cloud.key[:-1]):
        for method, path in (
            ("POST", "/locks/acquire"),
            ("GET", "/locks/status/a.py"),
            ("GET", "/work/pending"),
        ):
            body = {"json": {"file_path": "a.py"}} if method == "POST" else {}
            status, told = await cloud.ask(method, path, key=key, **body)
            assert (status, told["success"]) == (401, False), (key, path)
    status, told = await cloud.ask(
        "POST", "/locks/acquire", json={"file_path": new_path(), "agent_id": house.alice.agent}
    )
    assert (status, told["error"]["code"]) == (403, "foreign_identity")


# -- Requirement: Database Persistence


async def test_atomic_lock_acquisition(house: House) -> None:
    """Eight agents want one path at once: one gets it, seven are told by whom it is held."""
    clients = [await HttpClient.open(house.room, f"c{number}-{uuid.uuid4().hex[:6]}") for number in range(8)]
    path = new_path()
    told = await asyncio.gather(*(client.call("acquire_lock", file_path=path) for client in clients))
    (holder,) = [client.agent for client, one in zip(clients, told, strict=True) if one["success"]]
    blocked = [one for one in told if not one["success"]]
    assert [one["locked_by"] for one in blocked] == [holder] * 7
    assert all(moment(one["expires_at"]) for one in blocked)


async def test_atomic_task_claiming(house: House) -> None:
    """Twenty tasks, both agents with two loops each: each task is given once."""
    kind = new_type()
    wanted = {await submit(house.alice, kind) for _ in range(20)}

    async def loop(client: AgentClient) -> list[str]:
        got = []
        while (task := (await client.call("get_work", task_types=[kind]))["task_id"]) is not None:
            got.append(task)
            await client.call("complete_work", task_id=task, success=True)
        return got

    # A process answers in the order of the questions here: one loop each where lines are shared.
    each = 2 if isinstance(house.alice, HttpClient) else 1
    given = await asyncio.gather(*(loop(client) for client in (house.alice, house.bob) for _ in range(each)))
    every = [task for one in given for task in one]
    assert len(every) == 20 and set(every) == wanted


# -- Requirement: Agent Sessions


async def test_session_tracking(house: House) -> None:
    await house.alice.call("check_locks")
    status, told = await house.room.ask("GET", "/sessions")
    assert status == 200
    (mine,) = [one for one in told if one["agent_id"] == house.alice.agent]
    assert mine["alive"] is True
    assert moment(mine["started_at"]) <= moment(mine["heartbeat_at"])
    assert mine["ended_at"] is None


async def test_changesets_are_associated_with_sessions(house: House) -> None:
    cloud = await HttpClient.open(house.room, f"cloud-{uuid.uuid4().hex[:8]}")
    own = f"own-{uuid.uuid4().hex[:8]}"
    status, made = await cloud.ask(
        "POST",
        "/changesets",
        json={"summary": "a change", "files": [new_path()], "session_id": own},
    )
    assert (status, made["success"]) == (200, True), made
    for wrong in ("", " ", "x" * (MOST_SUMMARY + 1)):
        status, refused = await cloud.ask("POST", "/changesets", json={"summary": wrong, "files": ["a"]})
        assert (status, refused["reason"]) == (400, "bad_summary"), "by one rule, whichever is broken"
    longest = {"summary": "x" * MOST_SUMMARY, "files": ["src/**"]}
    assert (await cloud.ask("POST", "/changesets", json=longest))[0] == 200, "what the schema allows is kept"
    status, listed = await cloud.ask("GET", f"/changesets?session={own}")
    assert [one["changeset_id"] for one in listed] == [made["changeset_id"]]
    other = await HttpClient.open(house.room, f"cloud-{uuid.uuid4().hex[:8]}")
    for only in (f"session={own}", f"agent={cloud.agent}&session={own}"):
        status, shared = await other.ask("GET", f"/changesets?{only}")
        assert (status, shared) == (200, listed), "the room shares them"
    assert (await other.ask("GET", f"/changesets?agent={other.agent}"))[1] == []
    status, sessions = await cloud.ask("GET", "/sessions")
    assert own in {one["session_id"] for one in sessions if one["agent_id"] == cloud.agent}
