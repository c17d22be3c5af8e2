"""The tables of the timeline, folded from the log.

Invariant: a row says nothing that its event does not say, and `rebuild` makes every row anew, equal to what was kept
while the events were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane
from relay.model.touches import Kind, Touch
from relay.store.ports import Queries, Store, Tx

Q = Queries(Path(__file__).parent)
FOLDER = Path(__file__).parent
#: The types of the events that say what was done to files, or who was shown them.
CHANGED, READ = "files.changed", "files.read"
#: Those that say that work was taken out of files, brought back and taken out again; and that one came to nothing.
TAKEN_BACK = ("timeline.rewound", "timeline.undone", "timeline.redone")
GIVEN_UP = "timeline.given_up"
#: The worktree, as events name it, of what stands in the main checkout and is not committed.
UNCOMMITTED = "main (uncommitted)"
#: Who writes in a worktree where no turn runs, or several do; and what everybody reads for it.
UNKNOWN_LANE, SOMEONE = Lane("room", "unknown"), "someone unknown"
_PROJECTED = (CHANGED, READ, *TAKEN_BACK, GIVEN_UP)
#: Events of one transaction of a rebuild.
BATCH = 500


async def project(tx: Tx, event: Event) -> None:
    """Add what an event of the timeline says to its tables; in the transaction that appends it."""
    if event.snapshot is not None and "worktree" in event.outputs:
        await tx.execute(
            Q.put_tree,
            worktree=checkout_key(event.outputs["worktree"], event.outputs.get("member", "")),
            tree=event.snapshot,
            commit=event.outputs.get("commit"),
            pos=event.pos,
        )
    if event.type == CHANGED:
        await tx.execute(
            Q.put_touches,
            pos=event.pos,
            lane=event.lane_key,
            seq=event.seq,
            touches=dumps(event.outputs["touches"]),
            unseen=dumps(event.outputs.get("unseen", [])),
        )
    elif event.type in TAKEN_BACK and event.inputs["into"] == "worktree":
        # What it does to the main branch is recorded with the commit there.
        touches = [
            Touch(
                file["path"],
                file["before"],
                file["after"],
                Kind.DELETE if file["after"] is None else Kind.WRITE,
            )
            for file in event.outputs["files"]
            if file["before"] != file["after"]
        ]
        await tx.execute(
            Q.put_touches,
            pos=event.pos,
            lane=event.lane_key,
            seq=event.seq,
            touches=dumps([touch.as_json() for touch in touches]),
            unseen="[]",
        )
    elif event.type == GIVEN_UP:
        operation = await events.get(tx, event.outputs["rewind"])
        if operation is not None:  # else in a log that was brought back without it
            await tx.execute(Q.drop_touches, lane=operation.lane_key, seq=operation.seq)


def checkout_key(worktree: str, member: str) -> str:
    """Under which name the tree of a checkout is kept of which each member of a fleet has its own."""
    return f"{worktree} at {member}" if member else worktree


@dataclass(frozen=True, slots=True)
class KnownTree:
    """What the log last knew of a worktree: its `tree`, the `commit` it stood at (of the main branch only), and the
    id of the event that says so."""

    tree: str
    commit: str | None
    event: str


async def last_tree(tx: Tx, worktree: str, until: int = 2**62, *, member: str = "") -> KnownTree | None:
    """The tree that was last recorded of a worktree, up to this place in the log; None: none was. `member`: whose,
    of one that each member has (`UNCOMMITTED`)."""
    row = await tx.one(Q.last_tree, worktree=checkout_key(worktree, member), until=until)
    return None if row is None else KnownTree(row["tree"], row["at_commit"], row["id"])


async def recorded_commits(tx: Tx, worktree: str, commits: Iterable[str]) -> set[str]:
    """Which of these commits the log has as made or come in this worktree; not where it only went to their branch."""
    rows = await tx.all(Q.recorded_commits, worktree=worktree, commits=dumps(list(commits)))
    return {row["at_commit"] for row in rows if row["source"] != "switch"}


async def known_commits(
    tx: Tx, worktree: str, commits: Iterable[str], branch: str | None
) -> dict[str, KnownTree]:
    """Those of these commits that the log has in this worktree, and where it has them last: made or come, or gone to
    on this `branch`."""
    rows = await tx.all(Q.recorded_commits, worktree=worktree, commits=dumps(list(commits)))
    return {
        row["at_commit"]: KnownTree(row["tree"], row["at_commit"], row["id"])
        for row in rows
        if row["source"] != "switch" or row["branch"] == branch
    }


async def rebuild(store: Store) -> int:
    """Make the tables anew from the log, in one transaction; gives the number of events that they say."""

    async def work(tx: Tx) -> int:
        await tx.execute(Q.clear_touches)
        await tx.execute(Q.clear_trees)
        count = after = 0
        while batch := await events.read_after(tx, after, types=_PROJECTED, limit=BATCH):
            for event in batch:
                await project(tx, event)
            count, after = count + len(batch), batch[-1].pos
        return count

    return await store.write(work)
