"""Imports: what a line may say, what becomes of it, and that the same again adds nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.coordination.idempotency import once
from relay.log.verify import verify
from relay.memory.episodic import importing
from relay.memory.episodic.importing import MOST_LINE, import_lines, read_line
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.experience import Experience
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH, Clock, all_events

SCHEMAS = engines.wings("log", "coordination", "memory", "knowledge")
ANN, B = Caller("ann", "cli", "person", person=True), Caller("CODEX", "b1")
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
LINE = {"event_type": "fix", "summary": "never mock the clock", "at": "2023-05-08T13:56:00Z"}


def line(**more: Any) -> str:
    return json.dumps(LINE | more)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=Clock(NOW))
    yield store
    assert await verify(store) == []
    await store.close()


def memory_of(store: Store) -> EpisodicMemory:
    return EpisodicMemory(store, sessions=Beats(), once=once)


async def told(store: Store, asked: str, **more: Any) -> list[dict[str, Any]]:
    return await memory_of(store).recall(B, asked, **more)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("{", "not JSON"),
        ("nonsense", "not JSON"),
        ("[" * 100_000, "JSON"),
        ("[1]", "no JSON object"),
        ('"text"', "no JSON object"),
        (line(sumary="x"), "Unknown field 'sumary'"),
        (line(imported_by="ann"), "Unknown field"),
        (json.dumps({"event_type": "fix"}), "`summary` is missing"),
        (json.dumps({"summary": "x"}), "`event_type` is missing"),
        (line(summary=None), "`summary` is missing"),
        (line(summary=" "), "empty"),
        (line(summary=7), "not text"),
        (line(summary="x" * 4097), "4096"),
        (line(summary="a\0b"), "NUL"),
        (line(summary="\udc80"), "surrogate"),
        ('{"event_type": "fix", "summary": "x", "details": NaN}', "JSON value"),
        (line(details="x" * 300_000), "bytes"),
        (line(details=json.loads("[" * 400 + "]" * 400)), "levels deep"),
        (line(key="ghp_" + "a1B2" * 9), "looks like a key"),
        (line(agent="ghp_" + "a1B2" * 9), "looks like a key"),
        (line(summary="x" * MOST_LINE), "longer than"),
        (line(event_type="x" * 65), "64"),
        (line(outcome="x" * 201), "200"),
        (line(lessons="one"), "not a list"),
        (line(tags=[1]), "not text"),
        (line(key=""), "empty"),
        (line(key="x" * 201), "200"),
        (line(key="a\nb"), "invisible character U+000A"),
        (line(key="relay:1"), "relay's own"),
        (line(session=7), "not text"),
        (line(agent="x\x1b[31m"), "invisible"),
        (line(agent="RELAY"), "the room's own name"),
        (line(agent="re1ay"), "the room's own name"),
        (line(at="2023-05-08T13:56:00"), "without an offset"),
        (line(at="2023-05-08"), "without an offset"),
        (line(at="yesterday"), "no time"),
        (line(at=1683554160), "no time"),
        (line(at="2027-01-15T08:00:01Z"), "lies ahead"),
        (line(at="2027-01-15T08:59:59+00:30"), "lies ahead"),
        (line(at="9999-12-31T23:59:59-14:00"), "lies ahead"),
        (line(at="0001-01-01T00:00:00+14:00"), "before 1970"),
    ],
)
def test_a_line_is_refused_with_a_reason_and_a_fix(said: str, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_line(said, "ann", NOW)
    assert refused.value.fault is Fault.MALFORMED
    assert reason in refused.value.message
    assert refused.value.fix


def test_a_line_says_whose_and_when() -> None:
    read = read_line(
        line(agent=" Mel ", session="session 1", at="2023-05-08T15:56:00.5+02:00", key="D1:1"), "ann", NOW
    )
    assert (read.agent, read.session, read.key, read.imported_by) == ("Mel", "session 1", "D1:1", "ann")
    assert read.at == 1_683_554_160.5
    plain = read_line(
        {"event_type": "fix", "summary": "x", "at": None, "details": [1, {"a": None}]}, "ann", NOW
    )
    assert (plain.agent, plain.session, plain.key, plain.at) == ("ann", "", None, NOW)
    assert plain.experience.details == (1, {"a": None})


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(importing.FIELDS) | st.text(), inner),
    )
    | st.text()
)
def test_whatever_a_line_says_it_is_read_or_refused(said: Any) -> None:
    try:
        read_line(said, "ann", NOW)
    except Refusal as refusal:
        assert refusal.fault is Fault.MALFORMED


@BOTH
async def test_good_lines_are_kept_and_each_bad_one_is_named(store: Store) -> None:
    lines = [
        line(key="a"),
        "",
        "{",
        line(key="b", summary="deploys need the VPN", agent="Mel"),
        line(at="2023-05-08"),
        {**LINE, "key": "c", "summary": "the cache is cold"},
    ]
    done = await memory_of(store).import_lines(ANN, lines, first=11)
    assert (done["imported"], done["merged"], done["known"]) == (3, 0, 0)
    assert [(refused["line"], set(refused)) for refused in done["refused"]] == [
        (13, {"line", "reason", "fix"}),
        (15, {"line", "reason", "fix"}),
    ]
    [found] = await told(store, "VPN")
    assert (found["agent_id"], found["keys"], found["created_at"]) == (
        "Mel",
        ["b"],
        "2023-05-08T13:56:00.000Z",
    )
    shown = await memory_of(store).show(B, found["memory_id"])
    assert (shown["imported_by"], shown["content"], shown["merged"]) == ("ann", "deploys need the VPN", 0)
    assert await memory_of(store).show(B, f"r{found['number']}") == shown
    for name in ("r99", "99", "nobody", "m1", shown["memory_id"][:8]):
        with pytest.raises(Refusal) as refused:
            await memory_of(store).show(B, name)
        assert (refused.value.fault, refused.value.code) == (Fault.UNKNOWN, "unknown_memory")
    event = (await all_events(store))[1].outputs["memory"]
    assert (event["agent_id"], event["key"], event["imported_by"]) == ("Mel", "b", "ann")


@BOTH
async def test_import_twice_adds_nothing(store: Store) -> None:
    lines = [line(key=f"k{number}", summary=f"lesson {number}") for number in range(450)]
    lines += [json.dumps({"event_type": "note", "summary": f"unnamed {number}"}) for number in range(10)]
    lines += [lines[-1], line(summary="lesson 0", at="2023-05-08T14:00:00Z")]  # the same of within an hour
    first = (await import_lines(store, ANN, lines)).as_json()
    assert first == {"imported": 460, "merged": 2, "known": 0, "refused": []}
    log = await all_events(store)
    again = (await import_lines(store, ANN, lines)).as_json()
    assert again == {"imported": 0, "merged": 0, "known": 462, "refused": []}
    # Whoever imports it.
    assert (await import_lines(store, B, lines[:450])).known == 450
    assert await all_events(store) == log
    assert [found["keys"] for found in await told(store, "unnamed 3")][:1] == [[]]


@BOTH
async def test_merging_goes_by_when_it_happened_and_keeps_all_keys(store: Store) -> None:
    at = [
        "2023-05-08T13:00:00Z",
        "2023-05-08T15:30:00+02:00",
        "2023-05-08T12:00:01Z",
        "2023-05-08T18:00:00Z",
        "2023-05-08T11:00:02+00:00",
    ]
    lines = [line(key=key, at=time, lessons=[key]) for key, time in zip("abcde", at, strict=True)]
    lines.append(line(key="f", at=at[0], agent="Mel"))
    assert (await import_lines(store, ANN, lines)).as_json() | {"refused": 0} == {
        "imported": 3,
        "merged": 3,
        "known": 0,
        "refused": 0,
    }
    found = {tuple(each["keys"]): each for each in await told(store, "mock the clock")}
    assert set(found) == {("a", "b", "c", "e"), ("d",), ("f",)}
    assert found["a", "b", "c", "e"]["lessons"] == ["a", "b", "c", "e"]
    assert found["a", "b", "c", "e"]["created_at"] == "2023-05-08T11:00:02.000Z"


@BOTH
async def test_an_import_changes_nothing_that_another_has_told(store: Store) -> None:
    """Else whoever may import could add lessons to what its author said, and nobody would be told."""
    summary = "the gate stays closed at night"
    own = NewMemory(Experience("message", summary), "ann", "room", NOW - 60)
    await store.write(lambda tx: keep(tx, own))
    more = line(
        event_type="message", summary=summary, agent="ann", lessons=["open it"], at="2027-01-15T07:59:00Z"
    )
    mallory = Caller("MALLORY", "s")
    for importer, merged in ((mallory, 0), (mallory, 1), (ANN, 1)):
        more_of_it = json.dumps(json.loads(more) | {"tags": [str(merged), importer.agent]})
        assert (await import_lines(store, importer, [more_of_it])).merged == merged, importer
    memories = await told(store, summary)
    of = {memory["imported_by"]: memory for memory in memories}
    assert set(of) == {None, "MALLORY"}
    assert of[None]["lessons"] == ["open it"] and of[None]["tags"] == ["1", "ann"]
    assert of["MALLORY"]["tags"] == ["0", "MALLORY", "1"]


@BOTH
async def test_what_looks_like_a_token_is_masked(store: Store) -> None:
    token = "ghp_" + "a1B2" * 9
    await import_lines(
        store,
        ANN,
        [line(key="a", event_type=f"x {token}", summary=f"the token is {token}", details={"env": token})],
    )
    [found] = await told(store, "token")
    assert token not in str(found) and token not in str(await all_events(store))


@BOTH
async def test_one_file_by_four_at_once_is_imported_once(tmp_path: Path) -> None:
    lines = [line(key=f"k{number}", summary=f"lesson {number}") for number in range(60)]
    lines += [
        line(key=f"m{number}", summary=f"lesson {number}", lessons=["x"]) for number in range(0, 60, 10)
    ]
    stores = [await engines.open_store(tmp_path, SCHEMAS) for _ in range(4)]
    try:
        done = await asyncio.gather(*(import_lines(store, ANN, lines) for store in stores))
        assert sum(each.imported for each in done) == 60
        assert sum(each.merged for each in done) == 6
        assert sum(each.known for each in done) == 3 * 66
        assert len(await all_events(stores[0])) == 66
        assert await verify(stores[0]) == []
    finally:
        for store in stores:
            await store.close()
