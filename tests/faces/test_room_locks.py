"""What agents hold, as the room shows it and as a person takes it: over the real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.coordination.locks import wait_line
from relay.coordination.locks.lock import lock_request
from relay.coordination.paths.targets import targets
from relay.faces.room_locks import RoomHolds
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from relay.room.journal.frames import frames_of
from relay.store.ports import Tx
from tests.coordination.desk import over
from tests.engines import Clock, all_events
from tests.room.parts import open_room

CLAUDE, CODEX, BEN = Caller("CLAUDE", "c1"), Caller("CODEX", "x1"), Caller("BEN", "b1")


async def test_what_is_held_and_who_waits(tmp_path: Path) -> None:
    clock = Clock()
    store = await open_room(tmp_path, clock=clock)
    desk = over(store, clock)
    locks, sessions, holds = desk.locks, desk.sessions, RoomHolds()

    async def held() -> list[tuple[Any, ...]]:
        told = await store.read(holds.locks)
        return [(one["file_path"], one["locked_by"], [w["agent"] for w in one["waiting"]]) for one in told]

    async def take(path: str, reason: str = "mine") -> list[dict[str, Any]]:
        return list(
            await store.write(
                lambda tx: holds.force_release(tx, ForceRelease(path, reason), by="ann", cause=())
            )
        )

    try:
        await locks.acquire(CLAUDE, ["src/auth/**"], reason="a new door")
        clock.move(10)
        await locks.acquire(CODEX, ["docs/a.md"], mode="shared", ttl_s=60)

        async def stand(tx: Tx) -> None:
            await wait_line.stand(tx, BEN, lock_request(targets(["src/auth/session.py"])), clock() + 60)
            await wait_line.stand(
                tx, CODEX, lock_request(targets(["docs/a.md"]), mode="shared"), clock() + 60
            )

        await store.write(stand)
        assert await held() == [("src/auth/**", "CLAUDE", ["BEN"]), ("docs/a.md", "CODEX", [])]
        for path, met in (
            ("src/auth/deep/session.py", ["src/auth/**"]),
            ("src/authors.py", []),
            ("*/a.md", ["docs/a.md"]),
            ("docs/b.md", []),
        ):
            told = await store.read(lambda tx, path=path: holds.meeting(tx, path))  # type: ignore[misc]
            assert [one["file_path"] for one in told] == met, path
        living = await store.read(holds.sessions)
        assert [(one["agent_id"], one["alive"], one["locks"]) for one in living] == [
            ("CODEX", True, 1),
            ("CLAUDE", True, 1),
        ]
        for path, reason, fix in (
            (
                "src/auth/session.py",
                "exactly `src/auth/session.py`",
                "What meets it: `src/auth/**` (CLAUDE).",
            ),
            ("docs/b.md", "exactly `docs/b.md`", "Near it: `docs/a.md` (CODEX)."),
            ("lib/x.py", "exactly `lib/x.py`", "`/locks` shows the locks."),
            ("../x.py", "", ""),
        ):
            with pytest.raises(Refusal) as refused:
                await take(path)
            assert reason in refused.value.message and fix in refused.value.fix
        assert [one["locked_by"] for one in await take("./src//auth/**", "it's mine now")] == ["CLAUDE"]
        assert await held() == [("docs/a.md", "CODEX", [])]
        (forced,) = await all_events(store, "lock.forced")
        (frame,) = frames_of(forced)
        assert (frame.data["change"], frame.data["by"], frame.data["lock"]["file_path"]) == (
            "forced",
            "ann",
            "src/auth/**",
        )
        # What ends by its lease ends without a word; a session's end is told.
        clock.move(61)
        assert await held() == []
        await sessions.end(CODEX)
        (ended,) = await all_events(store, "session.ended")
        (frame,) = frames_of(ended)
        assert (frame.type, frame.data["change"]) == ("session", "ended")
        assert frame.data["session"]["agent_id"] == "CODEX"
        assert [one["agent_id"] for one in await store.read(holds.sessions)] == ["CLAUDE"]
    finally:
        await store.close()
