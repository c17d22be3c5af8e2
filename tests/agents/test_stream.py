"""The parsers over streams that were recorded from the real programs, and over broken ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.agents.process.failure import classify
from relay.agents.process.stream import Stream, tool
from relay.agents.registry import presets, stream_of
from relay.base.child_process import Exit
from relay.model import FailureClass, Location, LogPart, Part, SessionPart, TextPart, ToolPart, UsagePart

RECORDED = Path(__file__).parent / "recorded"
NOW = datetime(2026, 11, 22, 1, 6, 7, tzinfo=UTC)


def replay(name: str) -> tuple[Stream, list[Part]]:
    stream = stream_of(name.split("-", maxsplit=1)[0])()
    parts: list[Part] = []
    for line in (RECORDED / f"{name}.jsonl").read_text().splitlines():
        parts += stream.read(line)
    return stream, parts


@pytest.mark.parametrize(
    ("name", "text", "tools", "usage"),
    [
        ("claude-answer", "Hello there.", [], UsagePart(12, 9, 0.000228)),
        (
            "claude-tool",
            "Let me look.\n\nHello there.",
            [
                ToolPart(
                    "Read", "/project/a.txt", ("/project/a.txt",), (Location("/project/a.txt", writes=False),)
                )
            ],
            UsagePart(24, 29, 0.0006760000000000001),
        ),
        ("codex-answer", "Hello there.", [], UsagePart(100, 9, cache_read_tokens=20)),
        (
            "codex-tool",
            "Let me look.\n\nHello there.",
            [ToolPart("shell", "/bin/bash -lc 'echo x > /project/x.txt'")],
            UsagePart(200, 18, cache_read_tokens=40),
        ),
        (
            "gemini-tool",
            "Let me look.\n\nHello there.",
            [
                ToolPart(
                    "read_file",
                    "/project/a.txt",
                    ("/project/a.txt",),
                    (Location("/project/a.txt", writes=False),),
                )
            ],
            UsagePart(200, 18),
        ),
    ],
)
def test_a_recorded_answer(name: str, text: str, tools: list[ToolPart], usage: UsagePart) -> None:
    stream, parts = replay(name)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == text
    assert [part for part in parts if isinstance(part, ToolPart)] == tools
    assert [part for part in parts if isinstance(part, UsagePart)][-1] == usage
    assert [part.id for part in parts if isinstance(part, SessionPart)] == [stream.session]
    assert (stream.answer, stream.completed, stream.error) == ("Hello there.", True, None)


#: What each program says of a turn that wrote 7 tokens into a cache and read 1000 from it.
CACHED = {
    "claude": '{"type":"result","is_error":false,"result":"ok","session_id":"s","total_cost_usd":0.5,"usage":'
    '{"input_tokens":3,"cache_creation_input_tokens":7,"cache_read_input_tokens":1000,"output_tokens":5}}',
    "codex": '{"type":"turn.completed","usage":{"input_tokens":1010,"cached_input_tokens":1000,'
    '"cache_write_input_tokens":7,"output_tokens":5,"reasoning_output_tokens":2}}',
    # The thoughts are in the total alone, and Gemini CLI tells of no writing.
    "agy": '{"event":"result","result":{"conversation_id":"c","status":"SUCCESS","response":"ok","usage":'
    '{"input_tokens":10,"cache_read_tokens":1000,"output_tokens":5,"thinking_tokens":2}}}',
    "gemini": '{"type":"result","status":"success","stats":{"total_tokens":1015,"input_tokens":1010,'
    '"output_tokens":3,"cached":1000,"input":10}}',
}


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("claude", UsagePart(3, 5, 0.5, cache_write_tokens=7, cache_read_tokens=1000)),
        ("codex", UsagePart(3, 5, cache_write_tokens=7, cache_read_tokens=1000)),
        ("gemini", UsagePart(10, 5, cache_read_tokens=1000)),
        ("agy", UsagePart(10, 5, cache_read_tokens=1000)),
    ],
)
def test_the_kinds_of_tokens_are_counted_apart(name: str, usage: UsagePart) -> None:
    said = [part for part in stream_of(name)().read(CACHED[name]) if isinstance(part, UsagePart)]
    assert said == [usage]
    assert usage.counted == 15


def agy(*events: dict[str, object]) -> tuple[Stream, list[Part]]:
    stream, parts = stream_of("agy")(), list[Part]()
    for event in events:
        parts += stream.read(json.dumps(event))
    return stream, parts


def test_an_answer_of_agy() -> None:
    def step(index: int, kind: str, state: str, **more: object) -> dict[str, object]:
        told = {"step_index": index, "step_type": kind, "state": state, **more}
        return {"event": "step_update", "conversation_id": "c-1", "step_update": told}

    info = {"name": "replace_file_content", "parameters": {"TargetFile": "/project/a.py", "Instruction": "x"}}
    stream, parts = agy(
        {"event": "init", "conversation_id": "c-1", "init": {"cwd": "/project", "permission_mode": "plan"}},
        step(0, "user_input", "DONE"),
        step(1, "agent_response", "ACTIVE", text_delta="Let me "),
        step(1, "agent_response", "DONE", text_delta="look."),
        step(2, "tool", "ACTIVE", tool_name="replace_file_content", tool_info=info),
        step(2, "tool", "DONE", tool_name="replace_file_content", tool_info={**info, "output": "done"}),
        step(3, "agent_response", "DONE", text_delta="Hello there."),
        {
            "event": "result",
            "result": {"conversation_id": "c-1", "status": "SUCCESS", "response": "Hello there.\n"},
        },
    )
    assert (
        "".join(part.text for part in parts if isinstance(part, TextPart)) == "Let me look.\n\nHello there."
    )
    place = Location("/project/a.py", writes=True)
    assert [part for part in parts if isinstance(part, ToolPart)] == [
        ToolPart("replace_file_content", "/project/a.py", ("/project/a.py",), (place,))
    ]
    assert [part.id for part in parts if isinstance(part, SessionPart)] == ["c-1"]
    assert (stream.answer, stream.completed, stream.error) == ("Hello there.", True, None)


@pytest.mark.parametrize(
    ("result", "failure", "retry_in_s"),
    [
        ({"status": "ERROR", "error": "Individual quota reached. Resets in 34m13s."}, "rate_limit", 2053),
        ({"status": "ERROR", "error": "Authentication required. Please sign in."}, "not_signed_in", None),
        ({"status": "ERROR", "error": "You are not logged into Antigravity."}, "not_signed_in", None),
        ({"status": "ERROR", "error": "invalid model selection"}, "crash", None),
        # Refused tools leave it without an answer, and it calls that a success.
        ({"status": "SUCCESS", "denied_actions": [{"display_name": "run_command"}]}, "crash", None),
    ],
)
def test_a_failure_of_agy(result: dict[str, object], failure: str, retry_in_s: float | None) -> None:
    stream, _ = agy({"event": "result", "result": {"conversation_id": "c", "response": "", **result}})
    verdict = classify(Exit(code=0), stderr="", error=stream.error, answered=False, now=NOW)
    assert verdict.failure == failure
    assert verdict.retry_at == (None if retry_in_s is None else NOW.timestamp() + retry_in_s)


def test_a_claude_that_is_cut_off_has_used_what_its_messages_said() -> None:
    stream = stream_of("claude")()
    start = {
        "type": "message_start",
        "message": {
            "id": "m1",
            "usage": {
                "input_tokens": 3,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 1000,
                "output_tokens": 1,
            },
        },
    }
    delta = {"type": "message_delta", "usage": {"output_tokens": 5}}
    parts: list[Part] = []
    for event in (start, delta, start, delta):
        parts += stream.read(json.dumps({"type": "stream_event", "event": event, "parent_tool_use_id": None}))
    assert parts[-1] == UsagePart(6, 10, cache_write_tokens=14, cache_read_tokens=2000)


@pytest.mark.parametrize(
    ("name", "failure", "retry_at"),
    [
        ("claude-signed-out", FailureClass.NOT_SIGNED_IN, None),
        ("claude-refused", FailureClass.NOT_SIGNED_IN, None),
        ("codex-refused", FailureClass.NOT_SIGNED_IN, None),
        ("gemini-refused", FailureClass.NOT_SIGNED_IN, None),
        ("claude-rate-limit", FailureClass.RATE_LIMIT, None),
        ("codex-usage-limit", FailureClass.RATE_LIMIT, datetime(2026, 11, 22, 2, 7, tzinfo=UTC).timestamp()),
        ("codex-rate-limit", FailureClass.RATE_LIMIT, NOW.timestamp() + 11.054),
    ],
)
def test_a_recorded_failure(name: str, failure: FailureClass, retry_at: float | None) -> None:
    stream, parts = replay(name)
    assert not any(isinstance(part, TextPart) for part in parts)
    verdict = classify(Exit(code=1), stderr="", error=stream.error, answered=False, now=NOW)
    assert (verdict.failure, verdict.retry_at) == (failure, retry_at)


def test_claude_that_retries_a_refused_key_is_hopeless_and_a_codex_without_its_service_is_stuck() -> None:
    assert replay("claude-refused")[0].hopeless
    assert not replay("claude-answer")[0].hopeless
    assert replay("codex-rate-limit")[0].stuck
    assert not replay("codex-usage-limit")[0].stuck


def test_claude_names_the_time_of_its_limit_in_an_event_of_its_own() -> None:
    stream = stream_of("claude")()
    stream.read('{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795312800}}')
    stream.read(
        '{"type":"result","is_error":true,"result":"You\'ve hit your session limit","session_id":"s"}'
    )
    verdict = classify(Exit(code=1), stderr="", error=stream.error, answered=False, now=NOW)
    assert (verdict.failure, verdict.retry_at) == (FailureClass.RATE_LIMIT, 1795312800.0)


def test_what_a_subagent_says_is_not_the_answer() -> None:
    stream = stream_of("claude")()
    message = '{"id":"m","content":[{"type":"text","text":"t"}]}'
    line = '{"type":"assistant","parent_tool_use_id":%s,"message":' + message + "}"
    assert stream.read(line % '"toolu_1"') == []
    assert stream.read(line % "null") == [TextPart("t")]


def test_codex_names_the_files_it_changed() -> None:
    line = (
        '{"type":"item.completed","item":{"type":"file_change","changes":'
        '[{"path":"a.py","kind":"update"},{"path":"b.py","kind":"add"}]}}'
    )
    assert stream_of("codex")().read(line) == [
        ToolPart(
            "file_change",
            "a.py, b.py",
            ("a.py", "b.py"),
            (Location("a.py", writes=True), Location("b.py", writes=True)),
        )
    ]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("", []),
        ("plain words", [LogPart("plain words")]),
        ("[1, 2]", []),
        ('"text"', []),
        ('{"type": "of tomorrow", "x": 1}', []),
    ],
)
def test_a_line_that_means_nothing(name: str, line: str, parts: list[Part]) -> None:
    assert stream_of(name)().read(line) == parts


TYPES = [
    *("system", "assistant", "stream_event", "result", "rate_limit_event", "user"),
    *("thread.started", "item.completed", "item.started", "turn.completed", "turn.failed", "error"),
    *("init", "message", "tool_use", "tool_result"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "item", "usage", "text", "event"]), inner
        )
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ["text", *presets()])
@given(
    kind=st.sampled_from(TYPES),
    event=st.dictionaries(
        st.sampled_from(
            ["message", "item", "event", "usage", "error", "session_id", "content", "role", "status"]
        ),
        VALUES,
    ),
)
def test_no_shape_of_an_event_breaks_a_parser(name: str, kind: str, event: dict[str, object]) -> None:
    for part in stream_of(name)().read(json.dumps({"type": kind, **event})):
        assert not isinstance(part, SessionPart) or isinstance(part.id, str)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"command": "ls  -l\n"}, ToolPart("T", "ls -l")),
        ({"command": ["git", "log"]}, ToolPart("T", "git log")),
        ({"file_path": "a", "content": "x"}, ToolPart("T", "a", ("a",))),
        ({"command": "y" * 300}, ToolPart("T", "y" * 199 + "…")),
        ({"other": 1}, ToolPart("T")),
    ],
)
def test_the_line_of_a_tool(arguments: dict[str, object], part: ToolPart) -> None:
    assert tool("T", arguments) == part
