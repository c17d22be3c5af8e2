"""Every change of a task, with its event, and what follows from it for those that need the task.

Invariants:
- a row of `work_queue` and the event that says why it is so commit together, in the caller's transaction; an event
  holds each task after the change, whole, and for a person's change before it too: so the table can be rebuilt, and
  what a person did brought back, from the log alone;
- `/undo` walks over what people did on the board. What agents did, and what followed by itself, is not undone;
- after every change each task that nobody works on stands as its needs say (`relay.coordination.tasks.dependencies`):
  those that this moves get events of their own, caused by the change's.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from relay.coordination.tasks.dependencies import Needed, Policy, dependency_status
from relay.coordination.tasks.task import Status, Task
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import Refusal
from relay.model.ports import BoardTask
from relay.store.ports import Queries, StoreError, Tx

FOLDER = Path(__file__).parents[1]
Q = Queries(FOLDER)
CREATED = "task.created"
CHANGED = "task.changed"
TASK_EVENTS = frozenset({CREATED, CHANGED})
#: Tasks that one event tells of at most: a task that thousands wait for makes many events, not one of megabytes.
BATCH = 200
#: Changes that are looked through for one: who wrote what a task says, what an order did.
_MOST_CHANGES = 1000


class Change(StrEnum):
    """What was done to tasks."""

    CREATED = "created"
    MOVED = "moved"
    MOVED_ALL = "moved_all"
    RENAMED = "renamed"
    EDITED = "edited"
    GIVEN = "given"
    ARCHIVED = "archived"
    IMPORTED = "imported"
    GAVE_UP = "gave_up"
    CLEARED = "cleared"
    UNDONE = "undone"
    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    RECOVERED = "recovered"
    DEAD = "dead"
    NEEDS = "needs"
    UNVERIFIED = "unverified"
    VERIFIED = "verified"
    UNBLOCKED = "unblocked"
    BLOCKED = "blocked"
    CASCADED = "cascaded"


#: What people do on the board, which `/undo` walks back through.
BY_PEOPLE = frozenset(
    {
        Change.CREATED,
        Change.MOVED,
        Change.MOVED_ALL,
        Change.RENAMED,
        Change.EDITED,
        Change.GIVEN,
        Change.ARCHIVED,
        Change.IMPORTED,
        Change.CLEARED,
    }
)
_CREATIONS = frozenset({Change.CREATED, Change.SUBMITTED})
_FOLLOWED = {
    Status.PENDING: Change.UNBLOCKED,
    Status.BLOCKED: Change.BLOCKED,
    Status.FAILED: Change.CASCADED,
}

Pair = tuple[Task | None, Task]


@dataclass(frozen=True, slots=True)
class By:
    """Who changes a task: the name, the lane, and the ids of the events that are the causes."""

    name: str
    lane: Lane
    cause: Sequence[str] = ()


@dataclass(slots=True)
class Followed:
    """The tasks that a change moved by itself, in the order in which they were moved."""

    tasks: list[Task] = field(default_factory=list)

    def ids(self, status: Status) -> list[str]:
        return [task.id for task in self.tasks if task.status is status]


@dataclass(frozen=True, slots=True)
class Made:
    """A change that was made: its event, the tasks as they are now, and what followed."""

    event: Event
    tasks: tuple[Task, ...]
    followed: Followed


async def make(
    tx: Tx, change: Change, pairs: Sequence[Pair], *, by: By, undid: dict[str, str] | None = None
) -> Made:
    """Write each task of `pairs` (before, after) as it is after the change, with the event and what follows."""
    for before, after in pairs:
        await put(tx, after, rewired=before is None or before.depends_on != after.depends_on)
    # All rows are there before one is looked at: tasks of one change may need each other.
    settled = []
    for before, after in pairs:
        stands = await settle(tx, after)
        if stands is not after:
            await tx.execute(Q.put_task, **stands.columns())
        settled.append((before, stands))
    event = await log(tx, change, settled, by=by, undid=undid)
    moved = [after.id for before, after in settled if before is not None and _state(before) != _state(after)]
    then = replace(by, cause=[event.id])
    return Made(event, tuple(after for _, after in settled), await follow(tx, moved, by=then))


async def put(tx: Tx, task: Task, *, rewired: bool) -> None:
    """Write the row, and with `rewired` what it needs."""
    await tx.execute(Q.put_task, **task.columns())
    if rewired:
        await tx.execute(Q.forget_needs, task_id=task.id)
        for need in task.depends_on:
            await tx.execute(Q.put_need, task_id=task.id, needs=need.id)


async def log(
    tx: Tx, change: Change, pairs: Sequence[Pair], *, by: By, undid: dict[str, str] | None = None
) -> Event:
    """The event of a change whose rows are written."""
    whole = change in BY_PEOPLE or change is Change.UNDONE
    records = [
        {"before": before.record() if before and whole else None, "after": after.record()}
        for before, after in pairs
    ]
    outputs: dict[str, Any] = {"change": str(change), "by": by.name, "tasks": records}
    if undid is not None:
        outputs["undid"] = undid
    type_ = CREATED if change in _CREATIONS else CHANGED
    event = await events.append(tx, NewEvent(type=type_, lane=by.lane, parents=by.cause, outputs=outputs))
    undoable = int(change in BY_PEOPLE)
    await tx.execute(Q.put_change, pos=event.pos, event_id=event.id, undoable=undoable)
    return event


async def last_order(tx: Tx) -> list[Event]:
    """The changes of the last order of a person's that was not taken back, newest first: an import, and the gift of
    several tasks, are several changes. Empty: there is none."""
    found = list[Event]()
    for row in await tx.all(Q.last_undoable, limit=_MOST_CHANGES):
        event = await events.get(tx, row["event_id"])
        if event is None:
            raise StoreError(f"the event {row['event_id']} of a task change is missing; run healthcheck.sh")
        if found and (event.session, event.lane) != (found[0].session, found[0].lane):
            break
        if found and not is_of(found[0], (event.id, *event.parents)):
            break
        found.append(event)
    return found


def is_of(event: Event, ids: Sequence[str]) -> bool:
    """Is it one of these events, or has it one of them as its cause?"""
    return not {event.id, *event.parents}.isdisjoint(ids)


async def not_the_last(tx: Tx, ids: Sequence[str], last: Sequence[Event]) -> Refusal:
    """Why what these events caused is not taken back."""
    for row in await tx.all(Q.last_changes, limit=_MOST_CHANGES):
        event = await events.get(tx, row["event_id"])
        if event is None or not is_of(event, ids):
            continue
        if row["undone_by"] is not None:
            return Refusal("That change was taken back already.", "`/tasks` shows the board.")
        if event.outputs["change"] in BY_PEOPLE:
            who = f": {last[0].outputs['by']} has changed it since" if last else ""
            fix = "`/undo` takes the last one back, `/move` and `/task` change what stands."
            return Refusal(f"That is not the last change of the board any more{who}.", fix)
    return Refusal("That message changed nothing on the board.", "`/undo` takes the last change back.")


def pairs_of(event: Event) -> list[Pair]:
    """The tasks of a task event, each before and after; before is None for a new task and in what agents did."""
    return [
        (Task.of_record(record["before"]) if record["before"] else None, Task.of_record(record["after"]))
        for record in event.outputs["tasks"]
    ]


async def settle(tx: Tx, task: Task) -> Task:
    """The task as its needs let it stand; itself when nothing changes, somebody works on it, or it is over."""
    if not task.depends_on or task.archived_at is not None or task.status not in _FREE:
        return task
    stands = dependency_status(await needs_of(tx, task.id), Policy(task.on_failed))
    if stands.status is task.status and (stands.note == task.note or stands.status is Status.PENDING):
        return task
    now = await tx.now()
    after = replace(task, status=stands.status, note=stands.note, updated_at=now)
    if stands.status is Status.FAILED:
        return replace(after, completed_at=now, error_message=stands.note)
    return after


_FREE = (Status.PENDING, Status.BLOCKED)


async def needs_of(tx: Tx, task_id: str) -> list[Needed]:
    """What the task needs, by number."""
    rows = await tx.all(Q.needs_of, task_id=task_id)
    return [_needed(row["id"], row["number"], row["status"], row["archived_at"]) for row in rows]


async def follow(tx: Tx, ids: Sequence[str], *, by: By) -> Followed:
    """Settle the tasks that need these. Where one of them fails, those that need it are settled too."""
    followed, waiting = Followed(), list(ids)
    while waiting:
        for row in await tx.all(Q.dependents, needs=waiting.pop(0)):
            task = Task.of_row(row)
            after = await settle(tx, task)
            if after is task:
                continue
            await tx.execute(Q.put_task, **after.columns())
            followed.tasks.append(after)
            if after.status is Status.FAILED:
                waiting.append(after.id)
    for status, change in _FOLLOWED.items():
        moved: list[Pair] = [(None, task) for task in followed.tasks if task.status is status]
        for at in range(0, len(moved), BATCH):
            await log(tx, change, moved[at : at + BATCH], by=by)
    return followed


async def next_fence(tx: Tx) -> int:
    """A new token of the room's one counter: it is greater than every one before it."""
    return await events.next_number(tx, "fence")


def _needed(id_: str, number: int, status: str, archived_at: float | None) -> Needed:
    return Needed(id_, number, Status(status), archived_at is not None)


def _state(task: Task) -> object:
    return _needed(task.id, task.number, task.status, task.archived_at).state


async def story(tx: Tx, task: Task) -> Mapping[str, Any]:
    """TASK with `input_data`, `result`, `error_message` and `history`: `[{id, at, by, change, to, status,
    note}]`, oldest first; `to`: whom it was given. `more`: what happened before the part of the
    log that is looked through is not in it."""
    # So an event holds the task itself; the event of a task that needs it names it otherwise.
    entries = await events.about(tx, f'"id":{dumps(task.id)}', types=sorted(TASK_EVENTS))
    history = [step for event in reversed(entries) if (step := _step(event, task.id)) is not None]
    begun = bool(history) and history[0]["change"] in ("created", "submitted", "imported")
    more = {"input_data": task.input_data, "result": task.result, "error_message": task.error_message}
    return {**task.as_json(), **more, "history": history, "more": not begun}


def _step(event: Event, id: str) -> dict[str, Any] | None:
    """What this event did to the task."""
    for change in event.outputs["tasks"]:
        after = change["after"]
        if after["id"] == id:
            given = after.get("given") if event.outputs["change"] == Change.GIVEN else None
            return {
                "id": event.id,
                "at": event.at,
                "by": event.outputs.get("by"),
                "change": event.outputs["change"],
                "to": given[-1][2] if given else None,
                "status": after["status"],
                "note": after.get("error_message") or after.get("note"),
            }
    return None


async def origins(tx: Tx, task: BoardTask, by: str) -> tuple[str, str]:
    """Whose words the title and the description are: `imported from URL`, `written by NAME`; "" = there are none, or
    they are `by`'s own, and proven to be."""
    entries = await events.about(
        tx, f'"id":{dumps(task.id)}', types=sorted(TASK_EVENTS), window=2**53, limit=_MOST_CHANGES
    )
    entries.reverse()
    # A part of a longer description stays the words of whoever wrote that.
    described = await _origin(tx, entries, task.id, by, lambda then: task.body in then.task_description)
    titled = await _origin(tx, entries, task.id, by, lambda then: task.title == then.title)
    return titled, described if task.body else ""


async def _origin(tx: Tx, entries: Sequence[Event], id: str, by: str, says: Callable[[Task], bool]) -> str:
    """By the first of these changes (the oldest first) after which the task `says` so."""
    for event in entries:
        then = next((after for _, after in pairs_of(event) if after.id == id), None)
        if then is None or not says(then):
            continue
        if event.outputs["change"] == Change.IMPORTED:
            return f"imported from {then.source}"
        proven = True
        for parent in event.parents:
            asked = await events.get(tx, parent)
            said = asked.outputs if asked is not None and isinstance(asked.outputs, dict) else {}
            proven = proven and "unverified" not in said.get("message", {}).get("meta", {})
        if proven and event.outputs["by"] == by:
            return ""
        return f"written by {event.outputs['by']}{'' if proven else ', unverified'}"
    return "whose author the log does not tell"
