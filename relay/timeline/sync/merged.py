"""The event that joins two rooms' timelines (003, section 3.5).

Invariants:
- it is recorded when both sides went on: of this room's newest change of files and another room's, neither has seen
  the other. Of the same two it is recorded once;
- it has both as its causes, and its snapshot is git's own merge of the two main branches, which is kept. Conflicts
  are data: no branch and no file moves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from relay.git.checkout import head_of
from relay.git.kept_snapshots import KeptSnapshots, ref_component
from relay.git.remotes import fetch_branch
from relay.git.run import Git
from relay.git.trial_merge import merge_trees
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent, from_row
from relay.log.imported import PREFIX, replica_id
from relay.store.ports import Store, Tx
from relay.timeline.others import with_origins
from relay.timeline.projection import CHANGED, Q

MERGED = "timeline.merged"
#: Where the main branch of a remote stands here.
MAINS = "refs/relay/mains/"
#: Changes of others that are looked through for the newest of each room.
MOST_LOOKED = 500


@dataclass(frozen=True, slots=True)
class _Mains:
    """The main branches as they were merged: this room's commit and the remote's (None: it has none), the `tree`
    (None: they have no common history), and the paths in conflict."""

    ours: str
    theirs: str | None
    tree: str | None
    conflicts: tuple[str, ...] = ()


async def merge_timelines(
    store: Store, git: Git, scratch: Git, kept: KeptSnapshots, by: Lane, remote: str
) -> Event | None:
    """Record that the timelines of this room and of those that were pulled came together; None where one of them
    has seen all of the other, or it is recorded. `git`: in the main checkout, `scratch`: in a scratch of it. Raises
    GitError."""
    if not await store.read(_diverged):
        return None
    mains = await _merge_mains(git, scratch, remote)
    if mains is not None and mains.tree is not None:
        parents = [mains.ours, *([mains.theirs] if mains.theirs else [])]
        await kept.keep(mains.tree, parents, lane=by.key, reason="timelines merged", at=time.time())

    async def work(tx: Tx) -> Event | None:
        heads = await _diverged(tx)
        if not heads:
            return None
        outputs: dict[str, Any] = {"heads": heads, "conflicts": list(mains.conflicts) if mains else []}
        inputs = {"remote": remote, "ours": mains and mains.ours, "theirs": mains and mains.theirs}
        new = NewEvent(
            MERGED,
            by,
            inputs=inputs,
            outputs=outputs,
            parents=list(heads.values()),
            snapshot=mains.tree if mains else None,
            file_touches=sorted(mains.conflicts) if mains else None,
        )
        return await events.append(tx, new)

    return await store.write(work)


async def _diverged(tx: Tx) -> dict[str, str]:
    """This room's newest change and those of the replicas that went on beside it, by replica; empty: none did, or it
    is recorded."""
    own = await _newest(tx, CHANGED, 1)
    if not own:
        return {}
    mine = own[0][0]
    theirs: dict[str, Event] = {}
    for event, replica in await _newest(tx, f"{PREFIX}{CHANGED}", MOST_LOOKED):
        if replica is not None and _lamport(event) > _lamport(theirs.get(replica)):
            theirs[replica] = event
    heads = {await replica_id(tx) or "": mine.id}
    for replica, event in sorted(theirs.items()):
        if not await events.has_seen(tx, mine, event) and not await events.has_seen(tx, event, mine):
            heads[replica] = event.id
    last = await _newest(tx, MERGED, 1)
    if len(heads) == 1 or (last and last[0][0].outputs["heads"] == heads):
        return {}
    return heads


async def _newest(tx: Tx, type: str, limit: int) -> list[tuple[Event, str | None]]:
    """The newest events of a type, each with the replica that recorded it, None = this room."""
    rows = await tx.all(Q.newest_of_types, types=dumps([type]), after=0, before=2**62, limit=limit)
    positions = dumps([row["pos"] for row in rows])
    found = await with_origins(tx, await tx.all(Q.events_at, positions=positions))
    return [(from_row(row), replica) for row, replica in found]


def _lamport(event: Event | None) -> tuple[int, str]:
    return (-1, "") if event is None else (sum(event.clock.values()), event.id)


async def _merge_mains(git: Git, scratch: Git, remote: str) -> _Mains | None:
    """git's merge of the main branch here and of the one at the remote; None: there is no main branch here."""
    head = await head_of(git)
    if head.branch is None or head.commit is None:
        return None
    ours = head.commit
    theirs = await fetch_branch(git, remote, head.branch, f"{MAINS}{ref_component(remote)}")
    own = await git.line("rev-parse", f"{ours}^{{tree}}")
    if theirs is None:
        return _Mains(ours, None, own)
    merged = await merge_trees(scratch, ours, theirs)
    if merged is None:
        return _Mains(ours, theirs, None)
    return _Mains(ours, theirs, merged.tree, merged.conflicts)
