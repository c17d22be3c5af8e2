"""Changesets: what an agent says it changed, beside what it did change (docs/coordination.md, "Changesets").

Invariants:
- what was changed is git's word and not the agent's; where git cannot tell it is null, never made up;
- what is declared is read as a lock is, and covers a file exactly when a lock on it would be about that file: a path
  covers itself and its subtree, a pattern what it stands for, letters count by case where locks do. A logical key is
  about no file: it covers none, and is never missing;
- a changeset that meets another's lock, or an own lease that ran out, is refused and leaves nothing;
- a row and its event commit together.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uuid_utils

from relay.base.durations import iso
from relay.coordination.locks.service import Locks
from relay.coordination.paths.overlap import stands_for
from relay.coordination.paths.patterns import parse
from relay.coordination.paths.targets import MAX_TARGETS, Target, above
from relay.coordination.sessions import Heartbeat, lane_of
from relay.coordination.writes.fencing import LockCheck, file_target
from relay.coordination.writes.lock_guard import against, ordered, record
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import NewEvent
from relay.model import STALE, Caller, ChangedFiles, Fault, Json, LockRefusal, Refusal
from relay.store.ports import Queries, Row, Store, Tx

FOLDER = Path(__file__).parents[1]
Q = Queries(FOLDER)
RECORDED = "changeset.recorded"
#: Characters of a summary: a long commit message. Declared files of one changeset: more are a folder or a pattern.
#: Rows of one list. The schema of the interfaces says the same numbers (relay/faces/operations/changesets.py).
MOST_SUMMARY = 10_000
MOST_FILES = 1000
MOST_LISTED = 1000


class Changesets:
    """The changesets of the room, as a service. `fold`: the repository's file system folds case."""

    def __init__(
        self,
        store: Store,
        lock_check: LockCheck,
        changes: ChangedFiles,
        heartbeat: Heartbeat,
        locks: Locks,
        *,
        fold: bool = False,
    ) -> None:
        self._store, self._lock_check, self._changes = store, lock_check, changes
        self._heartbeat, self._locks, self._fold = heartbeat, locks, fold

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
        nobody knows what was changed. Raises Refusal."""
        if not summary.strip() or len(summary) > MOST_SUMMARY:
            what = f"is text of 1 to {MOST_SUMMARY:,} characters"
            raise _malformed("summary", what, "Say what you changed.")
        targets = await self._targets(caller, files)
        declared = [target.path for target in targets]
        changed = await self._changes.changed_files(caller.agent, base, head)
        undeclared = missing = None
        if changed is not None:
            compared = await asyncio.to_thread(coverage, targets, changed, fold=self._fold)
            undeclared, missing = compared.undeclared, compared.missing
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
        written = _written(targets, changed, missing or ())
        against_it = await self._store.write(lambda tx: self._put(tx, caller, row, written), actor=caller)
        if against_it:
            raise refused(against_it)
        return {
            "success": True,
            "changeset_id": row["id"],
            "declared": declared,
            "changed": None if changed is None else list(changed),
            "undeclared": undeclared,
            "missing": missing,
        }

    async def _targets(self, caller: Caller, files: Sequence[str]) -> list[Target]:
        if len(files) > MOST_FILES:
            raise _malformed("files", f"are {MOST_FILES:,} at most", "Declare a folder or a pattern.")
        targets = [await self._locks.target(caller, text) for text in files]
        declared = {(target.kind, target.key): target for target in targets}
        if sum(target.kind == "glob" for target in declared.values()) > MAX_TARGETS:
            raise _malformed("files", f"have {MAX_TARGETS} patterns at most", "Declare wider ones.")
        return sorted(declared.values(), key=lambda target: target.path)

    async def _put(
        self, tx: Tx, caller: Caller, row: Json, written: Sequence[str | Target]
    ) -> list[LockRefusal]:
        await self._heartbeat.touch(tx, caller)
        refusals = ordered(
            against(await self._lock_check.refusals(tx, caller, written, row["token"]), caller)
        )
        if refusals:
            await record(tx, caller, refusals, act="changeset")
            return refusals
        now = await tx.now()
        await tx.execute(Q.put_changeset, **row, **caller.ids, now=now)
        changeset = {
            "changeset_id": row["id"],
            "agent_id": caller.agent,
            "session": caller.session,
            "summary": row["summary"],
            "declared": loads(row["declared"]),
            "changed": loads(row["changed"]),
            "undeclared": loads(row["undeclared"]),
        }
        outputs, touches = {"changeset": changeset}, changeset["changed"]
        event = NewEvent(RECORDED, lane_of(caller), outputs=outputs, file_touches=touches)
        await events.append(tx, event)
        return []

    async def list(
        self, caller: Caller, *, session: str | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Json]:
        """The room's, latest first; only of that session, of that agent, or of both."""

        async def look(tx: Tx) -> Sequence[Row]:
            most = max(1, min(limit, MOST_LISTED))
            if session is None and agent is None:
                return await tx.all(Q.latest_changesets, limit=most)
            if session is None:
                return await tx.all(Q.changesets_of_agent, agent=agent, limit=most)
            if agent is None:
                return await tx.all(Q.changesets_of_session, session=session, limit=most)
            return await tx.all(Q.changesets_of_holder, agent=agent, session=session, limit=most)

        return [_shown(row) for row in await self._store.read(look, actor=caller)]


def _written(
    declared: Sequence[Target], changed: Sequence[str] | None, missing: Sequence[str]
) -> list[str | Target]:
    """What locks are asked about: each file by its name. A folder or pattern whose files git names stands for
    these; where nobody knows, for all that it may mean."""
    unknown = changed is None
    asked: dict[str | Target, None] = dict.fromkeys(changed or ())
    for target in declared:
        name = file_of(target)
        if name is None and (unknown or target.kind == "key"):
            asked[target] = None
        elif name is not None and (unknown or target.path in missing):
            asked[name] = None
    return list(asked)


@dataclass(frozen=True, slots=True)
class Coverage:
    """`undeclared`: what was changed and no declaration covers; `missing`: declarations of files that cover nothing
    that was changed, as they are shown."""

    undeclared: list[str]
    missing: list[str]


def coverage(declared: Sequence[Target], changed: Sequence[str], *, fold: bool = False) -> Coverage:
    """`changed`: names as git tells them. `fold`: the file system folds case."""
    paths = {target.key for target in declared if target.kind == "path"}
    globs: dict[str, list[Target]] = defaultdict(list)
    for target in declared:
        if target.kind == "glob":
            globs[target.base or ""].append(target)
    used_globs: set[Target] = set()
    used_paths: set[str] = set()
    undeclared = []
    for path in changed:
        file = file_target(path, fold)
        if file is None:
            undeclared.append(path)
            continue
        folders = above(file.key)
        covering = paths.intersection(folders)
        # Only patterns that begin with a folder of the file can stand for it: of a thousand, a few.
        near = [glob for folder in ("", *folders) for glob in globs.get(folder, ())]
        matching = {glob for glob in near if stands_for(glob.key, file.key)}
        used_paths |= covering
        used_globs |= matching
        if not covering and not matching:
            undeclared.append(path)
    missing = [
        target.path
        for target in declared
        if (target.kind == "path" and target.key not in used_paths)
        or (target.kind == "glob" and target not in used_globs)
    ]
    return Coverage(undeclared, missing)


def file_of(declared: Target) -> str | None:
    """The name of the one file (or folder) that a declaration is; None of a pattern and of a key."""
    return parse(declared.path).literal if declared.kind == "path" else None


def refused(refusals: Sequence[LockRefusal]) -> Refusal:
    """The answer to a changeset that may not be: `locked` or `stale_token`."""
    first = refusals[0]
    details: Json = {
        "locked_by": first.locked_by,
        "expires_at": first.until,
        "file_path": first.path,
        "refusals": [refusal.as_json() for refusal in refusals[:20]],
    }
    if first.code == STALE:
        details["fencing_token"] = first.fencing_token
    return Refusal(first.text, first.fix, code=first.code, details=details)


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
        "created_at": iso(row["created_at"]),
    }


def _malformed(field: str, what: str, fix: str) -> Refusal:
    return Refusal(f"{field} {what}.", fix, Fault.MALFORMED, f"bad_{field}")
