"""Heads as columns: pages without a gap, whose they are, and what caused what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Store, Tx
from relay.timeline import reading
from relay.timeline.file_changes import record_changes, record_tree
from relay.timeline.heads import TYPES, heads
from tests import engines
from tests.engines import BOTH

pytestmark = BOTH
A, B, ANN = Lane("s1", "CLAUDE"), Lane("s2", "CODEX"), Lane("room", "human:ann")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "timeline"))
    yield opened
    await opened.close()


async def made(store: Store) -> list[Event]:
    """A turn in which CLAUDE writes, CODEX over it without having seen it, ann upon that, a worktree,
    a conflict, two handoffs."""

    async def work(tx: Tx) -> list[Event]:
        asked = await events.append(tx, NewEvent("message.posted", ANN, outputs={}))
        began = await events.append(
            tx, NewEvent("turn.started", A, parents=[asked.id], causal_deps=[asked.id])
        )
        done = [began]
        for lane, before, after, paths in (
            (A, None, "1", ("src/a.py", "b.md")),
            (B, "0", "2", ("src/a.py",)),
            (ANN, "2", "3", ("src/a.py",)),
        ):
            touches = [Touch(path, before, after, Kind.WRITE) for path in paths]
            event = await record_changes(tx, lane, touches, source=Source.TREE, before="t", after="u")
            assert event is not None
            done.append(event)
        outputs = {"agent": "CODEX", "change": "merged", "branch": "relay/codex", "by": "ann"}
        cycle = Lane("w", "1", short=True)
        done.append(
            await events.append(
                tx, NewEvent("worktree.changed", cycle, outputs=outputs, parents=[done[2].id])
            )
        )
        found = {"sides": ["CODEX", "main"], "paths": ["src/a.py"]}
        conflict = Lane("room", "conflict:1", short=True)
        done.append(
            await events.append(
                tx, NewEvent("conflict.found", conflict, outputs=found, file_touches=["src/a.py"])
            )
        )
        for passed in (True, False):
            failure = None if passed else {"failed_rules": ["AllTestsPass"]}
            validation = {"passed": passed, "failure_info": failure}
            handed = {
                "from_agent": "CODEX",
                "to_agent": "QWEN",
                "to_role": "tester",
                "validation": validation,
            }
            done.append(await events.append(tx, NewEvent("handoff", A, outputs=handed)))
        return done

    return await store.write(work)


async def read(store: Store, **wanted: Any) -> dict[str, Any]:
    return await store.read(lambda tx: heads(tx, **wanted))


async def test_a_page_says_of_each_what_its_event_says(store: Store) -> None:
    done = await made(store)
    told = await read(store)
    at = [event.pos for event in done]
    assert told["number"] == at
    assert [told["lanes"][place] for place in told["lane"]] == [event.lane_key for event in done]
    assert [told["names"][place] for place in told["who"]] == [reading.author(event) for event in done]
    assert [told["types"][place] for place in told["type"]] == [event.type for event in done]
    assert told["files"] == [0, 2, 1, 1, 0, 1, 0, 0]
    assert [told["paths"][place] if place >= 0 else "" for place in told["file"]] == [
        *("", "b.md", "src/a.py", "src/a.py", "", "src/a.py", "", "")
    ]
    assert [told["words"][place] for place in told["word"]] == [reading.words(event) for event in done]
    assert [told["changes"][place] if place >= 0 else "" for place in told["change"]] == [
        *[""] * 4,
        "merged",
        *[""] * 3,
    ]
    assert told["unseen"] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert told["tree"] == [0, 1, 1, 1, 0, 0, 0, 0]
    # What is no event of the timeline is no cause in it, and a turn's are messages.
    assert told["causes"] == [[], [], [], [at[2]], [at[2]], [], [], []]
    assert told["more"] is False


async def test_pages_have_no_gap_in_either_direction(store: Store) -> None:
    at = [event.pos for event in await made(store)]
    forward, after = [], 0
    while True:
        page = await read(store, after=after, limit=2)
        forward += page["number"]
        if not page["more"]:
            break
        after = page["number"][-1]
    assert forward == at
    assert await read(store, before=at[4], limit=2) == await read(store, after=at[1], limit=2) | {
        "more": True
    }
    first = await read(store, before=at[2], limit=2)
    assert (first["number"], first["more"]) == (at[:2], False)
    assert (await read(store, after=at[-1]))["number"] == []


async def test_of_a_path_or_a_folder(store: Store) -> None:
    at = [event.pos for event in await made(store)]
    assert (await read(store, path="src/a.py"))["number"] == at[1:4]
    assert (await read(store, path="src/"))["number"] == at[1:4]
    assert (await read(store, path="b.md"))["number"] == [at[1]]
    assert (await read(store, path="src/a.py", after=at[1], limit=1))["number"] == [at[2]]
    assert (await read(store, path="sr"))["number"] == []


async def test_bookkeeping_is_in_no_page_and_is_no_cause(store: Store) -> None:
    async def work(tx: Tx) -> tuple[list[int], list[int]]:
        shown, noted = list[int](), list[int]()
        for at in range(7):
            tree = await record_tree(tx, B, "CODEX", f"t{at}")
            noted.append(tree.pos)
            if at % 3 == 0:
                began = await events.append(tx, NewEvent("turn.started", A, parents=[tree.id]))
                touch = Touch(f"{at}.py", None, "1", Kind.WRITE)
                wrote = await record_changes(
                    tx, A, [touch], source=Source.TREE, before="t", after="u", parents=[tree.id, began.id]
                )
                assert wrote is not None
                shown += [began.pos, wrote.pos]
        return shown, noted

    shown, noted = await store.write(work)
    assert (await read(store))["number"] == shown
    assert not {cause for causes in (await read(store))["causes"] for cause in causes} & {*noted}
    for limit in range(1, 8):
        forward, after, more = list[int](), 0, True
        while more:
            page = await read(store, after=after, limit=limit)
            more = page["more"] and bool(page["number"])
            forward += page["number"]
            after = (page["number"] or [0])[-1]
        backward, before, more = list[int](), 2**53, True
        while more:
            page = await read(store, before=before, limit=limit)
            more = page["more"] and bool(page["number"])
            backward[:0] = page["number"]
            before = (page["number"] or [0])[0]
        assert forward == backward == shown


def test_the_drawn_types_are_those_of_the_log_and_more() -> None:
    assert set(reading.TYPES) <= set(TYPES)
