"""What was taken back, as events and as a stack: undo takes the newest rewind, then the one before it.

Invariants:
- an operation (a rewind, an undo, a redo) is one event that is recorded before anything is written; until it is
  settled its row is `begun`, so a process that starts knows what to finish. What could not be done is given up by an
  event of its own, and is as if it had not been asked for;
- of each member one operation is under way at a time, in checkouts of its own;
- nothing leaves the log: an undo is an event on top, and a rewind that was undone can be redone;
- the table `rewinds` is a projection: but for what is begun, `rebuild` makes it anew from the log.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model.refusals import Refusal
from relay.store.ports import Row, Store, Tx
from relay.timeline import projection
from relay.timeline.file_changes import record_tree
from relay.timeline.projection import BATCH, Q, project

#: The types of the events; `given_up` names the operation that came to nothing.
REWOUND, UNDONE, REDONE = projection.TAKEN_BACK
GIVEN_UP = projection.GIVEN_UP
#: What takes an operation back, as people give it at the command line.
UNDO, REDO = "relay timeline undo", "relay timeline redo"
#: Where a rewind may be made: on a new branch, in the agent's worktree, on the main branch.
INTO = ("new", "worktree", "main")
_HEADS = "refs/heads/"


class Target(StrEnum):
    """Where an operation writes: an agent's own worktree, the main branch and its checkout, or a branch that is
    checked out nowhere."""

    WORKTREE = "worktree"
    MAIN = "main"
    BRANCH = "branch"


class State(StrEnum):
    """`partly`: an undo that left files in conflict, and a rewind of which that is the last one that stands: its next
    undo is about these files."""

    BEGUN = "begun"
    DONE = "done"
    PARTLY = "partly"
    UNDONE = "undone"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of `rewinds`. `rewind`: the place in the log of the rewind that it is about (its own `pos` for a rewind).
    `place`: the folder of the checkout, or the branch's ref. `base`: the commit that its commit stands on; None in a
    worktree. `before`, `after`: the trees. `removed`: ids of the events of which it left nothing."""

    pos: int
    event: str
    kind: str
    rewind: int
    lane: str
    target: Target
    place: str
    base: str | None
    before: str
    after: str
    removed: tuple[str, ...]
    state: State
    author: str


@dataclass(frozen=True, slots=True)
class NewOperation:
    """An operation that is to begin. `of`: the event of the rewind that is undone or redone, None for a rewind.
    `worktree`: the name under which the log knows the worktree that is written; empty = none is.
    `answer`: what is answered, without its event's id. `lane`: what is taken back, as it was asked for;
    `author`: who asks, on `by`. `causes`: the newest events that it takes out;
    `removed`: those of which nothing stays. `source_key`: makes it happen once. `member`: of the fleet, on whose
    machine `place` is."""

    kind: str
    of: str | None
    lane: str
    to: str
    target: Target
    place: str
    base: str | None
    before: str
    after: str
    answer: dict[str, Any]
    author: str
    by: Lane
    causes: Sequence[str] = field(default=())
    removed: Sequence[str] = field(default=())
    worktree: str = ""
    source_key: str | None = None
    member: str = ""


async def begin(tx: Tx, new: NewOperation) -> Event:
    """Record that it begins. Raises Refusal while another one of this member is under way, or another member's about
    the same rewind, and where `of` was settled meanwhile."""
    about = None if new.of is None else await tx.one(Q.rewind_of_event, event=new.of)
    for operation, member in await _all_begun(tx):
        # Another member's is in files of its own, on its machine: it is in nobody's way, also when that one is lost.
        if member is None or member == new.member:
            raise Refusal("Something else is being taken back just now.", "Try again when it is done.")
        if about is not None and about["pos"] == operation.rewind:
            raise Refusal(
                f"The relay {member} has begun to undo or redo the same.",
                "Try again when it is done; if that relay does not come back: "
                f"`relay fleet forget {member}`.",
            )
    if new.of is not None:
        wanted = State.DONE if new.kind == UNDONE else State.UNDONE
        if about is None or about["state"] not in (wanted, State.PARTLY):
            raise Refusal("Somebody else has just undone or redone it.", "Look at the log, then try again.")
    paths = sorted({file["path"] for file in new.answer["files"] if file["before"] != file["after"]})
    inputs = {
        "lane": new.lane,
        "to": new.to,
        "into": new.target.value,
        "removed": list(new.removed),
        "rewind": new.of,
        "place": new.place,
        "base": new.base,
        "before": new.before,
        "by": new.author,
        "worktree": new.worktree,
        **({"member": new.member} if new.member else {}),
    }
    event = await events.append(
        tx,
        NewEvent(
            new.kind,
            new.by,
            inputs=inputs,
            outputs=new.answer,
            parents=new.causes,
            branch=new.answer["branch"],
            snapshot=new.after,
            file_touches=paths,
            source_key=new.source_key,
        ),
    )
    await _put(tx, event, State.BEGUN)
    await project(tx, event)
    return event


async def finish(tx: Tx, operation: Operation) -> None:
    """It is done, and the rewind that it is about is done or undone with it. Raises Refusal where it was given up
    meanwhile."""
    now = await of_event(tx, operation.event)
    if now is not None and now.state is State.GIVEN_UP:
        raise Refusal(
            "That was given up meanwhile, since this relay was forgotten.",
            f"What it changed in {operation.place} stands there: look at it, and take it back anew.",
        )
    event = await events.get(tx, operation.event)
    assert event is not None
    if worktree := event.inputs["worktree"]:
        # Else the next turn there would find changes of nobody's.
        by = Lane(event.session, event.lane)
        await record_tree(tx, by, worktree, operation.after, parents=[event.id])
    await _settle(tx, operation, event)


async def _settle(tx: Tx, operation: Operation, event: Event) -> None:
    partly = operation.kind == UNDONE and event.outputs["conflicts"]
    state = State.PARTLY if partly else State.DONE
    await tx.execute(Q.set_rewind_state, pos=operation.pos, state=state.value)
    await _settle_rewind(tx, operation)


async def _settle_rewind(tx: Tx, operation: Operation) -> None:
    """What the operations of a rewind leave of it."""
    if operation.kind != REWOUND:
        undo = await _standing_undo(tx, operation.rewind)
        state = State.DONE if undo is None else State.PARTLY if undo.state is State.PARTLY else State.UNDONE
        await tx.execute(Q.set_rewind_state, pos=operation.rewind, state=state.value)


async def _standing_undo(tx: Tx, rewind: int) -> Operation | None:
    """The newest undo of a rewind that was not redone."""
    standing: list[Operation] = []
    for row in await tx.all(Q.later_operations, rewind=rewind):
        operation = _operation(row)
        if operation.kind == UNDONE:
            standing.append(operation)
        elif standing:
            standing.pop()
    return standing[-1] if standing else None


async def left_by_undo(tx: Tx, rewind: Operation) -> frozenset[str] | None:
    """The files that the undo of a rewind left in conflict, and its next undo is about; None: about all."""
    undo = await _standing_undo(tx, rewind.pos) if rewind.kind == REWOUND else None
    event = None if undo is None else await events.get(tx, undo.event)
    return None if event is None else frozenset(event.outputs["conflicts"])


async def give_up(tx: Tx, operation: Operation, reason: str, by: Lane) -> None:
    """It came to nothing: no file, branch or index says that it was asked for."""
    outputs = {"rewind": operation.event, "reason": reason}
    event = await events.append(tx, NewEvent(GIVEN_UP, by, outputs=outputs, parents=[operation.event]))
    await project(tx, event)
    await tx.execute(Q.set_rewind_state, pos=operation.pos, state=State.GIVEN_UP.value)


async def begun(tx: Tx, member: str = "") -> list[Operation]:
    """What a process of this member of the fleet was ended at and has left unsettled, the oldest first."""
    return [operation for operation, whose in await _all_begun(tx) if whose is None or whose == member]


async def give_up_all(tx: Tx, member: str, reason: str, by: Lane) -> list[Operation]:
    """What this member has begun comes to nothing: it is lost, and nobody else can settle it. What was given up."""
    lost = [operation for operation, whose in await _all_begun(tx) if whose == member]
    for operation in lost:
        await give_up(tx, operation, reason, by)
    return lost


async def _all_begun(tx: Tx) -> list[tuple[Operation, str | None]]:
    """All that is unsettled, the oldest first, each with the member on whose machine it is; None: not said."""
    found = []
    for operation in map(_operation, await tx.all(Q.begun_rewinds)):
        event = await events.get(tx, operation.event)
        found.append((operation, None if event is None else event.inputs.get("member")))
    return found


async def of_event(tx: Tx, event: str) -> Operation | None:
    """The operation that this event recorded."""
    row = await tx.one(Q.rewind_of_event, event=event)
    return None if row is None else _operation(row)


async def to_undo(tx: Tx) -> Operation | None:
    """The newest rewind that is done and not undone, or undone in part."""
    row = await tx.one(Q.rewind_to_undo)
    return None if row is None else _operation(row)


async def to_redo(tx: Tx) -> Operation | None:
    """The newest undo whose rewind is still undone, of those that changed files and that no rewind came after."""
    row = await tx.one(Q.rewind_to_redo)
    return None if row is None else _operation(row)


async def undo_commands(tx: Tx) -> dict[str, str | None]:
    """What `undo` and `redo` act on now: the command, by the event that it takes back. None: an event of which a
    rewind that stands has left nothing."""
    rewinds = [_operation(row) for row in await tx.all(Q.rewinds_standing)]
    gone: dict[str, str | None] = {id: None for rewind in rewinds for id in rewind.removed}
    operations = {UNDO: await to_undo(tx), REDO: await to_redo(tx)}
    return gone | {each.event: command for command, each in operations.items() if each is not None}


async def standing_after(tx: Tx, after: int) -> list[Operation]:
    """The rewinds behind this place in the log that were not undone."""
    return [_operation(row) for row in await tx.all(Q.rewinds_after, after=after)]


async def taken_back(tx: Tx) -> dict[str, Any]:
    """What is taken back now, for those who look: `{rewinds: [{number, event, lane, by, into, branch, events}], undo,
    redo}`. `events`: the places in the log of those of which the rewind left nothing where it wrote, which is `into`
    (worktree, main, branch); `undo`, `redo`: the ids of the events that these act on now, null = none."""
    rewinds = [_operation(row) for row in await tx.all(Q.rewinds_standing)]
    removed = dumps(sorted({id for rewind in rewinds for id in rewind.removed}))
    places = {row["id"]: row["pos"] for row in await tx.all(events.Q.events_known, ids=removed)}
    undo, redo = await to_undo(tx), await to_redo(tx)
    return {
        "rewinds": [
            {
                "number": rewind.pos,
                "event": rewind.event,
                "lane": rewind.lane,
                "by": rewind.author,
                "into": rewind.target.value,
                "branch": rewind.place.removeprefix(_HEADS) if rewind.target is Target.BRANCH else None,
                "events": sorted(places[id] for id in rewind.removed if id in places),
            }
            for rewind in rewinds
        ],
        "undo": None if undo is None else undo.event,
        "redo": None if redo is None else redo.event,
    }


async def rebuild(store: Store) -> int:
    """Make the table anew from the log, in one transaction; gives its number of rows. What is begun stays so."""

    async def work(tx: Tx) -> int:
        open_ = [operation.pos for operation, _ in await _all_begun(tx)]
        await tx.execute(Q.clear_rewinds)
        count = after = 0
        types = (REWOUND, UNDONE, REDONE, GIVEN_UP)
        while batch := await events.read_after(tx, after, types=types, limit=BATCH):
            for event in batch:
                await _fold(tx, event, begun=event.pos in open_)
            count, after = count + sum(event.type != GIVEN_UP for event in batch), batch[-1].pos
        return count

    return await store.write(work)


async def _fold(tx: Tx, event: Event, *, begun: bool) -> None:
    """What an event says of the table, on its own."""
    if event.type == GIVEN_UP:
        operation = await of_event(tx, event.outputs["rewind"])
        if operation is None:
            return  # in a log that was brought back without it
        await tx.execute(Q.set_rewind_state, pos=operation.pos, state=State.GIVEN_UP.value)
        await _settle_rewind(tx, operation)
        return
    if (about := event.inputs["rewind"]) is not None and await of_event(tx, about) is None:
        return
    operation = await _put(tx, event, State.BEGUN if begun else State.DONE)
    if not begun:
        await _settle(tx, operation, event)


async def _put(tx: Tx, event: Event, state: State) -> Operation:
    """Put the row of an operation's event."""
    asked: dict[str, Any] = event.inputs
    rewind = event.pos
    if asked["rewind"] is not None:
        about = await tx.one(Q.rewind_of_event, event=asked["rewind"])
        assert about is not None
        rewind = about["pos"]
    row = {
        "pos": event.pos,
        "event": event.id,
        "kind": event.type,
        "rewind": rewind,
        "lane": asked["lane"],
        "target": asked["into"],
        "place": asked["place"],
        "base": asked["base"],
        "before": asked["before"],
        "after": event.snapshot,
        "removed": dumps(asked["removed"]),
        "state": state.value,
        "author": asked["by"],
    }
    await tx.execute(Q.put_rewind, **row)
    return _operation(row)


def _operation(row: Row) -> Operation:
    return Operation(
        pos=row["pos"],
        event=row["event"],
        kind=row["kind"],
        rewind=row["rewind"],
        lane=row["lane"],
        target=Target(row["target"]),
        place=row["place"],
        base=row["base"],
        before=row["before"],
        after=row["after"],
        removed=tuple(json.loads(row["removed"])),
        state=State(row["state"]),
        author=row["author"],
    )
