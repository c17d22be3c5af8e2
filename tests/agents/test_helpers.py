"""What the programs tell of their helpers: streams that were recorded from the real programs, and parts of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from relay.agents.acp.helpers import tell, used_by
from relay.agents.app_server.told import ToldTurn
from relay.agents.process.helpers import Helpers
from relay.agents.registry import presets
from relay.model import BriefPart, DebriefPart, Part, ToolPart, UsagePart

RECORDED = Path(__file__).parent / "recorded"
BRIEF = "Count the files of the project and say how many."
CODEX = "01a2079f-047c-7393-9e2c-0d093a21ec2b"
GEMINI = "invoke_agent__invoke_agent_1795424073994_0"


def replay(name: str) -> list[Part]:
    return read(name.partition("-")[0], (RECORDED / f"{name}.jsonl").read_text().splitlines())


def read(preset: str, lines: list[str]) -> list[Part]:
    stream = presets()[preset].stream()
    return [part for line in lines for part in stream.read(line)]


def of_helpers(parts: list[Part]) -> list[Part]:
    return [part for part in parts if isinstance(part, BriefPart | DebriefPart)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "claude-helper",
            [
                BriefPart("toolu_1", BRIEF, "general-purpose"),
                DebriefPart("toolu_1", "There are 2 files."),
            ],
        ),
        ("codex-helper", [BriefPart(CODEX, BRIEF), DebriefPart(CODEX, "There are 2 files.")]),
        # Gemini tells no result.
        ("gemini-helper", [BriefPart(GEMINI, BRIEF, "generalist"), DebriefPart(GEMINI)]),
    ],
)
def test_a_recorded_helper(name: str, parts: list[Part]) -> None:
    assert of_helpers(replay(name)) == parts


def test_what_a_helper_uses_is_told_as_its_own() -> None:
    tools = [part for part in replay("claude-helper") if isinstance(part, ToolPart)]
    assert [(part.name, part.helper) for part in tools] == [("Agent", None), ("Glob", "toolu_1")]


def agent(call: str, by: str | None = None, tool: str = "Agent") -> str:
    block = {"type": "tool_use", "id": call, "name": tool, "input": {"prompt": f"do {call}"}}
    return json.dumps(
        {"type": "assistant", "parent_tool_use_id": by, "message": {"id": "m", "content": [block]}}
    )


def answer(call: str, by: str | None = None, *, response: Any = None, **more: Any) -> str:
    block = {
        "type": "tool_result",
        "tool_use_id": call,
        "content": [{"type": "text", "text": f"did {call}"}],
        **more,
    }
    event = {
        "type": "user",
        "parent_tool_use_id": by,
        "message": {"content": [block]},
        "tool_use_result": response,
    }
    return json.dumps(event)


def test_claude_waits_for_a_helper_of_the_foreground() -> None:
    """As `Task` before 2.1.63, and as `Agent` where it is told to wait: the tool's result is the helper's."""
    for tool in ("Task", "Agent"):
        parts = read("claude", [agent("t1", tool=tool), answer("t1", response={"status": "completed"})])
        assert of_helpers(parts) == [BriefPart("t1", "do t1"), DebriefPart("t1", "did t1")]


def test_a_helper_that_is_refused_has_failed() -> None:
    parts = read("claude", [agent("t1"), answer("t1", is_error=True)])
    assert of_helpers(parts) == [BriefPart("t1", "do t1"), DebriefPart("t1", "did t1", failed=True)]


def test_a_helper_of_a_helper() -> None:
    parts = read("claude", [agent("t1"), agent("t2", "t1"), answer("t2", "t1"), answer("t1")])
    assert of_helpers(parts) == [
        BriefPart("t1", "do t1"),
        BriefPart("t2", "do t2", "", "t1"),
        DebriefPart("t2", "did t2"),
        DebriefPart("t1", "did t1"),
    ]


def test_a_task_of_the_background_that_is_no_helper() -> None:
    started = {"type": "system", "subtype": "task_started", "task_type": "local_bash", "tool_use_id": "t1"}
    over = {"type": "system", "subtype": "task_notification", "tool_use_id": "t1", "status": "completed"}
    assert of_helpers(read("claude", [json.dumps(started), json.dumps(over)])) == []


def test_codex_asks_a_helper_again() -> None:
    def call(tool: str, status: str, prompt: str | None = None, message: str | None = None) -> str:
        item = {
            "id": "i",
            "type": "collab_tool_call",
            "tool": tool,
            "sender_thread_id": "main",
            "receiver_thread_ids": ["h"],
            "prompt": prompt,
            "agents_states": {"h": {"status": status, "message": message}},
        }
        return json.dumps({"type": "item.completed", "item": item})

    lines = [
        call("spawn_agent", "pending_init", "one"),
        call("wait", "running"),
        call("wait", "completed", message="1"),
        call("send_input", "running", "two"),
        call("close_agent", "shutdown"),
    ]
    assert of_helpers(read("codex", lines)) == [
        BriefPart("h", "one"),
        DebriefPart("h", "1"),
        BriefPart("h", "two"),
        DebriefPart("h", "", failed=True),
    ]


def test_codex_tells_of_a_helper_of_its_second_way() -> None:
    """As its app-server does with `multi_agent_v2` (0.169.0): the hook's question comes by the hook itself."""

    def item(thread: str, **item: object) -> tuple[str, dict[str, object]]:
        return "item/completed", {"threadId": thread, "turnId": "t", "item": {"id": "i", **item}}

    def active(kind: str) -> tuple[str, dict[str, object]]:
        told = {"kind": kind, "agentThreadId": "h", "agentPath": "/root/count_files"}
        return item("main", type="subAgentActivity", **told)

    def used(thread: str, whole: int) -> tuple[str, dict[str, object]]:
        usage = {"inputTokens": 120, "cachedInputTokens": 20, "outputTokens": 9}
        told = {"last": usage, "total": {"inputTokens": whole}}
        return "thread/tokenUsage/updated", {"threadId": thread, "turnId": "t", "tokenUsage": told}

    told = ToldTurn()
    told.opened("main")
    told.turn = "t"
    change = {"path": "a.py", "kind": {"type": "update"}}
    parts: list[Part] = []
    for method, params in (
        used("main", 120),
        active("started"),
        item("h", type="fileChange", changes=[change], status="completed"),
        used("h", 120),
        used("h", 120),  # told again
        item("h", type="agentMessage", text="Two."),
        active("completed"),
        item("main", type="agentMessage", text="There are two."),
    ):
        parts += told.tell(method, params)
    assert of_helpers(parts) == [BriefPart("h", "count_files"), DebriefPart("h", "Two.")]
    assert [(part.paths, part.helper) for part in parts if isinstance(part, ToolPart)] == [(("a.py",), "h")]
    assert [part for part in parts if isinstance(part, UsagePart)][-1] == UsagePart(
        200, 18, cache_read_tokens=40
    )
    assert told.changes == {"i": ("a.py",)} and told.answer == "There are two."


def test_a_recorded_helper_over_acp() -> None:
    """The adapter tells of a helper of the background that it began; its end it does not tell."""
    helpers, parts, by = Helpers(), list[Part](), []
    for line in (RECORDED / "claude-acp-helper.jsonl").read_text().splitlines():
        update = schema.SessionNotification.model_validate(json.loads(line)["params"]).update
        assert isinstance(update, schema.ToolCallStart | schema.ToolCallProgress)
        parts += tell(helpers, update)
        by.append(used_by(helpers, update))
    assert parts == [BriefPart("toolu_1", BRIEF, "general-purpose")]
    assert by[-1] == "toolu_1"


def test_helpers_over_acp_that_are_waited_for() -> None:
    claude = {"claudeCode": {"toolName": "Agent"}}
    updates: list[schema.ToolCallStart | schema.ToolCallProgress] = [
        schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id="t1",
            title="Task",
            raw_input={"prompt": "count", "subagent_type": "Explore"},
            field_meta=claude,
        ),
        schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id="t1",
            status="completed",
            raw_output=[{"type": "text", "text": "two"}],
            field_meta=claude,
        ),
        schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=f"{GEMINI}",
            title="Delegating to agent 'generalist'",
            status="in_progress",
        ),
        schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=GEMINI, status="failed"),
    ]
    helpers = Helpers()
    assert [part for update in updates for part in tell(helpers, update)] == [
        BriefPart("t1", "count", "Explore"),
        DebriefPart("t1", "two"),
        BriefPart(GEMINI, "Delegating to agent 'generalist'"),
        DebriefPart(GEMINI, failed=True),
    ]
