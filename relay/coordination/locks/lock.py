"""A lock, the answers about it, and the bounds of what may be asked (docs/coordination.md, "Locks"). Pure values.

Invariant: an answer that says no names who is in the way and until when, always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal

from relay.base.durations import iso, since, within
from relay.coordination.locks.conflict_precheck import NO_COMPARISON, Comparison
from relay.coordination.locks.wording import capital, named
from relay.coordination.paths.overlap import stands_for
from relay.coordination.paths.targets import Target
from relay.model import Fault, Json, Refusal
from relay.store.ports import Row

Mode = Literal["exclusive", "shared"]
#: Seconds that a lock lasts: at least, at most, and where nobody says.
MIN_TTL_S, MAX_TTL_S, DEFAULT_TTL_S = 1.0, 8 * 3600.0, 1800.0
#: Seconds that a request may stand in line (docs/coordination.md).
MAX_WAIT_S = 300.0
#: Characters of a reason.
MAX_REASON = 1000


#: The columns of a target, and those of a lock behind its target, in the order of their fields.
_TARGET = itemgetter("kind", "key", "path", "base")
_LOCK = itemgetter(
    *("agent_id", "session_id", "mode", "fencing_token", "reason", "acquired_at", "renewed_at", "expires_at"),
    *("task_id", "forced_by", "forced_why", "lost_at"),
)


@dataclass(frozen=True, slots=True)
class Lock:
    """A row of `file_locks`; times are Unix seconds."""

    target: Target
    agent: str
    session: str
    mode: Mode
    token: int
    reason: str | None
    acquired_at: float
    renewed_at: float
    expires_at: float
    task_id: str | None = None
    forced_by: str | None = None
    forced_why: str | None = None
    lost_at: float | None = None

    @classmethod
    def of_row(cls, row: Row) -> Lock:
        return cls(Target(*_TARGET(row)), *_LOCK(row))

    @property
    def path(self) -> str:
        return self.target.path

    def concerns(self, file: Target) -> bool:
        """Is the lock about this file? A path may be a folder and meets patterns of what is below; a file is none.
        A target that is no path concerns what it meets."""
        if self.target.kind == "glob" and file.kind == "path":
            return stands_for(self.target.key, file.key)
        return file.meets(self.target.kind, self.target.key)

    @property
    def holder(self) -> tuple[str, str]:
        """The agent and its session."""
        return self.agent, self.session

    @property
    def ids(self) -> dict[str, str]:
        """What tells its row from others, as statements name it."""
        return {**self.target.ids, "agent": self.agent, "session": self.session}

    def until(self, now: float) -> str:
        """When its lease ends, and how long that is yet."""
        return f"{iso(self.expires_at)} (free in {within(self.expires_at, now)})"

    @property
    def over_at(self) -> float:
        """When its lease ends or ended, even if another session has taken the lock over since."""
        return self.expires_at if self.lost_at is None else self.lost_at

    def sentence(self, wanted: Target, now: float, reader: str = "") -> str:
        """Who holds what was wanted, until when and for how long yet, for the agent `reader`."""
        about = "" if self.path == wanted.path else f", through the lock on {self.path}"
        why = f" ({self.reason})" if self.reason else ""
        who = capital(named(self.agent, self.session, reader))
        return f"{who} holds {wanted.path}{about}{why} until {self.until(now)}."

    def as_json(self) -> Json:
        """LOCK (docs/coordination.md)."""
        return {
            "file_path": self.path,
            "locked_by": self.agent,
            "session": self.session,
            "mode": self.mode,
            "fencing_token": self.token,
            "reason": self.reason,
            "acquired_at": iso(self.acquired_at),
            "expires_at": iso(self.expires_at),
            "kind": self.target.kind,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """A holder lost what it held, and did not give it back. `at`: when (Unix seconds); `by`: the person who took it,
    and why; None: nobody took it, its lease was over."""

    at: float
    by: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A row of `lock_waits`; `id` is the place in line, `until` when it gives up."""

    id: int
    agent: str
    session: str
    wanted: tuple[Target, ...]
    mode: Mode
    since: float
    until: float

    @property
    def holder(self) -> tuple[str, str]:
        return self.agent, self.session

    def as_json(self) -> Json:
        return {
            "agent": self.agent,
            "session": self.session,
            "file_paths": [target.path for target in self.wanted],
            "mode": self.mode,
            "since": iso(self.since),
            "until": iso(self.until),
        }


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What is asked for: all of `targets` (in order, each once) or none, for `ttl_s` seconds. `compared`: what of the
    locks on record was compared with it already."""

    targets: tuple[Target, ...]
    mode: Mode = "exclusive"
    ttl_s: float = DEFAULT_TTL_S
    reason: str | None = None
    task_id: str | None = None
    compared: Comparison = field(default=NO_COMPARISON, compare=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """All that was asked for is held, in the order of the request. `fresh`: the tokens of the leases that are new."""

    locks: tuple[Lock, ...]
    fresh: frozenset[int]

    def as_json(self) -> Json:
        first = self.locks[0]
        return {
            "success": True,
            "action": "acquired" if self.fresh else "refreshed",
            "file_path": first.path,
            "expires_at": iso(min(lock.expires_at for lock in self.locks)),
            "fencing_token": first.token,
            "mode": first.mode,
            "locks": [lock.as_json() for lock in self.locks],
        }


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing was taken: at `now`, `by` is in the way of `target`. A `Wait` is an earlier one in line.
    `position`: the place in line (1 = the next), None = the caller `reader` stands in none; `cycle`: who would wait
    for whom, from the caller on."""

    target: Target
    by: Lock | Wait
    now: float
    reason: Literal["locked", "queued", "deadlock", "timeout"] = "locked"
    position: int | None = None
    cycle: tuple[Json, ...] = ()
    reader: str = ""

    @property
    def until(self) -> float:
        """When the lock or the wait in the way ends, as far as that is known (Unix seconds)."""
        return self.by.expires_at if isinstance(self.by, Lock) else self.by.until

    def as_json(self) -> Json:
        answer: Json = {
            "success": False,
            "action": "blocked",
            "reason": self.reason,
            "file_path": self.target.path,
            "locked_by": self.by.agent,
            "locked_by_session": self.by.session,
            "expires_at": iso(self.until),
            "message": self._message(),
            "fix": self._fix(),
        }
        if isinstance(self.by, Lock):
            answer["held"] = self.by.as_json()
        else:
            answer["waiting"] = self.by.as_json()
        if self.position is not None:
            answer["position"] = self.position
        if self.cycle:
            answer["cycle"] = list(self.cycle)
        return answer | {"error": {"code": self.reason, "message": answer["message"], "fix": answer["fix"]}}

    def in_line(self) -> str:
        """Where in line it stands and behind whom, in two sentences."""
        mine = self.by.agent == self.reader
        who = named(self.by.agent, self.by.session, self.reader) if mine else self.by.agent
        return f"{_ordinal(self.position or 1)} in line behind {who}. {self._message()}"

    def _message(self) -> str:
        path = self.target.path
        if self.cycle:
            steps = ", ".join(
                f"{step['agent']} for {step['waits_for']} of {step['held_by']}" for step in self.cycle
            )
            return f"Waiting for {path} would be a deadlock: {steps}."
        if isinstance(self.by, Wait):
            by = self.by
            until = f"it waits at most {within(by.until, self.now)} longer"
            who = capital(named(by.agent, by.session, self.reader))
            return f"{who} is ahead of you in line for a path that overlaps {path}; {until}."
        return self.by.sentence(self.target, self.now, self.reader)

    def _fix(self) -> str:
        if self.cycle:
            return "Release what you hold that the others wait for, then ask again."
        if self.reason == "timeout":
            return "Ask again, or work on something else."
        return "Work on something else, or wait in line with wait_seconds."


@dataclass(frozen=True, slots=True)
class Repeated:
    """A request that was done before, by its idempotency key: what it was answered then."""

    answer: Json

    def as_json(self) -> Json:
        return self.answer


Outcome = Granted | Blocked


@dataclass(frozen=True, slots=True)
class WriteVerdict:
    """May this file be written now? `locked`: `lock` is another's; `stale`: `lock` is the caller's own, whose
    lease is over (None: no lock of that token is left)."""

    path: str
    verdict: Literal["ok", "locked", "stale"]
    lock: Lock | None = None
    token: int | None = None

    def message(self, now: float) -> str:
        """One sentence for the session that wanted to write; empty when it may."""
        if self.verdict == "ok":
            return ""
        if self.lock is None:
            return f"The lease of fencing token {self.token} is over."
        if self.verdict == "locked":
            who = named(self.lock.agent, self.lock.session)
            return f"{self.path} is locked by {who} until {self.lock.until(now)}."
        return lost(self.lock, now)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def lost(lock: Lock, now: float) -> str:
    """How this lease was lost, and how long ago, in one sentence."""
    at = f"{iso(lock.over_at)} ({since(lock.over_at, now)})"
    if lock.forced_by is not None:
        why = f": {lock.forced_why}" if lock.forced_why else ""
        return f"{lock.forced_by} took your lock on {lock.path} away at {at}{why}."
    return f"Your lease on {lock.path} ran out at {at}; others may have changed it since."


def stale(lock: Lock, now: float) -> Refusal:
    """The answer to a session that acts on a lease that it lost."""
    details: Json = {"file_path": lock.path, "fencing_token": lock.token}
    if lock.forced_by is not None:
        details |= {"lost": "forced", "forced_by": lock.forced_by, "forced_why": lock.forced_why}
    else:
        details |= {"lost": "expired", "expired_at": iso(lock.over_at)}
    fix = "Acquire it again, and look at what changed before you write."
    return Refusal(lost(lock, now), fix, code="stale_token", details=details)


def lock_request(
    targets: Sequence[Target],
    *,
    mode: str = "exclusive",
    ttl_s: float | None = None,
    reason: str | None = None,
    task_id: str | None = None,
) -> LockRequest:
    """A request within the bounds. Raises Refusal (malformed)."""
    if mode not in ("exclusive", "shared"):
        raise _malformed("bad_mode", f"There is no mode {mode!r}.", "exclusive or shared.")
    reason = checked_reason(reason) if reason else None
    ttl = seconds("ttl_minutes", DEFAULT_TTL_S if ttl_s is None else ttl_s, MIN_TTL_S, MAX_TTL_S)
    exclusive: Mode = "exclusive" if mode == "exclusive" else "shared"
    return LockRequest(tuple(targets), exclusive, ttl, reason, task_id)


def checked_reason(reason: str) -> str:
    """A reason within its bounds. Raises Refusal (malformed)."""
    if not isinstance(reason, str) or not 0 < len(reason.strip()) <= MAX_REASON:
        fix = f"1 to {MAX_REASON} characters of text."
        raise _malformed("bad_reason", "The reason is empty, too long or not text.", fix)
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise _malformed("bad_reason", "The reason is not valid Unicode.", "Give it as UTF-8 text.") from None
    return reason.replace("\0", "")


def seconds(name: str, value: float, low: float, high: float) -> float:
    """A length of time within its bounds; `name` says in which unit it was given. Raises Refusal (malformed)."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        unit, size = ("minutes", 60) if name.endswith("_minutes") else ("seconds", 1)
        shown = f"{value / size:g} {unit}" if number else repr(value)
        least = "0.0166 (a second)" if size == 60 else f"{low:g}"
        bounds = f"Give {least} to {high / size:g} {unit}."
        raise _malformed(f"bad_{name}", f"{name}: {shown} is out of range.", bounds)
    return float(value)


def _malformed(code: str, message: str, fix: str) -> Refusal:
    return Refusal(message, fix, Fault.MALFORMED, code)
