"""Recording what was done to files, with the verdict: which writes of others had the author seen?

Invariants:
- the verdict is found in the transaction that records the event, so nobody writes between the two;
- a write of another lane was seen when the author's clock has it, or when its content stood in the author's tree.
  What only the tree shows becomes a causal dependency, so clock order stays reachability (003, 2.2 and 2.5);
- an unseen write is evidence of concurrency, not a conflict, and blocks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.base.vector_clock import merge
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model.touches import Source, Touch, paths_of
from relay.store.ports import Row, Tx
from relay.timeline.projection import CHANGED, READ, UNCOMMITTED, Q, project

#: Edits of a path between two commits that are followed; where there are more, the commit is a write of its own.
MOST_EDITS = 100


@dataclass(frozen=True, slots=True)
class Merged:
    """Whose work came onto the main branch (`of`), and `by` whom: a person, or RELAY."""

    of: tuple[str, ...]
    by: str


@dataclass(frozen=True, slots=True)
class SeenWrites:
    """What an author had seen of the last writes by others. `depends_on`: ids of those that stood in its tree;
    `unseen`: of each path that it wrote blindly, the id of that write."""

    depends_on: tuple[str, ...]
    unseen: tuple[tuple[str, str], ...]


async def record_changes(
    tx: Tx,
    lane: Lane,
    touches: Sequence[Touch],
    *,
    source: Source,
    before: str | None,
    after: str,
    worktree: str = "",
    member: str = "",
    commit: str | None = None,
    parents: Sequence[str] = (),
    role: str | None = None,
    branch: str | None = None,
    committed: Mapping[str, str] | None = None,
    came: Mapping[str, Collection[str | None]] | None = None,
    carried: bool = False,
    merged: Merged | None = None,
    among: Sequence[str] = (),
    trailers: Sequence[tuple[str, str]] = (),
    command: str = "",
) -> Event | None:
    """Append `files.changed`: the lane's author made the tree `after` of the tree `before`. `worktree`: whose, "main"
    with its `commit` for the main branch; `member`: at which member of a fleet, of the main checkout. `committed`: of
    the commit's paths that are in no touch, the events that recorded them before (`committed_edits`). `came`:
    contents of these paths that its author had before them, by a merge. `carried`: the lane brought what others
    wrote, so nothing is said of what it had not seen. `merged`: whose work it was, and who brought it. `among`: it
    was one of these agents, whose turns ran in one checkout. `trailers`: of the commits, (name, value) each.
    `command`: what the lane's shell ran. None when nothing was touched. Raises LaneError."""
    if not touches and not committed:
        return None
    stood = {touch.path: touch.before for touch in touches}
    seen = await seen_writes(tx, lane, stood, parents, came)
    outputs: dict[str, Any] = {"touches": [touch.as_json() for touch in touches], "source": source.value}
    if worktree:
        outputs["worktree"] = worktree
    if member:
        outputs["member"] = member
    if commit:
        outputs["commit"] = commit
    if committed:
        outputs["committed"] = [{"path": path, "event": event} for path, event in sorted(committed.items())]
    if merged is not None:
        outputs["merged"] = {"of": list(merged.of), "by": merged.by}
    if among:
        outputs["among"] = list(among)
    if trailers:
        outputs["trailers"] = [list(trailer) for trailer in trailers]
    if command:
        outputs["command"] = command
    if seen.unseen and not carried:
        outputs["unseen"] = [{"path": path, "event": event} for path, event in seen.unseen]
    new = NewEvent(
        CHANGED,
        lane,
        inputs={"tree": before},
        outputs=outputs,
        parents=parents,
        causal_deps=seen.depends_on,
        role=role,
        branch=branch,
        snapshot=after,
        file_touches=sorted({*paths_of(touches), *(committed or ())}),
    )
    event = await events.append(tx, new)
    await project(tx, event)
    return event


async def committed_edits(tx: Tx, touches: Sequence[Touch], member: str = "") -> dict[str, str]:
    """Of a commit's touches, those that are recorded already, as a person's edits that were not committed then: path
    and the last such event. A chain of such edits leads from what stood before the commit to what stands after it,
    and nobody has written the path on the main branch or in its checkout since. `member`: who looks; what stands in
    the main checkouts of others is passed over."""
    begins = {touch.path: touch.before for touch in touches}
    wanted = {touch.path: touch.after for touch in touches}
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    places = dict.fromkeys(wanted, 2**62)
    for _ in range(MOST_EDITS):
        if not places:
            break
        asked = [{"path": path, "pos": pos} for path, pos in sorted(places.items())]
        rows = await tx.all(Q.last_writes_on_main, places=dumps(asked))
        places = {}
        for row in rows:
            path, outputs = row["path"], json.loads(row["outputs"])
            if outputs.get("worktree") != UNCOMMITTED:
                continue
            if row["after"] != wanted[path]:
                if outputs.get("member", "") != member:
                    places[path] = row["pos"]
                continue
            last.setdefault(path, row["id"])
            if row["before"] == begins[path]:
                found[path] = last[path]
            else:
                wanted[path], places[path] = row["before"], row["pos"]
    return found


async def on_main_already(tx: Tx, touches: Sequence[Touch]) -> set[str]:
    """The paths that the log's last write on the main branch left as these touches do: another commit brought that
    content. What stands in a main checkout alone is passed over."""
    wanted = {touch.path: touch.after for touch in touches if touch.before != touch.after}
    places, found = dict.fromkeys(wanted, 2**62), set[str]()
    for _ in range(MOST_EDITS):
        if not places:
            break
        asked = [{"path": path, "pos": pos} for path, pos in sorted(places.items())]
        rows = await tx.all(Q.last_writes_on_main, places=dumps(asked))
        places = {}
        for row in rows:
            if json.loads(row["outputs"]).get("worktree") == UNCOMMITTED:
                places[row["path"]] = row["pos"]
            elif row["after"] == wanted[row["path"]]:
                found.add(row["path"])
    return found


async def agents_writes(
    tx: Tx,
    touches: Sequence[Touch],
    merged: Mapping[str, str | None] | None = None,
    *,
    uncommitted: bool = False,
) -> dict[str, str]:
    """Of what reached the main branch, what an agent had written before: path and the agent's event. The content
    after the touch is that of an agent's write, and the main branch has not had and lost it since. `merged`: of paths
    that git's own merge made, the content on the side that was merged in, by which they are known too. `uncommitted`:
    it stands in the main checkout alone, whose edits count then."""
    merged = merged or {}
    asked = [
        {"path": touch.path, "after": after, "kind": touch.kind.value}
        for touch in touches
        for after in dict.fromkeys((touch.after, merged.get(touch.path, touch.after)))
    ]
    rows = await tx.all(Q.agent_writes, asked=dumps(asked), open=int(uncommitted)) if asked else []
    exact = {(touch.path, touch.after) for touch in touches}
    # What it is counts before what it was merged of.
    rows = sorted(rows, key=lambda row: (row["path"], row["after"]) in exact)
    return {row["path"]: row["id"] for row in rows}


async def others_writes(tx: Tx, agent: str, contents: Mapping[str, Collection[str | None]]) -> set[str]:
    """Of these paths, with what they may be known by (blob ids, None = deleted), those that another agent wrote so,
    while `agent` has not had and changed it."""
    asked = [{"path": path, "after": after} for path, blobs in contents.items() for after in blobs]
    rows = await tx.all(Q.others_writes, asked=dumps(asked), agent=agent) if asked else []
    return {row["path"] for row in rows}


async def record_reads(
    tx: Tx,
    lane: Lane,
    blobs: Mapping[str, str | None],
    *,
    source: str,
    worktree: str = "",
    tree: str | None = None,
    parents: Sequence[str] = (),
    role: str | None = None,
) -> Event | None:
    """Append `files.read`: the lane's author was shown these paths with these contents (blob ids). It depends on the
    last write by others of each path that it could see. `source`: tool, hook, or merge (the main branch or another
    agent's was taken into `worktree`, where `tree` stands now). None when nothing was read. Raises LaneError."""
    if not blobs:
        return None
    seen = await seen_writes(tx, lane, blobs, parents)
    new = NewEvent(
        READ,
        lane,
        outputs={"paths": sorted(blobs), "source": source} | ({"worktree": worktree} if worktree else {}),
        parents=parents,
        causal_deps=seen.depends_on,
        role=role,
        snapshot=tree,
        file_touches=sorted(blobs),
    )
    event = await events.append(tx, new)
    await project(tx, event)
    return event


async def record_tree(
    tx: Tx,
    lane: Lane,
    worktree: str,
    tree: str,
    *,
    commit: str | None = None,
    parents: Sequence[str] = (),
    source: str = "start",
    branch: str | None = None,
    member: str = "",
    paths: Sequence[str] = (),
    trailers: Sequence[tuple[str, str]] = (),
) -> Event:
    """Append `files.read` for a worktree whose timeline begins anew with this tree: the log knows nothing of it, or
    it was set to the tree (`source`: handoff, retry; switch = to that of another `branch`, which is different at
    these `paths`); or for a commit that changes no file. `member`: see `record_changes`; `trailers`: of the commits.
    Raises LaneError."""
    outputs: dict[str, Any] = {"paths": list(paths), "source": source, "worktree": worktree}
    named = (("commit", commit), ("branch", branch), ("member", member))
    outputs |= {name: value for name, value in named if value}
    if trailers:
        outputs["trailers"] = [list(trailer) for trailer in trailers]
    new = NewEvent(
        READ,
        lane,
        outputs=outputs,
        parents=parents,
        branch=branch,
        snapshot=tree,
        file_touches=list(paths) or None,
    )
    event = await events.append(tx, new)
    await project(tx, event)
    return event


async def seen_writes(
    tx: Tx,
    lane: Lane,
    stood: Mapping[str, str | None],
    causes: Sequence[str] = (),
    came: Mapping[str, Collection[str | None]] | None = None,
) -> SeenWrites:
    """Which of the last writes by other lanes had the lane's author seen, of the paths that `stood` in its tree with
    these contents (blob ids, None = not there)? `causes`: events that it is shown besides; `came`: what a merge has
    brought of these paths."""
    came = came or {}
    rows = await tx.all(Q.last_writes, paths=dumps(sorted(stood)), lane=lane.key)
    if not rows:
        return SeenWrites((), ())
    clock = await events.clock_shown(tx, lane, causes)
    open_rows: list[Row] = []
    depends_on: dict[str, None] = {}
    for row in rows:
        if await events.seen_by(tx, clock, row["lane"], row["seq"]):
            continue
        brought = row["after"] in came.get(row["path"], ())
        if brought or stood[row["path"]] == row["after"]:
            depends_on[row["id"]] = None
            clock = merge(clock, json.loads(row["clock"]))
        else:
            open_rows.append(row)
    # What the author of a write that stood in the tree had seen, its reader has seen too.
    unseen = [
        (row["path"], row["id"])
        for row in open_rows
        if not await events.seen_by(tx, clock, row["lane"], row["seq"])
    ]
    return SeenWrites(tuple(depends_on), tuple(unseen))
