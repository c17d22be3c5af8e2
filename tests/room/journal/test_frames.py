"""What connected clients are told."""

from __future__ import annotations

from relay.room.journal.frames import latest
from relay.room.journal.values import Frame


def lock(pos: int, change: str, path: str = "a.py", holder: str = "CLAUDE", session: str = "c") -> Frame:
    told = {"file_path": path, "locked_by": holder, "session": session}
    return Frame(pos, "lock", {"change": change, "lock": told, "by": holder})


def test_of_each_lock_only_the_last_change_is_told() -> None:
    session = Frame(6, "session", {})
    frames = [
        lock(1, "acquired"),
        lock(2, "released"),
        Frame(3, "entry", {"id": "x"}),
        lock(4, "acquired", holder="CODEX"),
        lock(5, "acquired", session="other"),
        session,
        lock(7, "acquired"),
        lock(8, "acquired", path="b.py"),
        lock(9, "forced", holder="CODEX"),
    ]
    assert [frame.cursor for frame in latest(frames)] == [3, 5, 6, 7, 8, 9]
    assert latest([]) == []
    # An end of its session stays before the lease that came after it.
    assert latest([lock(1, "acquired"), session, lock(7, "acquired")]) == [session, lock(7, "acquired")]
