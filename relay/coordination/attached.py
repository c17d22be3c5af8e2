"""People's own sessions of Claude Code and Codex that `relay attach` let into the room (docs/attach.md).

Invariants:
- a session (`id`) is the program's own. In the room it is the agent `agent` in the session `session`, so its locks
  and tasks are its own, also beside another window of the same person. Where one process goes on with another
  conversation (`/clear`), that one keeps both;
- of those that are not gone no two have one name. A name is kept until its session is gone;
- what a session does (`state`, `tool`, `paths`) is what its program's hooks last said. It is no fact of the log: its
  beginning and its end are (`session.started`, `session.ended`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from relay.coordination.sessions import Q
from relay.log.encoding import dumps, loads
from relay.model.speaker_names import MAX_AGENT_NAME, reads_like
from relay.store.ports import Row, Tx

#: Seconds after which a session that is gone is forgotten. Until then it may be resumed, under its name.
FORGET_S = 14 * 86400.0
#: Paths that are kept of a session, the latest.
MOST_PATHS = 20


class Doing(StrEnum):
    """What a person's own session does."""

    WORKING = "working"
    #: It asked its person something.
    WAITING = "waiting"
    IDLE = "idle"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class AttachedSession:
    """A row of `attached_sessions`; times are Unix seconds. `process`: what `parent_process.Record` calls one, as
    JSON, "" = not known."""

    program: str
    id: str
    agent: str
    session: str
    person: str
    checkout: str
    branch: str
    state: Doing
    since: float
    started_at: float
    heard_at: float
    tool: str = ""
    paths: tuple[str, ...] = ()
    process: str = ""

    @classmethod
    def of_row(cls, row: Row) -> AttachedSession:
        return cls(
            row["program"],
            row["id"],
            row["agent_id"],
            row["session_id"],
            row["person"],
            row["checkout"],
            row["branch"],
            Doing(row["state"]),
            row["since"],
            row["started_at"],
            row["heard_at"],
            row["tool"],
            tuple(loads(row["paths"])),
            row["process"],
        )


async def find(tx: Tx, program: str, id: str) -> AttachedSession | None:
    row = await tx.one(Q.attached, program=program, id=id)
    return None if row is None else AttachedSession.of_row(row)


async def before_in(tx: Tx, program: str, process: str, after: float) -> AttachedSession | None:
    """The last session of this process that ended since then."""
    row = await tx.one(Q.attached_before, program=program, process=process, after=after)
    return None if row is None else AttachedSession.of_row(row)


async def here(tx: Tx) -> list[AttachedSession]:
    """Those that are not gone, the oldest first."""
    return [AttachedSession.of_row(row) for row in await tx.all(Q.attached_here)]


async def gone_before(tx: Tx, before: float) -> list[AttachedSession]:
    """Those that are gone since before this time, the oldest first."""
    return [AttachedSession.of_row(row) for row in await tx.all(Q.attached_gone, before=before)]


async def names(tx: Tx) -> list[str]:
    """The names of all, gone or not."""
    return [row["agent_id"] for row in await tx.all(Q.attached_names)]


async def forget(tx: Tx) -> None:
    """Take out what nobody resumes any more."""
    await tx.execute(Q.forget_attached, before=await tx.now() - FORGET_S)


async def put(tx: Tx, session: AttachedSession) -> None:
    await tx.execute(
        Q.put_attached,
        program=session.program,
        id=session.id,
        agent=session.agent,
        session=session.session,
        person=session.person,
        checkout=session.checkout,
        branch=session.branch,
        state=str(session.state),
        since=session.since,
        started_at=session.started_at,
        heard_at=session.heard_at,
        tool=session.tool,
        paths=dumps(list(session.paths)),
        process=session.process,
    )


def free_name(person: str, program: str, taken: Collection[str]) -> str:
    """The first name that is nobody's: `ada-claude`, then `ada-claude-2`. One word, so that a message can name it."""
    for number in range(1, len(taken) + 2):
        end = f"-{program}" if number == 1 else f"-{program}-{number}"
        name = f"{'-'.join(person.split())[: MAX_AGENT_NAME - len(end)]}{end}"
        if not any(reads_like(name, other) for other in taken):
            break
    return name


def with_paths(before: tuple[str, ...], more: Collection[str]) -> tuple[str, ...]:
    """The latest paths, each once, the newest last."""
    return tuple(dict.fromkeys([*(path for path in before if path not in more), *more]))[-MOST_PATHS:]
