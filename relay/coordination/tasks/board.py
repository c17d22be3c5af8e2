"""The board: what people do with tasks, each change with its event in one transaction.

Invariants:
- `/undo` walks back, newest first, through what people ordered and was not brought back yet, each order whole; an
  undo is itself a change of the log but none to be undone, and no change is brought back twice;
- what an agent did since is not undone: a change of a task that an agent took or ended since is refused;
- a claim that is over is shown as over, and taken back before a change, as whoever asks for work does;
- a refusal changes nothing and says what would succeed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import uuid_utils

from relay.coordination.locks.lock import Loss
from relay.coordination.tasks import edits, task_events, transitions, why_not
from relay.coordination.tasks import task as work
from relay.coordination.tasks.claims import Claims
from relay.coordination.tasks.edits import Changed, Edit, Issue, TakenIn, told
from relay.coordination.tasks.task import Given, Status, Task
from relay.coordination.tasks.task_events import By, Change, Pair, Q, pairs_of
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane
from relay.model import Refusal, references
from relay.model.ports import BoardTask
from relay.store.ports import Tx

#: By the id of a task, the commit of its merge, and when.
Landed = Callable[[Tx, Sequence[BoardTask]], Awaitable[Mapping[str, tuple[str, float] | None]]]


class Board:
    """The tasks of the room.

    Every method runs in the caller's transaction. `by` is the person's name, `lane` their lane, and `cause` the ids
    of the events that are its causes (the message with the command).
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        claims: Claims | None = None,
        landed: Landed | None = None,
    ) -> None:
        """`clock` gives Unix seconds; None: the store's. `claims`: the agents', None where there are none; `landed`
        knows what of the tasks' work is in the main branch."""
        self._clock, self._claims, self._landed = clock, claims, landed

    async def landed(self, tx: Tx, tasks: Sequence[BoardTask]) -> Mapping[str, str | None]:
        """By the id of a task, the commit with which the work for it came into the main branch; None: the work is in
        its agent's branch still."""
        found = {} if self._landed is None else await self._landed(tx, tasks)
        return {id: merge and merge[0] for id, merge in found.items()}

    async def _now(self, tx: Tx) -> float:
        return await tx.now() if self._clock is None else self._clock()

    async def create(
        self,
        tx: Tx,
        title: str,
        *,
        by: str,
        lane: Lane,
        cause: Sequence[str] = (),
        body: str = "",
        priority: int = 5,
        task_type: str = "task",
        input_data: Any = None,
    ) -> Changed:
        """Put a new pending task on the board. `body`: its description, Markdown; `priority` 1 (first) to 10. Raises
        Refusal."""
        if not 1 <= priority <= 10:
            raise Refusal(f"There is no priority {priority}.", "1 is the first, 10 the last.")
        now = await self._now(tx)
        task = Task(
            id=str(uuid_utils.uuid7()),
            number=0,
            task_type=task_type,
            task_description=edits.description(work.clean_title(title), body),
            input_data=json.loads(json.dumps(input_data)),
            priority=priority,
            rank=work.rank(now, priority),
            status=work.Status.PENDING,
            created_by=by,
            created_at=now,
            updated_at=now,
        )
        task = replace(task, number=await events.next_number(tx, "task"))
        return await self._record(tx, Change.CREATED, [(None, task)], by=by, lane=lane, cause=cause)

    async def move(
        self, tx: Tx, number: int, to: str, *, by: str, lane: Lane, cause: Sequence[str] = ()
    ) -> Changed:
        """Move a task to the column `to`. Raises Refusal: no such task or column, or there already."""
        column = work.column(to)
        await self._take_back(tx)
        task = await self.get(tx, number)
        token = await task_events.next_fence(tx)
        after = transitions.moved(task, column, by=by, now=await self._now(tx), fence=token)
        return await self._record(tx, Change.MOVED, [(task, after)], by=by, lane=lane, cause=cause)

    async def move_all(self, tx: Tx, to: str, *, by: str, lane: Lane, cause: Sequence[str] = ()) -> Changed:
        """Move every active task (pending, in progress) to `to`. Raises Refusal when none would move."""
        column, now = work.column(to), await self._now(tx)
        await self._take_back(tx)
        active = [task for task in await self.list(tx) if task.active]
        if not active:
            raise Refusal("There is no active task on the board.", "`/task <title>` adds one.")
        pairs: list[Pair] = [
            (task, transitions.moved(task, column, by=by, now=now, fence=await task_events.next_fence(tx)))
            for task in active
            if task.column is not column
        ]
        if not pairs:
            raise Refusal(f"Every active task is {column} already.", "`/tasks` shows the board.")
        return await self._record(tx, Change.MOVED_ALL, pairs, by=by, lane=lane, cause=cause)

    async def rename(
        self, tx: Tx, number: int, title: str, *, by: str, lane: Lane, cause: Sequence[str] = ()
    ) -> Changed:
        """Give a task another title. Raises Refusal."""
        await self._take_back(tx)
        task, wanted = await self.get(tx, number), work.clean_title(title)
        if wanted == task.title:
            raise Refusal(f"{references.task(number)} is called that already.")
        text = work.retitled(task.task_description, wanted)
        after = replace(task, task_description=text, updated_at=await self._now(tx))
        return await self._record(tx, Change.RENAMED, [(task, after)], by=by, lane=lane, cause=cause)

    async def edit(
        self,
        tx: Tx,
        numbers: Sequence[int],
        changes: Mapping[str, Any],
        *,
        by: str,
        lane: Lane,
        cause: Sequence[str] = (),
    ) -> Changed:
        """Change what tasks say of themselves (`changes`: fields of `Edit`). Raises Refusal: nothing would change, a
        value is none, a dependency is unknown or closes a circle."""
        edit = Edit(**changes)
        await self._take_back(tx)
        now = await self._now(tx)
        tasks = [await self.get(tx, number) for number in dict.fromkeys(numbers)]
        edited = [(task, await edits.edited(tx, task, edit, now=now)) for task in tasks]
        pairs: list[Pair] = [(task, after) for task, after in edited if not work.same_text(task, after)]
        if not pairs:
            raise Refusal(f"{told(tasks)} {'is' if len(tasks) == 1 else 'are'} like that already.")
        return await self._record(tx, Change.EDITED, pairs, by=by, lane=lane, cause=cause)

    async def move_some(
        self, tx: Tx, numbers: Sequence[int], to: str, *, by: str, lane: Lane, cause: Sequence[str] = ()
    ) -> Changed:
        """Move these tasks to the column `to`; those that are there stay. Raises Refusal when none would move."""
        column, now = work.column(to), await self._now(tx)
        await self._take_back(tx)
        tasks = [await self.get(tx, number) for number in dict.fromkeys(numbers)]
        pairs: list[Pair] = [
            (task, transitions.moved(task, column, by=by, now=now, fence=await task_events.next_fence(tx)))
            for task in tasks
            if task.column is not column
        ]
        if not pairs:
            raise Refusal(f"{told(tasks)} {'is' if len(tasks) == 1 else 'are'} {column} already.")
        return await self._record(tx, Change.MOVED_ALL, pairs, by=by, lane=lane, cause=cause)

    async def archive(
        self, tx: Tx, numbers: Sequence[int], *, by: str, lane: Lane, cause: Sequence[str] = ()
    ) -> Changed:
        """Take these tasks off the board. Raises Refusal."""
        now = await self._now(tx)
        await self._take_back(tx)
        tasks = [await self.get(tx, number) for number in dict.fromkeys(numbers)]
        pairs: list[Pair] = [
            (task, transitions.archived(task, now=now, fence=await task_events.next_fence(tx)))
            for task in tasks
        ]
        return await self._record(tx, Change.ARCHIVED, pairs, by=by, lane=lane, cause=cause)

    async def givable(self, tx: Tx, number: int) -> Task:
        """The task, which can be given to an agent now. Raises Refusal: it is done, waits for others (it says which),
        or an agent's session has claimed it."""
        await self._take_back(tx)
        task = await self.get(tx, number)
        if task.status is Status.BLOCKED:
            (why,) = await why_not.blocked(tx, task)
            fix = f"Give it when they are done, or write `/task {task.ref} depends -`: then it depends on nothing."
            raise Refusal(f"{task.ref} cannot be given yet. {why['message']}", fix)
        transitions.given(task, Given("", 0, ""), now=0.0, fence=0)
        return task

    async def origins(self, tx: Tx, task: BoardTask, by: str) -> tuple[str, str]:
        return await task_events.origins(tx, task, by)

    async def give(
        self,
        tx: Tx,
        number: int,
        agent: str,
        message: tuple[str, int],
        *,
        by: str,
        lane: Lane,
        cause: Sequence[str] = (),
    ) -> Changed:
        """An agent of the room has the task now: by the `message` (its id and number) that a person sent it. Raises
        Refusal as `givable`."""
        task, token = await self.givable(tx, number), await task_events.next_fence(tx)
        after = transitions.given(task, Given(*message, agent), now=await self._now(tx), fence=token)
        return await self._record(tx, Change.GIVEN, [(task, after)], by=by, lane=lane, cause=cause)

    async def message_stands(
        self,
        tx: Tx,
        number: int,
        message: str,
        agent: str,
        given_up: str | None,
        *,
        lane: Lane,
        cause: Sequence[str],
    ) -> None:
        """What became of the message that gave a task to this agent: with `given_up` (why, a sentence) the task is
        open to others again; without, the agent has it again, as long as nobody else took it."""
        row = await tx.one(Q.task_by_number, number=number)
        task = None if row is None else Task.of_row(row)
        last = task.given[-1] if task is not None and task.given else None
        if task is None or last is None or (last.message, last.agent) != (message, agent):
            return
        if task.archived_at is not None:
            return
        now, token = await self._now(tx), await task_events.next_fence(tx)
        if given_up is not None and task.given_to is not None:
            after, change = transitions.given_up(task, why=given_up, now=now, fence=token), Change.GAVE_UP
        elif given_up is None and task.status is Status.PENDING:
            after = replace(task, status=Status.CLAIMED, claimed_by=agent, claimed_at=now, fence=token)
            after, change = replace(after, note=None, updated_at=now), Change.CLAIMED
        else:
            return
        await task_events.make(tx, change, [(task, after)], by=By(agent, lane, cause))

    async def take_in(
        self,
        tx: Tx,
        issues: Sequence[Issue],
        *,
        by: str,
        lane: Lane,
        cause: Sequence[str] = (),
        taken: TakenIn | None = None,
    ) -> TakenIn:
        """Make a task of each of these issues, or bring the task of one up to date where nobody changed it here.
        `taken`: what was refused of the import before; it is told on."""
        await self._take_back(tx)
        now, pairs = await self._now(tx), list[Pair]()
        taken = TakenIn() if taken is None else taken
        for issue in issues:
            row = await tx.one(Q.task_by_source, source=issue.url)
            before = None if row is None else Task.of_row(row)
            after = taken.sorted_in(issue, before, by=by, now=now)
            if after is not None and before is None:
                after = replace(after, number=await events.next_number(tx, "task"))
                taken.made.append(after.number)
            if after is not None:
                pairs.append((before, after))
        for at in range(0, len(pairs), task_events.BATCH):
            part = pairs[at : at + task_events.BATCH]
            # Each is caused by the first, so that they are one step for an undo.
            causes = [*cause, *taken.events[:1]]
            done = await self._record(tx, Change.IMPORTED, part, by=by, lane=lane, cause=causes)
            taken.events.append(done.event_id)
        return taken

    async def clear_all(self, tx: Tx, *, by: str, lane: Lane, cause: Sequence[str] = ()) -> Changed:
        """Archive every task. Raises Refusal when the board is empty."""
        now = await self._now(tx)
        await self._take_back(tx)
        shown = await self.list(tx)
        if not shown:
            raise Refusal("The board is empty already.", "`/task <title>` adds a task.")
        # An archived task is nobody's: whoever worked on it holds an old fence.
        pairs: list[Pair] = [
            (task, transitions.archived(task, now=now, fence=await task_events.next_fence(tx)))
            for task in shown
        ]
        return await self._record(tx, Change.CLEARED, pairs, by=by, lane=lane, cause=cause)

    async def undo(
        self, tx: Tx, of: Sequence[str] = (), *, by: str, lane: Lane, cause: Sequence[str] = ()
    ) -> Changed:
        """Bring back the last change that was not brought back yet, whoever made it: all that one order did. `of`:
        ids of events of which it must be one, or have one as its cause.

        Raises Refusal when there is none, when it is another, or when a task of it was changed since past the board.
        """
        await self._take_back(tx)
        last = await task_events.last_order(tx)
        if of and not any(task_events.is_of(event, of) for event in last):
            raise await task_events.not_the_last(tx, of, last)
        if not last:
            raise Refusal("There is no change to undo.", "`/tasks` shows the board.")
        now, parts = await self._now(tx), list[tuple[Event, list[Pair]]]()
        for event in last:
            pairs = list[Pair]()
            for before, after in pairs_of(event):
                row = await tx.one(Q.task_by_id, id=after.id)
                current = None if row is None else Task.of_row(row)
                if current is None or not work.same_work(current, after):
                    now_is = "" if current is None else f": it is {_stands(current)} now"
                    fix = (
                        f"`/move {after.ref} pending` (or `in_progress`, `done`) moves it where you want it."
                    )
                    raise Refusal(f"{after.ref} has been changed since{now_is}.", fix)
                token = await task_events.next_fence(tx)
                pairs.append((current, transitions.restored(current, before, now=now, fence=token)))
            parts.append((event, pairs))
        done = list[Changed]()
        for event, pairs in parts:
            undid = {"change": event.outputs["change"], "by": event.outputs["by"], "event": event.id}
            causes = [*cause, event.id]
            done.append(
                await self._record(tx, Change.UNDONE, pairs, by=by, lane=lane, cause=causes, undid=undid)
            )
            await tx.execute(Q.mark_undone, event_id=event.id, undone_by=done[-1].event_id)
        tasks = tuple(task for one in done for task in one.tasks)
        return replace(done[-1], tasks=tasks, before=tuple(task for one in done for task in one.before))

    async def undoable(self, tx: Tx) -> str:
        """What `undo` takes back now: who did what. Empty: there is nothing."""
        said = [_said(event) for event in reversed(await task_events.last_order(tx))]
        return said[0] + (f", and {len(said) - 1} more" if said[1:] else "") if said else ""

    async def among(self, tx: Tx, ids: Sequence[str]) -> Sequence[Task]:
        """Those of these tasks that are not archived."""
        rows = await tx.all(Q.tasks_by_id, ids=dumps(list(ids)))
        return await self._standing(tx, [Task.of_row(row) for row in rows if row["archived_at"] is None])

    async def list(self, tx: Tx) -> list[Task]:
        """What the board shows: pending, in progress, done; by number within. Archived ones are left out."""
        rows = await tx.all(Q.shown_tasks)
        return work.board_order(await self._standing(tx, [Task.of_row(row) for row in rows]))

    async def in_hand(self, tx: Tx) -> Sequence[Task]:
        """Of what the board shows, by number: what somebody has, or had until now, and what ended badly."""
        return await self._standing(tx, [Task.of_row(row) for row in await tx.all(Q.tasks_in_hand)])

    async def counts(self, tx: Tx) -> dict[str, int]:
        """`{open, last}`: how many tasks are to be done still, and the highest number that the board shows."""
        row = await tx.one(Q.tasks_counted)
        had = sum(task.active for task in await self.in_hand(tx))
        return {"open": had + (row["waiting"] if row else 0), "last": (row and row["last"]) or 0}

    async def story(self, tx: Tx, number: int) -> Mapping[str, Any]:
        """A task with all that is known of it, and its history. Raises Refusal."""
        task = await self.get(tx, number)
        merged = (await self.landed(tx, [task])).get(task.id, "")
        return {**await task_events.story(tx, task), "landed": merged or None, "in_branch": merged is None}

    async def _standing(self, tx: Tx, tasks: Sequence[Task]) -> Sequence[Task]:
        return tasks if self._claims is None else await self._claims.as_they_stand(tx, tasks)

    async def _take_back(self, tx: Tx) -> None:
        if self._claims is not None:
            await self._claims.take_back(tx)

    async def get(self, tx: Tx, number: int) -> Task:
        """The task of that number. Raises Refusal with what there is."""
        row = await tx.one(Q.task_by_number, number=number)
        if row is not None and row["archived_at"] is None:
            (task,) = await self._standing(tx, [Task.of_row(row)])
            return task
        if row is not None:
            fix = "If that was the last change, `/undo` brings it back."
            raise Refusal(f"{references.task(number)} is no longer on the board.", fix)
        shown = [task.number for task in await self.list(tx)]
        absent = f"There is no task {references.task(number)}"
        if not shown:
            raise Refusal(f"{absent}: the board is empty.", "`/task <title>` adds one.")
        raise Refusal(f"{absent}: the board has {work.numbers(shown)}.")

    async def _record(
        self,
        tx: Tx,
        change: Change,
        pairs: Sequence[Pair],
        *,
        by: str,
        lane: Lane,
        cause: Sequence[str],
        undid: dict[str, str] | None = None,
    ) -> Changed:
        made = await task_events.make(tx, change, pairs, by=By(by, lane, cause), undid=undid)
        for before, after in pairs:
            # A session whose task gets another title goes on, and keeps its files.
            if self._claims is not None and before is not None and before.claim not in (None, after.claim):
                lost = Loss(await tx.now(), by, f"the claim of task {before.ref} was ended on the board")
                await self._claims.free_files(tx, before, by, f"{change} by {by}", lost)
        return Changed(
            change=change,
            by=by,
            event_id=made.event.id,
            tasks=made.tasks,
            before=tuple(before for before, _ in pairs),
            undid=Change(undid["change"]) if undid else None,
            undid_by=str(undid["by"]) if undid else "",
        )


def _said(event: Event) -> str:
    """A task event in one sentence."""
    before, after = zip(*pairs_of(event), strict=True)
    by = str(event.outputs["by"])
    return f"{by} {Changed(Change(event.outputs['change']), by, event.id, after, before).summary()}"


def _stands(task: Task) -> str:
    """The column of a task in words, and how it ended there."""
    column = str(task.column).replace("_", " ")
    return f"{column} ({task.badge})" if task.badge else column
