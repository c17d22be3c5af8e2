"""What the daemon's airspace is told by coordination."""

from __future__ import annotations

from pathlib import Path

from relay.airspace.advisories import intents
from relay.airspace.advisories.intents import Source
from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.live.observer import with_intents
from relay.model import Caller
from relay.model.working_set import FileTouch, WorkingSet
from tests import engines
from tests.coordination.conftest import Room
from tests.engines import SCHEMAS, Clock

AGENTS = ("CLAUDE", "CODEX")


async def test_a_lock_is_what_its_holder_is_about_to_touch(tmp_path: Path) -> None:
    clock = Clock()
    room = Room(await engines.open_store(tmp_path, SCHEMAS, clock=clock), clock)
    files = [f"src/{n}.py" for n in range(100)] + ["docs/a.md"]
    held = LockIntents(room.store, room.judge)
    sets = {"CODEX": WorkingSet("CODEX", (FileTouch("lib/deep/x.py"),), intent=(FileTouch("src/99.py"),))}
    assert await held.intents(sets, AGENTS, files) == {}
    await room.locks.acquire(Caller("CLAUDE", "s1"), ["new.py", "lib", "src/*.py", "api:GET /v1"])
    await room.locks.acquire(Caller("bob", "s1"), ["docs"])
    found = await held.intents(sets, AGENTS, files)
    mine = found["CLAUDE"]
    assert list(found) == ["CLAUDE"], "people and others have no working set here"
    assert {"new.py", "lib/deep/x.py", "src/99.py", "src/0.py"} <= mine.keys() and "lib" not in mine
    assert len([path for path in mine if path.startswith("src/")]) == intents.MOST_PATHS
    assert set(mine.values()) == {frozenset({Source.LOCK})}
    made = with_intents(sets, found)["CLAUDE"]
    assert all(touch.locked for touch in made.intent)
    await room.locks.acquire(Caller("CODEX", "s2"), ["nothing/there/*.py"])
    assert list(await held.intents(sets, AGENTS, files)) == ["CLAUDE"], (
        "a pattern that covers no file is no work"
    )
    clock.move(3600.0)
    assert await held.intents(sets, AGENTS, files) == {}
    await room.store.close()
