"""Changesets: what an agent says it changed, beside what it did change.

Invariants:
- what was changed is git's word and not the agent's; where git cannot tell it is null, never made up;
- a changeset that meets another's lock, or an own lease that ran out, is refused and leaves nothing;
- a row and its event commit together.

(Issue 3, "Sessions and changesets"; 004, "changesets"; docs/coordination.md.)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uuid_utils

from relay.coordination.guard import Judge, against, ordered, record
from relay.log import events
from relay.log.events import Lane, NewEvent, dumps, loads
from relay.log.store import Queries, Row, Store, Tx
from relay.model import STALE, Caller, ChangedFiles, Fault, LockRefusal, Rejected

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
RECORDED = "changeset.recorded"
#: Characters of a summary (as of a remembered one), declared files of one changeset, and rows of one list.
MOST_SUMMARY = 4000
MOST_FILES = 10_000
MOST_LISTED = 500

Json = dict[str, Any]
#: The heartbeat of a call, in its transaction.
Touch = Callable[[Tx, Caller], Awaitable[object]]
#: One spelling of a path that an agent names; raises Rejected.
Canonical = Callable[[str], str]


class Changesets:
    """`relay.faces.services.ChangesetsApi`."""

    def __init__(
        self, store: Store, judge: Judge, changes: ChangedFiles, touch: Touch, canonical: Canonical
    ) -> None:
        self._store, self._judge, self._changes = store, judge, changes
        self._touch, self._canonical = touch, canonical

    async def record(
        self,
        caller: Caller,
        summary: str,
        files: Sequence[str],
        *,
        base: str | None = None,
        head: str | None = None,
        fencing_token: int | None = None,
    ) -> Json:
        """`{success: true, changeset_id, declared, changed, undeclared, missing}`; the last three are null when
        nobody knows what was changed. Raises Rejected."""
        if not summary.strip() or len(summary) > MOST_SUMMARY:
            raise _malformed("summary", f"is text of 1 to {MOST_SUMMARY} characters", "Say what you changed.")
        if len(files) > MOST_FILES:
            raise _malformed("files", f"are {MOST_FILES} at most", "Declare a folder.")
        declared = sorted({self._canonical(path) for path in files})
        changed = await self._changes.changed_files(caller.agent, base, head)
        undeclared = None if changed is None else outside(changed, declared)
        missing = None if changed is None else untouched(declared, changed)
        row: Json = {
            "id": str(uuid_utils.uuid7()),
            "summary": summary,
            "declared": dumps(declared),
            "changed": dumps(None if changed is None else list(changed)),
            "undeclared": dumps(undeclared),
            "base": base,
            "head": head,
            "token": fencing_token,
        }
        written = declared if changed is None else list(dict.fromkeys([*changed, *declared]))
        found = await self._store.write(lambda tx: self._put(tx, caller, row, written), actor=caller)
        if found:
            raise refused(found)
        return {
            "success": True,
            "changeset_id": row["id"],
            "declared": declared,
            "changed": None if changed is None else list(changed),
            "undeclared": undeclared,
            "missing": missing,
        }

    async def _put(self, tx: Tx, caller: Caller, row: Json, written: Sequence[str]) -> list[LockRefusal]:
        await self._touch(tx, caller)
        found = ordered(against(await self._judge.refusals(tx, caller, written, row["token"]), caller))
        if found:
            await record(tx, caller, found, act="changeset")
            return found
        now = await tx.now()
        await tx.execute(Q.put_changeset, **row, agent=caller.agent, session=caller.session, now=now)
        told = {
            "changeset_id": row["id"],
            "agent_id": caller.agent,
            "session": caller.session,
            "summary": row["summary"],
            "declared": loads(row["declared"]),
            "changed": loads(row["changed"]),
            "undeclared": loads(row["undeclared"]),
        }
        touches = told["changed"]
        await events.append(
            tx,
            NewEvent(
                RECORDED,
                Lane(caller.session, caller.agent),
                outputs={"changeset": told},
                file_touches=touches,
            ),
        )
        return []

    async def list(self, caller: Caller, *, session: str | None = None, limit: int = 100) -> Sequence[Json]:
        """Of one session of the caller's, or all of the room's, latest first."""

        async def look(tx: Tx) -> Sequence[Row]:
            most = max(1, min(limit, MOST_LISTED))
            if session is None:
                return await tx.all(Q.latest_changesets, limit=most)
            return await tx.all(Q.changesets_of_session, agent=caller.agent, session=session, limit=most)

        return [_shown(row) for row in await self._store.read(look, actor=caller)]


def outside(changed: Sequence[str], declared: Sequence[str]) -> list[str]:
    """What was changed and not declared; who declares a folder declares all below it."""
    named = frozenset(declared)
    return [path for path in changed if not any(above in named for above in _above(path))]


def untouched(declared: Sequence[str], changed: Sequence[str]) -> list[str]:
    """What was declared and not changed."""
    seen = {above for path in changed for above in _above(path)}
    return [path for path in declared if path not in seen]


def _above(path: str) -> list[str]:
    """The path and the folders that it is in, in the spelling of what is declared: git's may be in NFD."""
    names = unicodedata.normalize("NFC", path).split("/")
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]


def refused(found: Sequence[LockRefusal]) -> Rejected:
    """The answer to a changeset that may not be: `locked` or `stale_token`."""
    first = found[0]
    details: Json = {
        "locked_by": first.locked_by,
        "expires_at": first.until,
        "file_path": first.path,
        "refusals": [one.as_json() for one in found[:20]],
    }
    if first.code == STALE:
        details["fencing_token"] = first.fencing_token
    return Rejected(Fault.REFUSED, first.code, first.text, first.fix, details)


def _shown(row: Row) -> Json:
    return {
        "changeset_id": row["id"],
        "agent_id": row["agent_id"],
        "session": row["session_id"],
        "summary": row["summary"],
        "declared": loads(row["declared"]),
        "changed": loads(row["changed"]),
        "undeclared": loads(row["undeclared"]),
        "base": row["base"],
        "head": row["head"],
        "fencing_token": row["fencing_token"],
        "created_at": events.now_iso(datetime.fromtimestamp(row["created_at"], UTC)),
    }


def _malformed(field: str, what: str, fix: str) -> Rejected:
    return Rejected(Fault.MALFORMED, f"bad_{field}", f"{field} {what}.", fix)
