"""What answers say of intent, and how long it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories import intents
from relay.airspace.advisories.intents import HOLDS_S, MOST_PATHS, Source, clean, declare, declared, parse
from relay.airspace.readings import Level
from relay.model import Refusal
from relay.model.actions import DeclareIntent
from relay.room.dispatch.roster import Roster
from relay.store.ports import Store, Tx
from tests.airspace.house import House
from tests.airspace.parts import FILE, AirspaceRoom, open_airspace_store, work
from tests.engines import BOTH, SCHEMAS, Clock, all_events, open_store
from tests.room.office import Office


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("INTENT: src/a.py, src/new.py", ("src/a.py", "src/new.py")),
        ("I wait.\n\nintent: src/a.py\n", ("src/a.py",)),
        ("**INTENT:** `src/a.py`, `Makefile`", ("src/a.py", "Makefile")),
        ("- INTENT: src/a.py and src/b.py.", ("src/a.py", "src/b.py")),
        ("INTENT: src/a.py:40-58", ("src/a.py",)),
        ("INTENT: src/a.py (the parser), README.md", ("src/a.py", "README.md")),
        ("INTENT: Makefile", ("Makefile",)),
        ("INTENT: __init__.py, app/(group)/[id].tsx.", ("__init__.py", "app/(group)/[id].tsx")),
        ("INTENT: (src/a.py)", ("src/a.py",)),
        ("INTENT: none", ()),
        ("INTENT: no files.", ()),
        ("INTENT:", ()),
        ("INTENT: src/a.py\nINTENT: src/b.py", ("src/a.py", "src/b.py")),
        ("INTENT: ../etc/passwd, /etc/shadow, src/a.py", ("src/a.py",)),
        ("I leave src/a.py alone and wait.", None),
        ("I go on in `src/a.py`, not in src/b.py.", None),
        ("I am done.", None),
        ("My intent is clear: none of your business", None),
        ("", None),
    ],
)
def test_an_answers_intent(text: str, paths: tuple[str, ...] | None) -> None:
    assert parse(text) == paths


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/../src/a.py", "src/a.py"),
        ("__init__.py", "__init__.py"),
        ("app/(group)/[id].tsx", "app/(group)/[id].tsx"),
        ("a\nb", None),
        ("a\u202eb", None),
        ("\u0645\u06cc\u200c\u0631.txt", "\u0645\u06cc\u200c\u0631.txt"),
        ("src/", "src"),
        (".gitignore", ".gitignore"),
        ("../a", None),
        ("a/../../b", None),
        ("/etc/passwd", None),
        ("~/x", None),
        ("https://example.org/a", None),
        ("C:\\x", None),
        ("", None),
        (".", None),
        ("x" * 500, None),
    ],
)
def test_a_path_stays_inside(path: str, kept: str | None) -> None:
    assert clean(path) == kept


@given(st.text(max_size=200))
def test_nothing_that_an_agent_writes_leaves_the_repository(text: str) -> None:
    for path in parse(f"INTENT: {text}\n{text}") or ():
        assert not path.startswith(("/", "..")) and "/../" not in path and "\0" not in path


def test_no_more_is_kept_than_one_agent_has_in_hand() -> None:
    found = parse("INTENT: " + ", ".join(f"src/{n}.py" for n in range(100)))
    assert found is not None and len(found) == MOST_PATHS


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_airspace_store(tmp_path)
    yield opened
    await opened.close()


async def say(store: Store, source: Source, *paths: str, now: float = 0.0) -> tuple[str, ...]:
    return await store.write(
        lambda tx: declare(tx, DeclareIntent("A", paths), source=source, by="ann", now=now)
    )


async def held(store: Store, now: float = 1.0) -> dict[str, list[str]]:
    found = await store.read(lambda tx: declared(tx, now))
    return {path: sorted(sources) for path, sources in found.get("A", {}).items()}


@BOTH
async def test_a_declaration_replaces_that_of_its_source_and_no_other(store: Store) -> None:
    await say(store, Source.ANSWER, "a.py", "b.py")
    await say(store, Source.COMMAND, "b.py")
    assert await held(store) == {"a.py": ["answer"], "b.py": ["answer", "command"]}
    await say(store, Source.ANSWER)
    assert await held(store) == {"b.py": ["command"]}


@BOTH
async def test_a_command_for_nothing_clears_all(store: Store) -> None:
    await say(store, Source.ANSWER, "a.py")
    await say(store, Source.AGENT, "b.py")
    await say(store, Source.COMMAND)
    assert await held(store) == {}
    last = (await all_events(store, intents.DECLARED))[-1]
    assert last.outputs == {"agent": "A", "paths": [], "source": "command", "by": "ann"}


@BOTH
async def test_it_ends_by_itself(store: Store) -> None:
    await say(store, Source.COMMAND, "a.py")
    assert await held(store, HOLDS_S - 1) == {"a.py": ["command"]}
    assert await held(store, HOLDS_S) == {}


@BOTH
@pytest.mark.parametrize("paths", [("../x",), ("ok.py", "/abs"), tuple(f"{n}.py" for n in range(41))])
async def test_what_is_no_path_is_refused_whole(store: Store, paths: tuple[str, ...]) -> None:
    await say(store, Source.COMMAND, "a.py")
    with pytest.raises(Refusal):
        await say(store, Source.COMMAND, *paths)
    assert await held(store) == {"a.py": ["command"]}


@asynccontextmanager
async def commands(store: Store) -> AsyncIterator[tuple[House, Office]]:
    """A room with an airspace, and a person's commands in it."""
    house = House(AirspaceRoom(store, Clock()))
    room = house.room
    async with Office(store, room.clock, Roster(room.members), airspace=house.live).at_work() as office:
        yield house, office


@BOTH
async def test_people_say_an_intent_in_the_room(store: Store) -> None:
    async with commands(store) as (house, office):
        house.trees.sets = [work("CLAUDE", FILE)]
        answer = await office.ask(f"/intent @codex {FILE} 'docs/a b.md'")
        assert answer.body == f"CODEX intends to touch `{FILE}`, `docs/a b.md`."
        (event,) = await all_events(store, intents.DECLARED)
        assert event.outputs["by"] == "ann" and event.parents
        await house.tick()
        assert (await house.room.only()).level is Level.TRAFFIC
        near = await office.ask("/airspace")
        assert near.body.startswith("**In the airspace:**") and FILE in near.body
        assert (await office.ask("/intent @codex -")).body == "CODEX has no declared intent."
        await house.tick()
        assert (await office.ask("/airspace")).body == "All is clear: only CLAUDE works."


@BOTH
async def test_a_wrong_intent_is_refused_and_changes_nothing(store: Store) -> None:
    async with commands(store) as (house, office):
        answer = await office.ask("/intent @codex ../etc/passwd")
        assert answer.meta["error"] and "not a path inside the repository" in answer.body
        assert await all_events(store, intents.DECLARED) == []
        house.room.settings = replace(house.room.settings, enabled=False)
        assert "switched off" in (await office.ask("/intent @codex a.py")).body
        assert "switched off" in (await office.ask("/airspace")).body


@BOTH
async def test_two_sessions_of_an_agent_have_two_sets(tmp_path: Path) -> None:
    store = await open_store(tmp_path, SCHEMAS)

    async def say(session: str, *paths: str, source: Source = Source.AGENT) -> set[str]:
        async def work(tx: Tx) -> set[str]:
            await declare(
                tx, DeclareIntent("BEN", paths), source=source, by="BEN", now=100.0, session=session
            )
            return set((await declared(tx, 100.0)).get("BEN", {}))

        return await store.write(work)

    assert await say("s-1", "a.py", "both.py") == {"a.py", "both.py"}
    assert await say("s-2", "b.py", "both.py") == {"a.py", "b.py", "both.py"}
    assert await say("s-1", "c.py") == {"b.py", "both.py", "c.py"}
    assert await say("s-1", "d.py", source=Source.ANSWER) == {"b.py", "both.py", "d.py"}, "its own later word"
    assert await say("s-1", "e.py") == {"b.py", "both.py", "e.py"}
    assert await say("s-2") == {"e.py"}
    assert await say("", source=Source.COMMAND) == set(), "a person clears all"
    await store.close()


@BOTH
async def test_what_a_session_declared_ends_with_it(store: Store) -> None:
    for session, path in (("s-1", "a.py"), ("s-2", "b.py")):
        await store.write(
            lambda tx, s=session, p=path: declare(  # type: ignore[misc]
                tx, DeclareIntent("A", (p,)), source=Source.AGENT, by="A", now=0.0, session=s
            )
        )
    ended = [await store.write(lambda tx: intents.end_session(tx, "A", "s-1")) for _ in range(2)]
    assert ended == [True, False]
    assert await held(store) == {"b.py": ["agent"]}
