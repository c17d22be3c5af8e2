"""Pages of the timeline, and what is known of an event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model import Fault, Refusal
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Store, Tx
from relay.timeline import reading
from relay.timeline.file_changes import record_changes, record_reads, record_tree
from relay.timeline.heads import heads
from relay.timeline.reading import Filter
from tests import engines
from tests.engines import BOTH

pytestmark = BOTH
A, A2, B, ANN = Lane("s1", "CLAUDE"), Lane("s2", "CLAUDE"), Lane("s3", "CODEX"), Lane("room", "human:ann")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "timeline"))
    yield opened
    await opened.close()


async def wrote(store: Store, lane: Lane, path: str, before: str | None, after: str | None) -> Event:
    async def work(tx: Tx) -> Event | None:
        touch = Touch(path, before, after, Kind.WRITE if after else Kind.DELETE)
        return await record_changes(
            tx, lane, [touch], source=Source.TREE, before="t", after="u", worktree=lane.name
        )

    event = await store.write(work)
    assert event is not None
    return event


@pytest.fixture
async def made(store: Store) -> list[Event]:
    return [
        await wrote(store, A, "src/app.py", None, "1"),
        await wrote(store, B, "src/app.py", "1", "2"),
        await wrote(store, A2, "src/app.py", "1", "3"),
        await wrote(store, ANN, "docs/a.md", None, "4"),
        await wrote(store, B, "src/gone.py", "5", None),
    ]


async def numbers(store: Store, limit: int = 100, **wanted: object) -> list[int]:
    """Of the page; its heads are the same without the payloads."""
    filter_ = Filter(**wanted)  # type: ignore[arg-type]
    found = await store.read(lambda tx: reading.page(tx, filter_, limit))
    heads = await store.read(lambda tx: reading.heads(tx, filter_, limit))
    assert heads == [reading.head(event) for event in found]
    return [event.pos for event in found]


async def test_a_page_is_the_newest_oldest_first(store: Store, made: list[Event]) -> None:
    at = [event.pos for event in made]
    assert await numbers(store) == at
    assert await numbers(store, 2) == at[-2:]
    assert await numbers(store, 2, before=at[3]) == at[1:3]
    assert await numbers(store, after=at[3]) == at[4:]
    assert await numbers(store, types=["files.read"]) == []


async def test_a_name_is_all_of_its_lanes(store: Store, made: list[Event]) -> None:
    at = [event.pos for event in made]
    assert await numbers(store, name="CLAUDE") == [at[0], at[2]]
    assert await numbers(store, name="s2/CLAUDE") == [at[2]]
    assert await numbers(store, name="ann") == await numbers(store, name="human:ann") == [at[3]]
    assert await numbers(store, name="room/human:ann") == [at[3]]
    with pytest.raises(Refusal) as refused:
        await numbers(store, name="GEMINI")
    assert refused.value.fault is Fault.UNKNOWN
    assert refused.value.details["candidates"] == ["CLAUDE", "CODEX", "ann"]


async def test_a_page_of_a_lane_ends_before_any_place_of_the_log(store: Store) -> None:
    events = [await wrote(store, A if at % 3 else B, f"f{at}", None, str(at)) for at in range(12)]
    own = [event.pos for event in events if event.lane_key == A.key]
    for before in range(1, events[-1].pos + 2):
        assert await numbers(store, 3, name=A.key, before=before) == [pos for pos in own if pos < before][-3:]


async def test_a_path_is_a_file_or_a_folder(store: Store, made: list[Event]) -> None:
    at = [event.pos for event in made]
    assert await numbers(store, path="src/app.py") == at[:3]
    assert await numbers(store, path="src/") == [*at[:3], at[4]]
    assert await numbers(store, path="src", name="CODEX") == [at[1], at[4]]
    assert await numbers(store, path="sr") == []
    assert await numbers(store, 1, path="src/app.py") == [at[2]]


async def test_who_knew_what(store: Store, made: list[Event]) -> None:
    seen = await store.read(lambda tx: reading.knew(tx, made[1]))
    assert [cause["number"] for cause in seen["seen"]] == [made[0].pos]
    assert seen["unseen"] == []
    blind = await store.read(lambda tx: reading.knew(tx, made[2]))
    assert blind == {"seen": [], "unseen": [{"path": "src/app.py", "event": made[1].id}]}
    assert reading.words(made[2]) == "wrote 1, 1 unseen"
    read = await store.write(lambda tx: record_reads(tx, A, {"src/app.py": "3"}, source="merge"))
    assert read is not None
    assert [cause["id"] for cause in (await store.read(lambda tx: reading.knew(tx, read)))["seen"]] == [
        made[2].id
    ]


async def test_the_workspace_names_the_last_writer_and_all_before(store: Store, made: list[Event]) -> None:
    files = await store.read(reading.workspace)
    assert [(file["path"], file["blob"], file["by"], file["contributors"]) for file in files] == [
        ("docs/a.md", "4", ANN.key, [ANN.key]),
        ("src/app.py", "3", A2.key, [A.key, A2.key, B.key]),
        ("src/gone.py", None, B.key, [B.key]),
    ]
    assert [file["event"] for file in files] == [made[3].id, made[2].id, made[4].id]
    inside = await store.read(lambda tx: reading.workspace(tx, "src/"))
    assert [file["path"] for file in inside] == ["src/app.py", "src/gone.py"]
    assert [file["path"] for file in await store.read(lambda tx: reading.workspace(tx, "docs/a.md"))] == [
        "docs/a.md"
    ]


async def test_who_merged_a_branch_did_not_write_its_files(store: Store) -> None:
    await wrote(store, A, "a.py", "0", "1")
    theirs = await wrote(store, B, "a.py", "0", "2")
    await wrote(store, reading.MAIN_LANE, "a.py", "0", "2")
    (file,) = await store.read(reading.workspace)
    assert (file["by"], file["event"], file["contributors"]) == (B.key, theirs.id, [A.key, B.key])
    # What git merged of both stands in neither.
    merged = await wrote(store, reading.MAIN_LANE, "a.py", "2", "3")
    (file,) = await store.read(reading.workspace)
    assert (file["by"], file["event"]) == (reading.MAIN_LANE.key, merged.id)
    await wrote(store, reading.MAIN_LANE, "gone.py", "7", None)
    (_, gone) = await store.read(reading.workspace)
    assert (gone["by"], gone["blob"]) == (reading.MAIN_LANE.key, None)


async def test_what_the_room_decided_about_a_message_is_no_turn(store: Store) -> None:
    async def work(tx: Tx) -> list[int]:
        lanes = (A, Lane("room", "cycle:1", short=True))
        return [(await events.append(tx, NewEvent(type="turn.ended", lane=lane))).pos for lane in lanes]

    turn, _ = await store.write(work)
    assert await numbers(store) == [turn]
    assert [head for head in (await store.read(heads))["number"]] == [turn]


async def test_bookkeeping_is_shown_to_who_asks_for_it_alone(store: Store, made: list[Event]) -> None:
    tree = await store.write(lambda tx: record_tree(tx, A, "CLAUDE", "t9"))
    read = await store.write(lambda tx: record_reads(tx, A, {"src/app.py": "3"}, source="merge"))
    assert read is not None
    at = [event.pos for event in made]
    assert await numbers(store) == [*at, read.pos]
    assert await numbers(store, 1, before=read.pos) == at[-1:]
    assert (
        await numbers(store, name="CLAUDE") == await numbers(store, name="claude") == [at[0], at[2], read.pos]
    )
    assert await numbers(store, name=A.key) == [at[0], read.pos]
    assert await numbers(store, 1, name=A.key, before=read.pos) == at[:1]
    for name in (None, "CLAUDE", A.key):
        assert await numbers(store, name=name, types=["files.read"]) == [tree.pos, read.pos]


async def test_a_name_has_all_that_the_log_says_is_its(store: Store, made: list[Event]) -> None:
    """The lane's page, the log and the page's columns say the same of each: whose it is, and what."""
    validation = {"passed": True, "failure_info": None}
    handed = {"from_agent": "CODEX", "to_agent": "CLAUDE", "validation": validation}
    rewound = {"lane": "CODEX", "files": []}

    async def work(tx: Tx) -> None:
        for at, (type_, lane, outputs) in enumerate(
            (
                ("worktree.changed", "worktree:1", {"change": "merged", "agent": "CODEX", "by": "ann"}),
                ("worktree.changed", "worktree:2", {"change": "created", "agent": "CODEX2", "by": "RELAY"}),
                ("worktree.changed", "worktree:3", {"change": "taken_in", "agent": "CLAUDE", "by": "RELAY"}),
                ("conflict.found", "conflict:1", {"sides": ["CODEX", "CLAUDE"]}),
                ("conflict.settled", "conflict:1", {"sides": ["CLAUDE", "main"]}),
                ("handoff", "handoff:1", handed),
                ("checkpoint.made", "handoff:1", {"name": "handoff:developer->qa"}),
                ("checkpoint.made", "human:ann", {"name": "noon"}),
                ("turn.started", "CODEX", None),
                ("turn.ended", "CODEX", {"outcome": "done"}),
                ("helper.started", "CODEX.1", {"by": "CODEX", "brief": "count", "sort": ""}),
                ("helper.ended", "CODEX.1", {"by": "CODEX", "result": "2", "failed": False, "tools": []}),
                ("timeline.rewound", "human:ann", rewound),
                ("timeline.undone", "human:ann", rewound),
                ("timeline.redone", "human:ann", rewound),
                ("timeline.given_up", "main", {"rewind": "1"}),
                ("exploration.compared", "exploration:1", {"number": 1}),
                ("exploration.ended", "exploration:1", {"number": 1}),
                ("timeline.merged", "human:ann", {"heads": {"a": 1, "b": 2}, "conflicts": ["x"]}),
            )
        ):
            session = "s3" if lane == "CODEX" else "room"
            payload = {**outputs, "branch": f"b{at}"} if outputs and type_ == "worktree.changed" else outputs
            await events.append(
                tx,
                NewEvent(
                    type_, Lane(session, lane, short=":" in lane and "human" not in lane), outputs=payload
                ),
            )

    await store.write(work)
    await store.write(lambda tx: record_reads(tx, B, {"src/app.py": "3"}, source="merge"))
    log = await store.read(lambda tx: reading.page(tx, Filter(), 100))
    assert {event.type for event in log} == {*reading.TYPES}, "each type is compared"
    names = {reading.author(event) for event in log}
    assert names == {"CLAUDE", "CODEX", "CODEX.1", "CODEX2", "ann", "relay", "main"}
    for name in names - {"relay", "main"}:
        assert await numbers(store, name=name) == [
            event.pos for event in log if reading.author(event) == name
        ]
        assert await numbers(store, 2, name=name) == (await numbers(store, name=name))[-2:]
    columns = await store.read(heads)
    assert columns["number"] == [event.pos for event in log]
    assert [columns["names"][place] for place in columns["who"]] == [reading.author(each) for each in log]
    assert [columns["words"][place] for place in columns["word"]] == [reading.words(each) for each in log]
    said = [f"{reading.author(event)} {reading.words(event)}" for event in log]
    assert "CODEX had its work merged into the main branch by ann (b0)" in said
    assert "CODEX2 got a worktree and a branch (b1)" in said
    assert "CLAUDE had the main branch taken in by relay (b2)" in said
    assert "relay made the checkpoint handoff:developer->qa" in said
    assert "relay compared the variants of a task" in said
    with pytest.raises(Refusal):
        await numbers(store, name="COD")
