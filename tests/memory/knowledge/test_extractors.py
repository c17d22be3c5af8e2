"""What is made of each type of event."""

from __future__ import annotations

import json
from typing import Any

from relay.log.events import Event
from relay.memory.knowledge.entry import Access, Extractor, Kind, Reference, Relation, Visibility
from relay.memory.knowledge.extractors import FILE_TOPIC, MOST_FACTS, extract
from relay.model.touches import Kind as TouchKind
from relay.model.touches import Touch
from tests.memory.knowledge.room import renamed, touch


def event(type_: str, outputs: Any, session: str = "s1", lane: str = "CODEX") -> Event:
    at = "2026-11-01T10:00:00Z"
    stored = json.dumps(outputs)
    return Event(7, "e" * 64, session, lane, 1, type_, None, (), (), {}, at, stored_outputs=stored)


def message(body: str, kind: str = "agent") -> Event:
    return event("message.posted", {"message": {"speaker": "CODEX", "kind": kind, "body": body}})


def test_people_and_agents_say_things_and_the_room_does_not() -> None:
    for kind, count in (("agent", 1), ("human", 1), ("system", 0), ("dispatcher", 0), ("advisory", 0)):
        assert len(extract(message("DECISION: use tabs", kind)).drafts) == count


def test_what_looks_like_a_secret_is_masked() -> None:
    [draft] = extract(message("DECISION: the token is ghp_" + "a1B2" * 10)).drafts
    assert draft.content == "the token is [secret]"


def test_an_entry_that_is_named_is_a_reference_or_a_mention() -> None:
    one, two = "k" + "a1" * 12, "k" + "b2" * 12
    found = extract(message(f"as {two} says\nDECISION: x (supersedes {one})"))
    assert found.drafts[0].references == (Reference(Relation.SUPERSEDES, one),)
    assert (found.mentions, found.agent) == ((two,), "CODEX")


def test_a_change_is_a_fact_for_each_file() -> None:
    touches = [
        touch("a.py"),
        touch("b.py", "delete", gone=True),
        touch("c.sh", "mode"),
        *renamed("x.py", "y.py"),
    ]
    drafts = extract(event("files.changed", {"touches": touches})).drafts
    assert [draft.content for draft in drafts] == [
        "Modified file: a.py",
        "Deleted file: b.py",
        "Changed mode of file: c.sh",
        "Renamed file: x.py to y.py",
    ]
    assert all(
        (draft.kind, draft.topics, draft.confidence) == (Kind.FACT, (FILE_TOPIC,), 1.0) for draft in drafts
    )
    assert (drafts[3].files, drafts[3].origins) == (("y.py", "x.py"), (("y.py", "x.py"),))


def test_the_timeline_tells_a_rename_so() -> None:
    """What `renamed` makes here is what a touch of the timeline is (docs/timeline.md)."""
    told = [
        Touch("x.py", "a", None, TouchKind.RENAME).as_json(),
        Touch("y.py", None, "b", TouchKind.RENAME, "x.py").as_json(),
    ]
    drafts = extract(event("files.changed", {"touches": told})).drafts
    assert [draft.content for draft in drafts] == ["Renamed file: x.py to y.py"]


def test_many_files_are_one_fact_that_has_them_all() -> None:
    paths = [f"src/{at}.py" for at in range(MOST_FACTS + 1)]
    [draft] = extract(event("files.changed", {"touches": [touch(path) for path in paths]})).drafts
    assert draft.content.startswith(f"Modified {MOST_FACTS + 1} files: src/0.py, ") and draft.files == tuple(
        paths
    )


def test_what_relay_merges_is_no_second_change_and_its_trailers_are_the_agents() -> None:
    trailers = [
        ["Decision", "use PostgreSQL"],
        ["Because", "rows are locked"],
        ["Instead-of", "SQLite"],
        ["Supersedes", "k" + "a1" * 12],
        ["Fixes", "#12 a race"],
        ["Reviewed-by", "ann"],
    ]
    outputs = {"touches": [touch("a.py")], "trailers": trailers, "merged": {"of": ["CODEX"], "by": "ann"}}
    merged = extract(event("files.changed", outputs, "room", "main"))
    decision, solution = merged.drafts
    assert (decision.kind, decision.content, decision.agent) == (Kind.DECISION, "use PostgreSQL", "CODEX")
    assert (decision.rationale, decision.alternatives) == ("rows are locked", ("SQLite",))
    assert decision.references == (Reference(Relation.SUPERSEDES, "k" + "a1" * 12),)
    assert (solution.kind, solution.content, solution.files) == (Kind.SOLUTION, "Fixes #12 a race", ("a.py",))
    own = extract(event("files.changed", outputs, "room", "human:ann"))
    assert [draft.agent for draft in own.drafts] == ["ann"] * 3 and own.drafts[0].kind is Kind.FACT


def test_what_was_recorded_says_how_it_was_found() -> None:
    entry = {"kind": "decision", "content": "use tabs", "visibility": "shared", "names": ["ann"]}
    outputs = {"agent": "CODEX", "extracted_by": "llm", "entries": [entry]}
    [draft] = extract(event("knowledge.recorded", outputs)).drafts
    assert (draft.extractor, draft.agent, draft.confidence < 0.95) == (Extractor.LLM, "CODEX", True)
    assert draft.access == Access(Visibility.SHARED, ("ann",))


def test_other_events_say_nothing() -> None:
    assert extract(event("turn.started", {})).drafts == ()
