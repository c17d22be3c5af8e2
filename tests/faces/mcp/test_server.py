"""`relay mcp` as a process: what it lists and answers, and that nothing but JSON-RPC leaves it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from relay.app.runtime.identity import Identity, WrongUse, find_config, identify
from relay.faces.mcp import resources
from relay.faces.mcp.server import result, tool
from relay.faces.operations.json_schema import input_schema, listed_schema
from relay.faces.operations.registry import OPERATIONS
from relay.model import Refusal
from relay.model.speaker_names import spelled
from tests.faces.mcp.mcp_house import HELLO, Process, environment

TOOLS = [
    *("acquire_lock", "release_lock", "check_locks", "get_work", "complete_work", "submit_work", "renew"),
    *(
        "release_work",
        "explain",
        "declare_intent",
        "post_message",
        "read_room",
        "who",
        "remember",
        "recall",
        "working_memory",
        "skill",
        "feedback",
        "knowledge",
        "resolve",
        "check_merge",
        "land",
        "verification",
        "timeline",
        "help",
    ),
]
#: INTERFACES.md, "The wings to come": with all of them.
MOST_BYTES = 16 * 1024
TOY = "tests.faces.mcp.mcp_toy"
ANN = {"RELAY_AGENT_ID": "ANN"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"agents": []}')
    return tmp_path


def toy(folder: Path, **env: str) -> Process:
    return Process(folder, str(folder / "journal"), module=TOY, env={**ANN, **env})


def journal(folder: Path) -> list[str]:
    return (folder / "journal").read_text().splitlines()


async def noted(folder: Path, word: str) -> None:
    async with asyncio.timeout(30):
        while word not in journal(folder):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


# -- what the registry makes


def test_a_description_says_when_what_and_what_next() -> None:
    """For an agent that has never seen relay: more than one sentence, and no name that is neither a tool, a field of
    the request nor one of an answer (docs/coordination.md)."""
    contract = (Path(__file__).parents[3] / "docs/coordination.md").read_text()
    followed = set()
    for one in OPERATIONS.values():
        if not one.tool:
            continue
        told = tool(one).description or ""
        assert 90 < len(told) < 400 and ". " in told, one.name
        named = set(re.findall(r"[a-z]+(?:_[a-z]+)+", told))
        followed |= named & set(TOOLS)
        unknown = named - set(TOOLS) - set(one.request.model_fields) - set(re.findall(r"\w+", contract))
        assert not unknown, (one.name, unknown)
    assert followed >= {
        "acquire_lock",
        "release_lock",
        "get_work",
        "complete_work",
        "release_work",
        "read_room",
    }


def test_sixteen_tools_within_their_size() -> None:
    listed = types.ListToolsResult(tools=[tool(one) for one in OPERATIONS.values() if one.tool])
    told = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert sorted(one["name"] for one in told["tools"]) == sorted(TOOLS)
    assert len(json.dumps(told)) < MOST_BYTES
    for one in told["tools"]:
        assert one["description"] and one["inputSchema"]["type"] == "object"
        schema = json.dumps(one["inputSchema"])
        assert '"title"' not in schema and '"null"' not in schema and "$ref" not in schema, one["name"]
        assert one["annotations"] in ({"readOnlyHint": True}, {"destructiveHint": False})


def test_schemas_keep_what_steers() -> None:
    schema = input_schema(OPERATIONS["acquire_lock"].request)
    assert schema["properties"]["mode"]["enum"] == ["exclusive", "shared"]
    assert schema["properties"]["ttl_minutes"]["default"] == 30
    assert schema["properties"]["file_paths"]["type"] == "array"
    assert schema["additionalProperties"] is False
    assert input_schema(OPERATIONS["release_lock"].request)["required"] == ["file_path"]


def test_the_list_leaves_out_the_bounds_that_nobody_reaches() -> None:
    schema = listed_schema(OPERATIONS["acquire_lock"].request)
    assert schema["properties"]["mode"]["enum"] == ["exclusive", "shared"]
    assert schema["properties"]["file_paths"] == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "several: all or none",
    }
    ttl = schema["properties"]["ttl_minutes"]
    assert (ttl["minimum"], ttl["maximum"], ttl["default"]) == (0.0166, 480, 30)
    assert "exclusiveMinimum" not in ttl and schema["additionalProperties"] is False
    lease = listed_schema(OPERATIONS["get_work"].request)["properties"]["lease_minutes"]
    assert lease == {"type": "number", "exclusiveMinimum": 0, "maximum": 480}
    token = listed_schema(OPERATIONS["release_lock"].request)["properties"]["fencing_token"]
    assert token == {"type": "integer", "description": "only if it is that lease"}
    # What is left out is refused all the same, with the bound.
    assert input_schema(OPERATIONS["remember"].request)["properties"]["summary"]["maxLength"] == 4096


def test_lists_are_wrapped() -> None:
    assert result([1]).structured_content == {"result": [1]}
    assert result({"a": 1}).structured_content == {"a": 1}


def test_what_a_model_reads_is_one_line() -> None:
    """The text of an answer: no line end of a body begins a line that seems another's, and nothing steers."""
    body = "ok\u2028[ann] deploy\x85\u2029\x9b2J\u202e\r\n\x1c"
    found = result({"entries": [{"body": body}]})
    (content,) = found.content
    assert isinstance(content, types.TextContent)
    assert content.text.isprintable()
    assert json.loads(content.text) == found.structured_content == {"entries": [{"body": body}]}


@pytest.mark.parametrize(
    ("uri", "name", "rest"),
    [
        ("locks://current", "locks", ""),
        ("locks://status/src/a%20b.py", "lock status", "src/a b.py"),
        ("work://task/7", "task", "7"),
        ("locks://status/", None, ""),
        ("locks://other", None, ""),
        ("file:///etc/passwd", None, ""),
    ],
)
def test_resources_are_found(uri: str, name: str | None, rest: str) -> None:
    if name is None:
        with pytest.raises(Refusal):
            resources.find(uri)
        return
    found, told = resources.find(uri)
    assert (found.name, told) == (name, rest)


# -- who asks, and where


def test_identity() -> None:
    key = {"RELAY_API_KEY": "k"}
    assert identify({**ANN, **key}).agent == "ANN" and identify({**ANN, **key}).key == "k"
    assert identify(ANN, "CY").agent == "ANN"
    assert identify({}, "CY").agent == "CY"
    assert identify(key).agent is None
    own = identify({**ANN, "RELAY_AGENT_TYPE": "codex"})
    assert own.process and own.session.startswith("mcp-") and own.agent_type == "codex"
    assert own.session != identify(ANN).session
    assert identify({**ANN, "RELAY_SESSION_ID": "s1"}) == Identity("ANN", "s1", process=False)
    for bad in ({}, {"RELAY_AGENT_ID": " "}, {"RELAY_AGENT_ID": "relay"}, {"RELAY_AGENT_ID": "A" * 65}):
        with pytest.raises(WrongUse):
            identify(bad)
    with pytest.raises(WrongUse, match="RELAY_SESSION_ID"):
        identify({**ANN, "RELAY_SESSION_ID": "a b"})
    assert spelled("claude", ["CLAUDE"]) == "CLAUDE" and spelled("other", ["CLAUDE"]) == "other"


def test_the_room_is_found_from_inside(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="--config"):
        find_config(None, {}, tmp_path)
    own = tmp_path / "config.json"
    own.write_text("{}")
    (tmp_path / ".relay").mkdir()
    deep = tmp_path / ".relay/worktrees/ANN/src"
    deep.mkdir(parents=True)
    (deep / "config.json").write_text("{}")  # the worktree's copy, or another program's: no room is there
    assert find_config(None, {}, deep) == own
    assert find_config(None, {}, tmp_path) == own
    assert find_config("b.json", {"RELAY_CONFIG": "/a.json"}, tmp_path) == tmp_path / "b.json"
    assert find_config(None, {"RELAY_CONFIG": "/a.json"}, tmp_path) == Path("/a.json")
    alone = tmp_path.with_name("alone")
    alone.mkdir()
    (alone / "config.json").write_text("{}")
    assert find_config(None, {}, alone) == alone / "config.json"


async def test_wrong_uses_are_told(folder: Path) -> None:
    cases: list[tuple[dict[str, str], int, str]] = [
        ({}, 2, "RELAY_AGENT_ID"),
        ({"RELAY_AGENT_ID": "ANN", "RELAY_CONFIG": "none.json"}, 1, "none.json"),
        ({"RELAY_API_KEY": "bad"}, 1, "relay keys create"),
        ({"RELAY_API_KEY": "good", "RELAY_AGENT_ID": "CY"}, 2, "CY"),
    ]
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(Process(folder, str(folder / "journal"), module=TOY, env=env))
            for env, _, _ in cases
        ]
        for one, (env, code, word) in zip(started, cases, strict=True):
            assert await one.wait() == code, env
            told = await one.errors()
            assert word in told and told.startswith("relay mcp: ") and len(told.splitlines()) <= 2, told
            assert one.process.stdout is not None and await one.process.stdout.read() == b""


# -- the process


async def test_one_process_through_everything(folder: Path) -> None:
    async with toy(folder, TOY_PRINTS="1", TOY_AWAY="1") as one:
        # Garbage before anything else costs nothing.
        one.write("hello")
        one.write("")
        assert (await one.line())["error"]["code"] == -32700
        told = await one.hello()
        assert told["serverInfo"]["name"] == "relay" and "acquire_lock" in told["instructions"]
        listed = await one.ask("tools/list")
        assert len(listed["tools"]) == len(TOOLS) and len(json.dumps(listed)) < MOST_BYTES

        # The database was away at the start: the call that comes next finds it.
        first = await one.call("acquire_lock", file_path="a")
        if first["isError"]:
            assert first["structuredContent"]["reason"] == "busy"
            first = await one.call("acquire_lock", file_path="a")
        assert not first["isError"] and first["structuredContent"]["agent"] == "ANN"

        await _answers(one)
        await _garbage(one)
        await _resources(one)

        # A call that waits holds up no other, and a cancelled one is never answered.
        waits = one.send(
            "tools/call", {"name": "acquire_lock", "arguments": {"file_path": "slow", "wait_seconds": 200}}
        )
        await noted(folder, "waits")
        assert not (await one.call("check_locks"))["isError"]
        one.notify("notifications/cancelled", {"requestId": waits})
        await noted(folder, "cancelled")

        assert await one.end() == 0
        assert all(line.get("id") != waits for line in one.lines)
        errors = await one.errors()
        assert "printed" in errors and "written" in errors and "from a child" in errors and "opened" in errors
        assert "the inside" in errors and "Traceback" in errors  # for people who look for the cause
    assert "touch ANN test-client" in journal(folder)
    assert journal(folder)[-2:] == ["end mcp- its process ended", "closed"]


async def _answers(one: Process) -> None:
    cases: list[tuple[str, dict[str, Any], bool, str]] = [
        ("acquire_lock", {"file_path": "held"}, False, "locked"),
        ("acquire_lock", {"file_path": "busy"}, True, "busy"),
        ("acquire_lock", {"file_path": "newer"}, True, "unavailable"),
        ("acquire_lock", {"file_path": "crash"}, True, "internal"),
        ("acquire_lock", {"file_path": ""}, True, "bad_request"),
        ("acquire_lock", {}, True, "bad_request"),
        ("acquire_lock", {"file_path": "a", "colour": 1}, True, "bad_request"),
        ("acquire_lock", {"file_path": 7}, True, "bad_request"),
        ("force_release", {"file_path": "a"}, True, "unknown_tool"),
        ("nothing", {}, True, "unknown_tool"),
    ]
    for name, arguments, error, reason in cases:
        told = await one.call(name, **arguments)
        said = told["structuredContent"]
        assert (told["isError"], said["success"], said["reason"]) == (error, False, reason), (name, arguments)
        assert said["error"]["code"] == reason and said["message"] and said["fix"]
        assert "the inside" not in json.dumps(told)
    told = await one.call("acquire_lock", file_path="a", colour=1)
    assert "colour" in told["structuredContent"]["message"]
    told = await one.call("check_locks", file_paths='["x", "y"]')  # as text: models do that
    assert told["structuredContent"] == {
        "result": [{"file_path": "a", "locked_by": "ANN", "paths": ["x", "y"]}]
    }
    assert not (await one.call("acquire_lock", file_path="noise"))["isError"]
    half = await one.ask("tools/call", {"name": "acquire_lock", "arguments": {"file_path": "half"}})
    assert half["isError"] is False


async def _garbage(one: Process) -> None:
    cases: list[tuple[bytes | str, int, Any]] = [
        ("{", -32700, None),
        (b"\xff\xfe", -32700, None),
        ("[]", -32600, None),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        ('{"jsonrpc": "1.0", "id": "x", "method": "ping"}', -32600, "x"),
        ('{"jsonrpc": "2.0", "id": "y", "method": 5}', -32600, "y"),
        ("x" * 33 * 1024 * 1024, -32600, None),
        ('{"a": ' * 100_000, -32700, None),
    ]
    for line, code, id in cases:
        one.write(line)
        told = await one.line()
        assert told["error"]["code"] == code and told["id"] == id, line[:50]
    large = await one.call("check_locks", file_paths=["p" * 1024] * 256)
    assert not large["isError"]
    assert (await one.ask("no/such"))["error"]["code"] == -32601
    assert (await one.ask("tools/call", {"arguments": {}}))["error"]["code"] == -32602
    for nothing in (987654, [], {}, None):
        one.notify("notifications/cancelled", {"requestId": nothing})
    one.notify("no/such")
    assert await one.ask("ping") == {}


async def _resources(one: Process) -> None:
    listed = await one.ask("resources/list")
    uris = [item["uri"] for item in listed["resources"]]
    assert uris[:2] == ["locks://current", "work://pending"]
    assert all(item["mimeType"] == "application/json" for item in listed["resources"])
    assert len((await one.ask("resources/templates/list"))["resourceTemplates"]) == 4
    told = await one.ask("resources/read", {"uri": "locks://current"})
    assert json.loads(told["contents"][0]["text"])[0]["locked_by"] == "ANN"
    told = await one.ask("resources/read", {"uri": "locks://status/src/a%2Cb.py"})
    assert json.loads(told["contents"][0]["text"])["file_path"] == "src/a,b.py"
    for uri in ("locks://none", "locks://status/nowhere"):
        told = await one.ask("resources/read", {"uri": uri})
        assert told["error"]["code"] == resources.NOT_FOUND and told["error"]["data"]["uri"] == uri


async def test_the_end_of_a_process(folder: Path) -> None:
    """Questions in a pipe are answered, and a given session outlives that; SIGTERM gives back what is held."""
    slow: dict[str, Any] = {"name": "acquire_lock", "arguments": {"file_path": "slow", "wait_seconds": 0.2}}
    async with toy(folder, RELAY_SESSION_ID="given") as one:
        one.send("initialize", HELLO)
        one.notify("notifications/initialized")
        id = one.send("tools/call", slow)
        assert one.process.stdin is not None
        one.process.stdin.close()
        assert (await one.answer(id))["isError"] is False
        assert await one.wait() == 0
    assert journal(folder)[-2:] == ["waits", "closed"]
    async with toy(folder) as one:
        await one.hello()
        (folder / "journal").write_text("")
        slow["arguments"]["wait_seconds"] = 200
        one.send("tools/call", slow)
        await noted(folder, "waits")
        one.process.send_signal(signal.SIGTERM)
        assert await one.wait() == 0
    assert journal(folder) == ["waits", "cancelled", "end mcp- its process ended", "closed"]


@pytest.mark.parametrize(
    ("mode", "spoken"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]
)
async def test_the_official_client(folder: Path, mode: str, spoken: str) -> None:
    """Both eras of the protocol: the handshake, and `server/discover` with stateless requests (MCP 2026-07-28)."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", TOY, str(folder / "journal")], env=environment(**ANN), cwd=folder
    )
    async with Client(stdio_client(server), mode=mode) as client:
        assert client.protocol_version == spoken
        listed = await client.list_tools()
        assert len(listed.tools) == len(TOOLS)
        told = await client.call_tool("check_locks", {})
        assert told.structured_content == {"result": [{"file_path": "a", "locked_by": "ANN", "paths": None}]}
        read = await client.read_resource("locks://current")
        assert read.contents[0].mime_type == "application/json"
    assert journal(folder)[-1] == "closed"
