from __future__ import annotations

from typing import Any

import pytest

from relay.base.durations import parse_iso
from relay.log.events import Event
from relay.memory.episodic.keeping import NewMemory
from relay.memory.observed import READS, decision_in, observed, says_something, without_mentions
from relay.memory.prompt import Quote, block

AT = "2026-11-16T14:02:00.000Z"


def event(type: str, outputs: Any, *, session: str = "room", lane: str = "human:ALICE") -> Event:
    made = Event(1, "e" * 64, session, lane, 1, type, None, (), (), {}, AT)
    made._read["outputs"] = outputs
    return made


def said(body: str, kind: str = "human", speaker: str = "ALICE", **meta: Any) -> Event:
    message = {"id": "m", "kind": kind, "speaker": speaker, "body": body, "meta": meta}
    return event("message.posted", {"message": message})


def task(status: str, **more: Any) -> dict[str, Any]:
    base = {
        "number": 3,
        "task_description": "Fix the login page\nIt hangs.",
        "status": status,
        "created_by": "ann",
    }
    return base | more


def kept(memory: NewMemory | None) -> NewMemory:
    assert memory is not None
    return memory


def test_a_persons_message_names_its_event_its_session_and_its_author() -> None:
    memory = kept(observed(said("never mock the clock here, it hid a bug")))
    assert (memory.event_id, memory.session, memory.agent) == ("e" * 64, "room", "ALICE")
    assert memory.at == parse_iso(AT)
    told = memory.experience
    assert (told.event_type, told.summary) == ("message", "never mock the clock here, it hid a bug")
    assert not told.details


def test_an_answer_is_kept_whole_with_its_first_paragraph_as_summary() -> None:
    body = "The scheduler read the wall clock.\n\n" + "It is mended now. " * 60
    told = kept(observed(said(body, "agent", "CODEX"))).experience
    assert (told.event_type, told.summary) == ("answer", "The scheduler read the wall clock.")
    assert told.details == (body.strip(),)


@pytest.mark.parametrize(
    "body",
    [
        "hello",
        "Hi all, good morning!",
        "thanks!",
        "ok",
        "yes, please go ahead",
        "@CLAUDE go on",
        "@CLAUDE @CODEX ?",
        "\U0001f44d",
        "   ",
        "Danke, gut",
        "/tasks",
        "/remember never mock the clock",
        "/unknown thing is said",
    ],
)
def test_chatter_and_commands_are_not_remembered(body: str) -> None:
    assert observed(said(body)) is None


@pytest.mark.parametrize(
    "body",
    [
        "use PostgreSQL",
        "never mock the clock",
        "//task is a word here",
        "/usr/bin/x is broken",
        "不要模拟时钟",
    ],
)
def test_what_says_something_is_remembered(body: str) -> None:
    assert observed(said(body)) is not None


def test_what_relay_says_itself_is_not_remembered() -> None:
    words = "the worktree of CODEX was merged"
    for kind in ("system", "dispatcher", "advisory"):
        assert observed(said(words, kind, "RELAY")) is None
    assert observed(said(words, "agent", "CODEX", notice="recall")) is None
    assert all(not type.startswith("memory.") for type in READS)


def test_a_line_that_proves_nobody_says_so() -> None:
    assert kept(observed(said("use tabs everywhere", unverified=True))).experience.tags == ("unverified",)


@pytest.mark.parametrize(
    ("body", "decision"),
    [
        (
            "We looked at both.\nDECISION: use PostgreSQL because two hosts write",
            "use PostgreSQL because two hosts write",
        ),
        ("Done.\n\n[DECISION: use PostgreSQL | OWNER: ann | BLOCKERS: none]", "use PostgreSQL"),
        ("- **Decision:** use tabs", "use tabs"),
        ("the decision: it is open", ""),
    ],
)
def test_a_decision_is_told_apart(body: str, decision: str) -> None:
    assert decision_in(body) == decision
    told = kept(observed(said(body, "agent", "CODEX"))).experience
    assert told.event_type == ("decision" if decision else "answer")
    assert told.summary == (decision or body)


def test_what_only_some_may_read_is_not_remembered_for_all() -> None:
    for options in ("private", "role qa", "shared with CODEX"):
        assert observed(said(f"We looked at both.\nDECISION ({options}): use PostgreSQL")) is None


def test_no_memory_of_memory() -> None:
    given = "never mock the clock here, it hid a bug"
    quote = Quote("id", "episodic", "r14", "ALICE", parse_iso(AT), given, 0.9)
    for body in (
        block([quote]),
        f"I was told:\n\n{block([quote])}",
        f"  > {quote.line()}",
        f"heard: {quote.line()}",
        f"[MEMORY] {given}",
        f'ALICE said "{given}".',
        "Never mock the   clock here,\nit hid a bug.",
    ):
        assert observed(said(body, "agent", "CODEX"), [given]) is None, body
    memory = kept(
        observed(
            said(f"{quote.line()}\n\nSo the test sleeps for a second instead.", "agent", "CODEX"), [given]
        )
    )
    assert memory.experience.summary == "So the test sleeps for a second instead."


def test_a_task_that_ended_is_remembered_with_its_error() -> None:
    failed = task("failed", claimed_by="CODEX", error_message="the clock was mocked", files=["src/login.py"])
    outputs = {"change": "failed", "by": "CODEX", "tasks": [{"before": None, "after": failed}]}
    memory = kept(observed(event("task.changed", outputs)))
    told = memory.experience
    assert (memory.agent, told.event_type, told.outcome) == ("CODEX", "task", "failure")
    assert told.summary == "Fix the login page\nIt hangs."
    assert told.details == ("t3 failed", "Error: the clock was mocked", {"files": ["src/login.py"]})


def test_what_a_task_went_through_before_its_end_is_not_remembered() -> None:
    for change, status in (("claimed", "claimed"), ("moved", "claimed"), ("renamed", "completed")):
        outputs = {"change": change, "by": "ann", "tasks": [{"before": None, "after": task(status)}]}
        assert observed(event("task.changed", outputs)) is None
    same = {"before": task("completed"), "after": task("completed")}
    assert observed(event("task.changed", {"change": "moved", "by": "ann", "tasks": [same]})) is None


def test_many_tasks_of_one_event_are_one_memory() -> None:
    tasks = [{"before": None, "after": task("failed", number=n, note="t1 failed")} for n in range(2, 5)]
    told = kept(
        observed(event("task.changed", {"change": "cascaded", "by": "ann", "tasks": tasks}))
    ).experience
    assert told.summary.startswith("3 tasks failed: t2 Fix the login page It hangs.; t3")


def test_forced_releases_resolved_advisories_and_changesets_are_remembered() -> None:
    lock = {"file_path": "src/app.py", "locked_by": "CODEX"}
    forced = kept(observed(event("lock.forced", {"lock": lock, "by": "ann", "reason": "it is stale"})))
    assert forced.experience.summary == "ann took the lock on src/app.py from CODEX: it is stale"
    advisory = {
        "agents": ["A", "B"],
        "line": "both change src/app.py",
        "closed_why": "B left",
        "verdict": "averted",
    }
    over = kept(observed(event("advisory.changed", {"advisory": advisory, "what": ["closed"]})))
    assert (over.experience.summary, over.experience.outcome) == ("A, B: both change src/app.py", "averted")
    assert observed(event("advisory.changed", {"advisory": advisory, "what": ["opened"]})) is None
    changeset = {"agent_id": "CODEX", "summary": "mend the login", "changed": ["src/login.py"]}
    made = kept(observed(event("changeset.recorded", {"changeset": changeset})))
    assert made.experience.details == ({"files": ["src/login.py"]},)


def test_whom_a_message_is_for_says_nothing_of_what_it_is_about() -> None:
    text = "@BETA: are the types of @types/node pinned, @all?"
    assert without_mentions(text) == " : are the types of @types/node pinned,  ?"


def test_what_says_something_has_two_words_of_its_own() -> None:
    assert not says_something("please run it again")
    assert says_something("please run pytest again")


def test_an_exploration_that_is_over_is_remembered_with_what_lost() -> None:
    result = {
        "task": "cache the answers of lookup()",
        "asker": "ann",
        "winner": "in-memory",
        "merged": "1" * 40,
        "recommendation": "in-memory has the highest score, 1.000.",
        "variants": [
            {"name": "redis", "agent": "CODEX", "status": "budget_exceeded", "which": "max_cost_usd"},
            {
                "name": "in-memory",
                "agent": "CLAUDE",
                "status": "completed",
                "passing": True,
                "metrics": {"lines_of_code": 200.0},
            },
        ],
    }
    made = kept(observed(event("exploration.ended", result)))
    experience = made.experience
    assert experience.summary == "cache the answers of lookup(): the variant in-memory was kept among 2"
    assert (experience.event_type, experience.outcome, made.agent) == ("exploration", "success", "ann")
    assert "redis by CODEX: budget exceeded (max_cost_usd), no test has run" in experience.details
    assert "in-memory by CLAUDE: completed, its tests pass, lines_of_code 200" in experience.details
    without = kept(observed(event("exploration.ended", {**result, "winner": None, "merged": None})))
    assert without.experience.summary.endswith("no variant was kept among 2")
    assert without.experience.outcome == "failure"
