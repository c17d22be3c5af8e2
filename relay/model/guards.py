"""The answer to an agent that is about to change a file, and what it is decided by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from relay.base.durations import since, within
from relay.base.terminal_text import flat
from relay.model.turns import Location

#: What a write is refused for: another session holds a lock on the file, or this session's own lease ran out.
LOCKED = "locked"
STALE = "stale_token"
#: Refused because it depends on which session of the agent's writes, and that is not known.
WHICH = "which_session"
#: What lets such a write through (docs/guard.md, "Who is about to write").
WHICH_FIX = (
    "Write from the program itself, or from a shell that it opened: the relay mcp that it started identifies those. "
    "Elsewhere set RELAY_SESSION_ID: the tool `who` shows yours (you.session_id)."
)


@dataclass(frozen=True, slots=True)
class LockRefusal:
    """Why a session may not write `path`: `code` is LOCKED, STALE or WHICH; `lock`: the locked path or pattern.

    `locked_by` and `session`: who holds it (STALE: who held it, which is the asker; WHICH: the asker's name, and no
    session). `expires_at`: Unix seconds, when
    the lease ends or ended; None = not known. `why`: what the holder wants it for. `said`: the locks' own sentence.
    `now`: of the store's clock, when it was asked.
    """

    code: str
    path: str
    lock: str
    locked_by: str
    session: str
    expires_at: float | None
    fencing_token: int | None
    why: str = ""
    said: str = ""
    now: float | None = field(default=None, compare=False)

    @property
    def until(self) -> str | None:
        """`expires_at` as ISO 8601 in UTC, in whole seconds."""
        if self.expires_at is None:
            return None
        return datetime.fromtimestamp(self.expires_at, UTC).isoformat(timespec="seconds")

    @property
    def text(self) -> str:
        """One sentence for people and models."""
        if self.said:
            return self.said
        path, lock = flat(self.path), flat(self.lock)
        by = "" if lock == path else f" (by its lock on {lock})"
        ago = left = ""
        if self.expires_at is not None and self.now is not None:
            ago = f" ({since(self.expires_at, self.now)})"
            left = f" (free in {within(self.expires_at, self.now)})"
        if self.code == STALE:
            return f"Your lock on {lock} ran out at {self.until}{ago}, so {path} is not yours to change."
        why = f': "{flat(self.why)}"' if self.why else ""
        return f"{path} is locked by {self.locked_by}{by} until {self.until}{left}{why}."

    @property
    def fix(self) -> str:
        """What would let the write through."""
        if self.code == STALE:
            return f"Acquire {self.lock} again and look at the file again before you change it."
        if self.code == WHICH:
            return WHICH_FIX
        return (
            f"Take other work first, wait for it (acquire_lock with wait_seconds), or ask {self.locked_by}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "code": self.code,
            "file_path": self.lock,
            "locked_by": self.locked_by,
            "session": self.session,
            "expires_at": self.until,
            "fencing_token": self.fencing_token,
            "reason": self.why,
            "message": self.text,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class GuardDecision:
    """May an agent change this file now? `steer`: no, for the `reason`, by the advisory of that id; `lock`: no, for
    this one. `note`: yes, and the agent is to know this."""

    steer: bool = False
    reason: str = ""
    advisory: str | None = None
    lock: LockRefusal | None = None
    note: str = ""

    @property
    def refused(self) -> bool:
        return self.steer or self.lock is not None

    @classmethod
    def of_lock(cls, lock: LockRefusal) -> GuardDecision:
        return cls(reason=f"{lock.text} {lock.fix}", lock=lock)

    def as_json(self) -> dict[str, Any]:
        """As `POST /api/guard` answers (docs/guard.md)."""
        decision = "steer" if self.steer else "allow"
        if self.lock is not None:
            decision = "stale" if self.lock.code == STALE else "locked"
        answer: dict[str, Any] = {"decision": decision, "reason": self.reason, "advisory": self.advisory}
        for key in ("code", "locked_by", "session", "file_path", "expires_at", "fencing_token"):
            answer[key] = None if self.lock is None else self.lock.as_json()[key]
        if self.note:
            answer["note"] = self.note
        return answer


class Guard(Protocol):
    """Answers before an agent's edit: does a lock, or a standing resolution advisory, stand against it?"""

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        """`location.path` is relative to the root of the agent's worktree, with `/`. `session`: the agent's, None =
        not known. Quick: an edit waits."""
        ...

    def runs(self, agent: str, command: str) -> None:
        """A command of a shell that was asked about may run: what is written next may be its doing."""
        ...


class Unguarded:
    """The guard of a room whose airspace is switched off: nothing is contested."""

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        return GuardDecision(reason="The airspace is switched off.")

    def runs(self, agent: str, command: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class HeldPath:
    """A lock that holds now, as far as other wings ask: an agent's, on a `path` or a pattern of paths. `covers` says
    of a file whether it is meant; `file`: it names one path, not a pattern."""

    agent: str
    session: str
    path: str
    covers: Callable[[str], bool]
    file: bool = True
    exclusive: bool = True


class ChangedFiles(Protocol):
    """What git says that was changed."""

    async def changed_files(
        self, agent: str, base: str | None = None, head: str | None = None
    ) -> Sequence[str] | None:
        """The paths that differ between the two revisions (both sides of a rename), with one of them left out up
        to, or from, where the agent stands; with none what the agent's worktree holds beyond the main branch.
        None: nobody knows (the agent has no worktree). Raises Refusal (MALFORMED) for a revision that is none."""
        ...
