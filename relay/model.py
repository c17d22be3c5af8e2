"""The values and Protocols that the wings share.

Invariant: everything here is a plain value or a Protocol; nothing here does I/O and nothing here knows a
wing. A wing that needs another one takes the Protocol, and the composition root (`relay.daemon`) fills it in.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from relay.spans import since, within

STEWARD = "RELAY"
DISPATCHER = "DISPATCHER"
#: Names nobody may post under; the names of the configured agents come on top.
RESERVED_NAMES = frozenset({STEWARD, DISPATCHER, "ALL"})

#: What a key may allow: to read, to hold locks, to take and end work, to remember, to speak in the room; `admin` is
#: an operator's: keys, others' sessions; with a person's key, forced release too.
SCOPES = frozenset({"read", "locks", "work", "memory", "room"})
ADMIN = "admin"

#: Longest client_id of a message, in characters.
MAX_CLIENT_ID = 128
#: Where a task of the board can stand.
TASK_STATUSES = ("pending", "in_progress", "done")


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's program that relay knows: what people call it, and the commands that install it and sign in."""

    title: str
    install: str
    sign_in: str


#: By the preset's name in the configuration.
PROGRAMS: Mapping[str, Program] = {
    "claude": Program("Claude Code", "npm install -g @anthropic-ai/claude-code", "claude auth login"),
    "codex": Program("Codex", "npm install -g @openai/codex", "codex login"),
    "gemini": Program("Gemini CLI", "npm install -g @google/gemini-cli", "gemini"),
}


class Kind(StrEnum):
    """Who an entry of the transcript is from."""

    HUMAN = "human"
    AGENT = "agent"
    SYSTEM = "system"
    DISPATCHER = "dispatcher"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the transcript.

    `id` is a UUIDv7 and `number` the room's short number for people to quote (`#12`); `ts` is ISO 8601 in
    UTC, for display only; `cursor` is the entry's place in the room, growing, 0 while it has none.
    `to` holds the names that were addressed, `job` the dispatch job that an answer ends.
    """

    id: str
    ts: str
    speaker: str
    kind: Kind
    body: str
    number: int = 0
    cursor: int = 0
    in_reply_to: str | None = None
    to: tuple[str, ...] = ()
    job: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The entry as every door shows it."""
        return {
            "id": self.id,
            "number": self.number,
            "ts": self.ts,
            "speaker": self.speaker,
            "kind": str(self.kind),
            "body": self.body,
            "in_reply_to": self.in_reply_to,
            "to": list(self.to),
            "job": self.job,
            "meta": dict(self.meta),
            "cursor": str(self.cursor),
        }


class FailureClass(StrEnum):
    """Why a turn did not end well; the class decides what the queue and the breaker do with it."""

    NOT_INSTALLED = "not_installed"
    NOT_SIGNED_IN = "not_signed_in"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    CRASH = "crash"
    EMPTY = "empty"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """`timeout_s`: seconds of wall time for the whole turn. `max_output_bytes`: of text that is kept."""

    timeout_s: float = 600.0
    max_output_bytes: int = 1_048_576


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent is asked to do, once.

    `prompt` is the message (or the messages that arrived while it worked) that asks; `context` the part of
    the room it has not seen yet, oldest first, as text. `resume` is the agent's own conversation id from an
    earlier turn, None for a new conversation; `room_session` is what the agent's processes get as
    RELAY_SESSION_ID. `root` is the top of the checkout that `cwd` is in, None = `cwd` itself. `may_edit` is true
    only when the agent has a worktree of its own. `interrupted` is true when an earlier attempt at this very
    turn was cut off: the agent must be told, since its work may be half done.
    """

    agent: str
    prompt: str
    context: str = ""
    cwd: Path | None = None
    root: Path | None = None
    resume: str | None = None
    room_session: str = ""
    may_edit: bool = False
    interrupted: bool = False
    job: int | None = None
    limits: TurnLimits = field(default_factory=TurnLimits)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of the answer, to be appended to what came before."""

    text: str


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the code that a tool named.

    `path` as the tool named it: absolute, or relative to the turn's folder. `lines`: the first and the last
    one, 1-based, both included, as the file is now; None = the whole file, as far as anybody knows. `writes`:
    the tool changes it (False: it only reads), None = unknown.
    """

    path: str
    lines: tuple[int, int] | None = None
    writes: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolPart:
    """The agent used a tool; `summary` is one line for people, `paths` the files it named.

    `locations` says more of these files, where the agent tells it. With an empty `name` these are further
    places of a tool that was told before.
    """

    name: str
    summary: str = ""
    paths: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()

    @property
    def places(self) -> tuple[Location, ...]:
        """Every file that it named, with what is known of it."""
        known = {location.path for location in self.locations}
        return (*self.locations, *(Location(path) for path in self.paths if path not in known))


@dataclass(frozen=True, slots=True)
class UsagePart:
    """What the turn has cost so far, as the agent reports it; a later part replaces an earlier one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The agent's own conversation id, to resume with at the next turn."""

    id: str


@dataclass(frozen=True, slots=True)
class LogPart:
    """A line of the agent's diagnostics (its standard error), for its log in the page."""

    line: str


@dataclass(frozen=True, slots=True)
class EndPart:
    """Exactly one ends every stream, and it is the last part.

    `failure` is None when the turn ended well; `detail` then is empty, else one or two sentences a person
    can act on. `text`, when given, is the whole answer and replaces the pieces. `retry_at` is a Unix time
    in seconds, known for some rate limits. `truncated` says that output beyond the limit was dropped.
    """

    failure: FailureClass | None = None
    detail: str = ""
    text: str | None = None
    retry_at: float | None = None
    truncated: bool = False


Part = TextPart | ToolPart | UsagePart | SessionPart | LogPart | EndPart


@dataclass(frozen=True, slots=True)
class Availability:
    """Can this agent take a turn now? `fix` is the command that would make it so."""

    installed: bool
    detail: str = ""
    fix: str = ""
    version: str = ""


class Agent(Protocol):
    """A way to run one agent. The queue sees only this."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def probe(self) -> Availability:
        """Look whether the agent can run, without starting a turn. Never raises."""
        ...

    def run(self, turn: Turn) -> AsyncIterator[Part]:
        """Run one turn. Closing the iterator (or cancelling its task) ends every process it started."""
        ...


#: What a write is refused for: another session holds a lock on the file, or this session's own lease ran out.
LOCKED = "locked"
STALE = "stale_token"


@dataclass(frozen=True, slots=True)
class LockRefusal:
    """Why a session may not write `path`: `code` is LOCKED or STALE, `lock` the locked path, pattern or folder.

    `locked_by` and `session`: who holds it (STALE: who held it, which is the asker). `expires_at`: Unix seconds, when
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
        by = "" if self.lock == self.path else f" (by its lock on {self.lock})"
        ago = left = ""
        if self.expires_at is not None and self.now is not None:
            ago = f" ({since(self.expires_at, self.now)})"
            left = f" (free in {within(self.expires_at, self.now)})"
        if self.code == STALE:
            return f"Your lock on {self.lock} ran out at {self.until}{ago}, so {self.path} is not yours to change."
        why = f': "{self.why}"' if self.why else ""
        return f"{self.path} is locked by {self.locked_by}{by} until {self.until}{left}{why}."

    @property
    def fix(self) -> str:
        """What would let the write through."""
        if self.code == STALE:
            return "Acquire it again and look at the file anew before you change it, or release it."
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
    this one."""

    steer: bool = False
    reason: str = ""
    advisory: str | None = None
    lock: LockRefusal | None = None

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
        told: dict[str, Any] = {"decision": decision, "reason": self.reason, "advisory": self.advisory}
        for key in ("locked_by", "session", "file_path", "expires_at", "fencing_token"):
            told[key] = None if self.lock is None else self.lock.as_json()[key]
        return told


class Guard(Protocol):
    """Answers before an agent's edit: does a lock, or a standing resolution advisory, stand against it?"""

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        """`location.path` is relative to the root of the agent's worktree, with `/`. `session`: the agent's, None =
        not known. Quick: an edit waits."""
        ...


class Unguarded:
    """The guard of a room whose airspace is switched off: nothing is contested."""

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        return GuardDecision(reason="The airspace is switched off.")


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
        None: nobody knows (the agent has no worktree). Raises Rejected (MALFORMED) for a revision that is none."""
        ...


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One answer to a permission request. `kind`: allow_once, allow_always, reject_once, reject_always."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What an agent asks a person for: `title` is one line, `tool` the kind of tool (edit, execute, ...)."""

    agent: str
    title: str
    tool: str = "other"
    paths: tuple[str, ...] = ()
    options: tuple[PermissionOption, ...] = ()
    advisory: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """The option that was chosen, by whom. `option` None: nobody chose one, for the `reason`."""

    option: PermissionOption | None
    by: str = ""
    reason: str = ""


class Permits(Protocol):
    """Asks the people of the room on behalf of an agent."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        """Wait for a person's answer, for `timeout_s` seconds at most; at once without one when nobody is
        there to answer. Cancelling the wait takes the request back."""
        ...


class Nobody:
    """Stands in for the people of a room that has no door to ask them by."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        return PermissionAnswer(None, reason="nobody is connected who could answer")


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where one turn works. `may_edit`: the folder is the agent's own. `root`: the top of its checkout, when `cwd`
    is a folder in it; None = `cwd` itself."""

    cwd: Path
    may_edit: bool
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What one turn changed in its agent's worktree: on which branch, how many files and lines."""

    branch: str
    files: int
    insertions: int
    deletions: int

    def as_json(self) -> dict[str, Any]:
        """The value of an answer's `meta.worktree`."""
        return {
            "branch": self.branch,
            "files": self.files,
            "insertions": self.insertions,
            "deletions": self.deletions,
        }


class Workplaces(Protocol):
    """Who gives agents a place to work in. Neither method raises."""

    async def before_turn(self, agent: str) -> Workplace | None:
        """Where the turn that begins now works; None: where its configuration says."""
        ...

    async def after_turn(self, agent: str) -> Changes | None:
        """What the turn that ends now changed; None: nothing, or nobody knows."""
        ...


class Refusal(Exception):
    """A request that the domain refuses: nothing was changed. `fix` says what would make it succeed."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(f"{reason} {fix}".strip())
        self.reason = reason
        self.fix = fix


class Fault(StrEnum):
    """What kind of answer a request that was not done gets; each door has its own form for each."""

    #: The domain says no (a lock is held, the task is not yours): an answer, `{success: false, reason, ...}`.
    REFUSED = "refused"
    #: The request itself is wrong: a missing field, a bad id, a path outside of the root.
    MALFORMED = "malformed"
    #: An id or a path that is none of this room's.
    UNKNOWN = "unknown"
    #: The caller may not: another's identity, or a scope that its key lacks.
    FORBIDDEN = "forbidden"
    #: Not just now: the store is locked or away, or a limit is reached.
    BUSY = "busy"
    #: Not until a person mends something: the store cannot be read, is another relay's, or its disk is full.
    UNAVAILABLE = "unavailable"


class Rejected(Refusal):
    """An operation that was not done, and changed nothing.

    `code` is for programs (`stale_token`), `message` one sentence for people, `fix` what would make it succeed;
    `details` are further fields of the answer (JSON values).
    """

    def __init__(
        self, fault: Fault, code: str, message: str, fix: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, fix)
        self.fault = fault
        self.code = code
        self.message = message
        self.details = dict(details or {})

    def as_json(self) -> dict[str, Any]:
        """The answer, the same on every door."""
        error = {"code": self.code, "message": self.message, "fix": self.fix}
        return {"success": False, "reason": self.code, "message": self.message, "fix": self.fix} | (
            self.details | {"error": error}
        )


#: What a session's id may be: it stands in lanes ("session/lane"), headers and the environment.
SESSION_ID = re.compile(r"[A-Za-z0-9._:@+~-]{1,128}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for an operation: an agent (or a person) in one session.

    The pair of `agent` and `session` is the holder of locks and claims (INTERFACES, "MCP and sessions").
    `process`: the session is this process's own and ends with it; else it was given (RELAY_SESSION_ID, a header, a
    key's default) and ends by its lease. `person`: may overrule agents. `scopes`: what its key allows; `key`: the
    public id of the API key that it came with, None = it came with none.
    """

    agent: str
    session: str
    agent_type: str = "agent"
    process: bool = False
    person: bool = False
    scopes: frozenset[str] = SCOPES
    key: str | None = None

    def __post_init__(self) -> None:
        if not SESSION_ID.fullmatch(self.session):
            raise Rejected(
                Fault.MALFORMED,
                "bad_session",
                f"{self.session[:60]!r} is no session id.",
                "It has 1 to 128 letters, digits and . _ : @ + ~ -",
            )


class BoardTask(Protocol):
    """A task as the board shows it."""

    @property
    def number(self) -> int: ...

    def as_json(self) -> dict[str, Any]: ...


class BoardChange(Protocol):
    """A change of the board that was made."""

    @property
    def task(self) -> BoardTask: ...

    def summary(self) -> str: ...


class Board(Protocol):
    """The tasks of the room. Every method runs in the caller's transaction (`tx`); `lane` is the lane of who
    does it and `cause` the ids of the events that made them. Each raises Refusal."""

    async def create(
        self, tx: Any, title: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def move(
        self, tx: Any, number: int, to: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def move_all(
        self, tx: Any, to: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def rename(
        self, tx: Any, number: int, title: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def clear_all(self, tx: Any, *, by: str, lane: Any, cause: Sequence[str] = ()) -> BoardChange: ...

    async def undo(self, tx: Any, *, by: str, lane: Any, cause: Sequence[str] = ()) -> BoardChange: ...

    async def list(self, tx: Any) -> Sequence[BoardTask]: ...

    async def among(self, tx: Any, ids: Sequence[str]) -> Sequence[BoardTask]:
        """Those of these tasks (by their ids) that stand on the board."""
        ...

    async def story(self, tx: Any, number: int) -> Mapping[str, Any]:
        """A task with all that is known of it, as JSON: as on the board, with `input_data`, `result` and its
        `history`: `[{id, at, by, change, status, note}]`, oldest first; `more`: it began earlier."""
        ...


class Holds(Protocol):
    """What agents hold, as the room shows it and its commands ask for it. Every method runs in the caller's
    transaction (`tx`)."""

    async def locks(self, tx: Any) -> Sequence[Mapping[str, Any]]:
        """Every LOCK that holds now (docs/coordination.md), the oldest first, with `waiting`: who stands in line
        for something that meets it, `[{agent, session, since, until}]`, in order."""
        ...

    async def meeting(self, tx: Any, path: str) -> Sequence[Mapping[str, Any]]:
        """The LOCKs that hold now and meet `path` (a path, a pattern or a key), by the overlap that locks are decided
        by. Raises Refusal when it is no such thing."""
        ...

    async def sessions(self, tx: Any) -> Sequence[Mapping[str, Any]]:
        """Every SESSION that lives now, the latest first."""
        ...

    async def force_release(
        self, tx: Any, path: str, *, by: str, reason: str, cause: Sequence[str] = ()
    ) -> Sequence[Mapping[str, Any]]:
        """Take the locks that meet `path` from their holders, for a person; gives them as they were. Raises
        Refusal when nothing there is held, with what is that is near."""
        ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message that was put into the room, and the event that recorded it."""

    id: str
    number: int
    event_id: str


class Voice(Protocol):
    """How a wing speaks in the room. Every method runs in the caller's transaction (`tx`)."""

    async def reach(self, tx: Any, names: Sequence[str]) -> Mapping[str, str | None]:
        """Who of these can be given a turn now: "" = can; a text = why this agent cannot; None = no agent of the
        configuration (a person)."""
        ...

    async def say(
        self,
        tx: Any,
        body: str,
        *,
        now: float,
        lane: Any,
        to: Sequence[str] = (),
        ask: Sequence[str] = (),
        cause: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Spoken:
        """An advisory from the room itself. `to` are those it addresses; `ask` the agents that get a turn for it,
        through breaker and budget like any. It opens no cycle, and neither do the answers to it. `now`: Unix
        seconds; `lane`: the (short) lane that it is recorded on."""
        ...

    async def withdraw(
        self, tx: Any, message_id: str, reason: str, *, now: float, agents: Sequence[str]
    ) -> Sequence[str]:
        """Take back the turns of these agents that wait for this message; gives whose. One that runs goes on."""
        ...

    async def message(self, tx: Any, message_id: str) -> Message | None: ...


class Airspace(Protocol):
    """What the room's commands ask of the airspace."""

    async def declare(
        self, tx: Any, agent: str, paths: Sequence[str], *, by: str, cause: Sequence[str] = ()
    ) -> Sequence[str]:
        """Replace what an agent says it is about to touch; no paths = nothing. Gives the paths as they are kept.
        Runs in the caller's transaction. Raises Refusal."""
        ...

    def who_is_near(self) -> str:
        """Who is near whom now, as markdown for the room."""
        ...
