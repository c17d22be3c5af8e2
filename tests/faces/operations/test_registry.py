"""The registry: what is declared, and what a request must be."""

from __future__ import annotations

import argparse
import re
from typing import Any

import pytest

from relay import cli
from relay.coordination.writes.changesets import MOST_SUMMARY
from relay.faces.operations.help_topics import TOPICS, help_text
from relay.faces.operations.json_schema import input_schema
from relay.faces.operations.operation import perform, read
from relay.faces.operations.registry import OPERATIONS
from relay.model import ADMIN, SCOPES, Caller, Fault, Refusal
from tests.faces.recorder import Recorder

BOT = Caller("bot", "s1")
#: The sixteen of issue 3, and those of the wings.
TOOLS = frozenset(
    {
        "acquire_lock",
        "release_lock",
        "resolve",
        "land",
        "check_merge",
        "check_locks",
        "get_work",
        "complete_work",
        "submit_work",
        "remember",
        "recall",
    }
    | {
        "renew",
        "release_work",
        "explain",
        "declare_intent",
        "post_message",
        "read_room",
        "who",
        "help",
        "timeline",
        "working_memory",
        "skill",
        "feedback",
        "knowledge",
        "verification",
    }
)


def test_the_tools_and_no_two_operations_at_one_endpoint() -> None:
    assert {name for name, one in OPERATIONS.items() if one.tool} == TOOLS
    ends = [end for one in OPERATIONS.values() for end in one.endpoints]
    assert len(ends) == len(set(ends))
    assert {one.scope for one in OPERATIONS.values()} <= SCOPES | {ADMIN, ""}
    assert all(one.doc.strip() for one in OPERATIONS.values())


PATH = {"file_path": "a"}
TASK = {"task_type": "t", "task_description": "d"}


@pytest.mark.parametrize(
    ("operation", "values", "says"),
    [
        ("acquire_lock", {}, "Give one of file_path or file_paths"),
        ("acquire_lock", PATH | {"file_paths": ["b"]}, "not both"),
        ("acquire_lock", {"file_path": 1}, "file_path"),
        ("acquire_lock", {"file_path": ""}, "file_path"),
        ("acquire_lock", {"file_paths": []}, "file_paths"),
        ("acquire_lock", {"file_paths": ["a", 1]}, "file_paths[1]"),
        ("acquire_lock", PATH | {"ttl_minutes": "30"}, "ttl_minutes"),
        ("acquire_lock", PATH | {"ttl_minutes": True}, "ttl_minutes"),
        ("acquire_lock", PATH | {"ttl_minutes": float("nan")}, "ttl_minutes"),
        ("acquire_lock", PATH | {"wait_seconds": 301}, "wait_seconds"),
        ("acquire_lock", PATH | {"mode": "both"}, "mode"),
        ("acquire_lock", PATH | {"force": True}, "Unknown field 'force'"),
        ("release_lock", {}, "file_path is missing"),
        ("release_lock", PATH | {"fencing_token": "7"}, "fencing_token"),
        ("release_lock", PATH | {"fencing_token": 2**63}, "fencing_token"),
        ("submit_work", TASK | {"priority": 11}, "priority"),
        ("submit_work", TASK | {"priority": 1.5}, "priority"),
        ("submit_work", TASK | {"depends_on": "x"}, "depends_on"),
        ("submit_work", TASK | {"task_type": "a\0b"}, "NUL"),
        ("submit_work", TASK | {"input_data": {"a": ["\ud800"]}}, "unpaired surrogate"),
        ("submit_work", TASK | {"input_data": float("inf")}, "number that JSON does not allow"),
        ("complete_work", {"task_id": "t", "success": 1}, "success"),
        ("read_room", {"cursor": "x"}, "cursor"),
        ("post_message", {"body": None}, "body is missing"),
    ],
)
def test_a_request_that_is_none_names_its_field(operation: str, values: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(OPERATIONS[operation], values)
    assert refused.value.fault is Fault.MALFORMED
    assert says in refused.value.message
    assert refused.value.fix


def test_a_wrong_value_is_answered_with_what_to_give() -> None:
    for operation, values, fix in [
        ("submit_work", TASK | {"priority": "1"}, "priority: a whole number from 1 to 10."),
        ("acquire_lock", PATH | {"ttl_minutes": "1"}, "ttl_minutes: a number from 0.0166 to 480."),
        ("acquire_lock", PATH | {"mode": "x"}, "mode: one of exclusive, shared."),
        ("submit_work", TASK | {"task_type": "x" * 65}, "task_type: text of 1 to 64 characters."),
        ("complete_work", {"task_id": "t", "success": 1}, "success: true or false."),
    ]:
        with pytest.raises(Refusal) as refused:
            read(OPERATIONS[operation], values)
        assert refused.value.fix == fix


def test_deep_data_is_refused_before_it_is_written() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(Refusal, match="nested"):
        read(OPERATIONS["complete_work"], {"task_id": "t", "success": True, "result": deep})


async def test_null_is_left_out_and_whole_minutes_are_minutes() -> None:
    seen = Recorder()
    values = {"file_path": "a", "file_paths": None, "ttl_minutes": 2, "mode": None, "reason": None}
    await perform(seen.services(), BOT, OPERATIONS["acquire_lock"], values)
    what, caller, args, named = seen.last
    assert (what, caller, args) == ("locks.acquire", BOT, (["a"],))
    assert (named["ttl_s"], named["mode"], named["reason"]) == (120, "exclusive", None)
    assert seen.beats == [], "its own transaction is the heartbeat"
    await perform(seen.services(), BOT, OPERATIONS["who"], {})
    assert seen.beats == [BOT]


def test_the_schema_says_the_bounds_that_the_changesets_keep() -> None:
    summary = input_schema(OPERATIONS["record_changeset"].request)["properties"]["summary"]
    assert (summary["minLength"], summary["maxLength"]) == (1, MOST_SUMMARY)
    assert read(OPERATIONS["record_changeset"], {"summary": "x" * 10_001, "files": []}), "theirs to refuse"


def test_an_empty_description_is_a_question() -> None:
    assert read(OPERATIONS["recall"], {"task_description": ""})
    with pytest.raises(Refusal):
        read(OPERATIONS["recall"], {})


async def test_scopes_are_checked_before_anything_runs() -> None:
    seen = Recorder()
    reader = Caller("bot", "s1", scopes=frozenset({"read"}))
    for name, values in (
        ("acquire_lock", PATH),
        ("renew", {"kind": "lock", "id": "a"}),
        ("renew", {"kind": "claim", "id": "t"}),
        ("post_message", {"body": "hi"}),
        ("remember", {"event_type": "e", "summary": "s"}),
        ("force_release_lock", PATH | {"reason": "r"}),
        ("create_key", {"identity": "x"}),
        ("end_session", {"of": "CLAUDE"}),
    ):
        with pytest.raises(Refusal) as refused:
            await perform(seen.services(), reader, OPERATIONS[name], values)
        assert (refused.value.fault, refused.value.code) == (Fault.FORBIDDEN, "scope")
    assert seen.asked == []
    await perform(seen.services(), reader, OPERATIONS["check_locks"], {})
    await perform(seen.services(), reader, OPERATIONS["end_session"], {"of": "bot"})
    assert [one[0] for one in seen.asked] == ["locks.check", "sessions.end"]
    # It stands in a sentence about the claims that the session gave back.
    assert seen.asked[-1][3] == {"reason": "by a call of its own"}


async def test_the_endpoints_of_a_tool_for_both_take_its_fields_too() -> None:
    seen = Recorder()
    for name, tool, own, length in (
        ("renew_lock", {"kind": "lock", "id": "a"}, {"file_path": "a"}, {"ttl_minutes": 2}),
        ("explain_lock", {"kind": "lock", "id": "a"}, {"file_path": "a"}, {}),
        ("renew_claim", {"kind": "claim", "id": "t"}, {"task_id": "t"}, {"ttl_minutes": 2}),
        ("explain_work", {"kind": "work", "id": "t"}, {"task_id": "t"}, {}),
    ):
        seen.asked.clear()
        for values in (tool | length, own | length):
            await perform(seen.services(), BOT, OPERATIONS[name], values)
        first, second = seen.asked
        assert first == second, name
        for wrong in ({}, tool | own, tool | {"kind": "memory"}):
            with pytest.raises(Refusal) as refused:
                await perform(seen.services(), BOT, OPERATIONS[name], wrong)
            assert refused.value.fault is Fault.MALFORMED
    with pytest.raises(Refusal, match="lease_minutes or ttl_minutes"):
        read(OPERATIONS["renew_claim"], {"id": "t", "lease_minutes": 2, "ttl_minutes": 2})


async def test_help_names_only_what_exists() -> None:
    for topic in TOPICS:
        text = help_text(topic)
        assert text
        called = set(re.findall(r"\b([a-z]+_[a-z]+)\(", text))
        assert called <= set(OPERATIONS), topic
        paths = {path for one in OPERATIONS.values() for _, path in one.endpoints} | {
            "/openapi.json",
            "/reference",
        }
        named = set(
            re.findall(
                r"(?<![\w.])(/(?:locks|work|memory|room|sessions|changesets|who|help|openapi)[\w/{}.-]*)",
                text,
            )
        )
        assert {one.rstrip(".") for one in named} <= paths, topic
    actions = cli.parser()._actions
    (commands,) = (one for one in actions if isinstance(one, argparse._SubParsersAction))
    assert set(commands.choices) == set(re.findall(r"\brelay ([a-z-]+)", help_text("cli") or ""))
    told = await perform(Recorder().services(), BOT, OPERATIONS["help"], {})
    assert told["topics"] == list(TOPICS)
    with pytest.raises(Refusal, match="There is no help"):
        await perform(Recorder().services(), BOT, OPERATIONS["help"], {"topic": "love"})
