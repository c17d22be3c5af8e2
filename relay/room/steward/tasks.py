"""Carries out what people order about the tasks of the board, and gives them to agents.

Invariants:
- a task is given by a message of the person's, which is one like any other: it has a job, a receipt and an answer;
- a task is given to an agent only that would begin with it. `any` is decided by `relay.room.routing.choice`;
- everything runs in the transaction of the room's answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.log import events
from relay.model import Board, Kind, Refusal, actions, references
from relay.model.actions import Field
from relay.model.orders.board import NOTHING
from relay.model.ports import BoardTask, Holds
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.permissions import code_span
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.room.journal.admitting import IDLE
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.orders import Order, Result
from relay.room.journal.values import Job, JobState
from relay.room.journal.visitors import reached, told_waits, visitors
from relay.room.parsing import commands
from relay.room.routing.choice import choice
from relay.room.steward import markdown
from relay.room.steward.meant import message_of
from relay.store.ports import Tx

#: Characters of a task's title that fit on the board.
MAX_TITLE = 200
#: The states of a job that an agent has before it, or is at.
_OPEN = (JobState.PENDING, JobState.FAILED, JobState.ACTIVE)


@dataclass(frozen=True, slots=True)
class TaskActions:
    """What the steward does with the board."""

    board: Board
    roster: Roster
    holds: Holds

    async def sessions(self, tx: Tx) -> Mapping[str, str]:
        """People's own sessions, which can be given a task too (docs/attach.md), and what each does."""
        return reached(visitors(await self.holds.sessions(tx), self.roster.members))

    async def carry_out(self, tx: Tx, action: actions.OfBoard, order: Order) -> Result:
        """Raises Refusal, with nothing changed."""
        board, whose = self.board, _whose(order)
        match action:
            case actions.ShowTask(number):
                task = await board.get(tx, number)
                return Result(shown(task, (await board.landed(tx, [task])).get(task.id) or ""), task=number)
            case actions.AddTask(title, description):
                if len(title) > MAX_TITLE:
                    wrong = f"The title has {len(title)} characters; at most {MAX_TITLE} fit on the board."
                    raise Refusal(commands.misused("/task", wrong))
                change = await board.create(tx, title, body=description or "", **whose)
            case actions.EditTasks(numbers, what, value):
                change = await board.edit(tx, numbers, changes_of(what, value), **whose)
            case actions.MoveTask(number, status):
                change = await board.move(tx, number, str(status), **whose)
            case actions.MoveTasks(numbers, status):
                change = await board.move_some(tx, numbers, str(status), **whose)
            case actions.MoveAll(status):
                change = await board.move_all(tx, str(status), **whose)
            case actions.Archive(numbers):
                change = await board.archive(tx, numbers, **whose)
            case actions.ClearAll():
                change = await board.clear_all(tx, **whose)
            case actions.Undo(number):
                return await self._undo(tx, number, order)
            case actions.Give():
                return await self._give(tx, action, order)
            case _:
                raise Refusal(f"The room does not know how to do {action!r}.")
        one = len(change.tasks) == 1 and not isinstance(action, actions.MoveAll | actions.ClearAll)
        number = change.task.number if one else None
        return Result(f"{order.by} {change.summary()}", task=number, meta=_back(order))

    async def _give(self, tx: Tx, action: actions.Give, order: Order) -> Result:
        """Each of the tasks that can be given; what keeps the others is said."""
        done, refused = list[str](), list[Refusal]()
        for number in dict.fromkeys(action.tasks):
            try:
                done.append(await self._give_one(tx, number, action, order))
            except Refusal as refusal:
                refused.append(refusal)
        if len(refused) == len({*action.tasks}) == 1:
            raise refused[0]
        if not done:
            raise Refusal("\n".join(f"- {refusal}" for refusal in refused))
        lines = [*done, *map(str, refused)]
        text = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
        return Result(text, task=action.tasks[0] if len(action.tasks) == 1 else None, meta=_back(order))

    async def _give_one(self, tx: Tx, number: int, action: actions.Give, order: Order) -> str:
        # Everything that may refuse comes before the first write.
        task = await self.board.givable(tx, number)
        await self._not_at_it(tx, task)
        name, load = await self._chosen(tx, action.agent, order.now)
        message, event = await ledger.put_message(
            tx,
            NewMessage(
                order.by,
                Kind.HUMAN,
                text_of(task, name, *await self.board.origins(tx, task, order.by), why=action.why),
                order.now,
                parents=order.cause,
                to=(name,),
                meta={"given": {"task": task.id, "number": task.number}},
            ),
        )
        await ledger.queue_jobs(tx, message.id, [name], parents=[event.id], now=order.now)
        whose = {**_whose(order), "cause": [*order.cause, event.id]}
        change = await self.board.give(tx, number, name, (message.id, message.number), **whose)
        waits = f" {name} has {load} message{'s' * (load != 1)} before it." if load else ""
        if (await self.sessions(tx)).get(name) == IDLE:
            waits += f" {told_waits([name], message.number)}"
        return f"{order.by} {change.summary()} ({references.message(message.number)}).{waits}"

    async def _not_at_it(self, tx: Tx, task: BoardTask) -> None:
        """Raises Refusal when the agent that it was given to has not answered yet."""
        if task.given_to is None:
            return
        id, number, agent = task.given[-1]
        jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=id)]
        if any(job.agent == agent and job.state in _OPEN for job in jobs):
            where = references.message(number)
            raise Refusal(
                f"{agent} has {task.ref} before it ({where}).", f"`/cancel @{agent}` takes it back."
            )

    async def _chosen(self, tx: Tx, agent: str | None, now: float) -> tuple[str, int]:
        """Who gets it, and how many messages that agent has before it. Raises Refusal when nobody would begin."""
        chosen = await choice(tx, self.roster.members, now)
        if agent is None:
            if chosen.names:
                return chosen.names[0], chosen.load[chosen.names[0]]
            why = "; ".join(f"{name}: {reason}" for name, reason in chosen.refused.items())
            raise Refusal(f"No agent can begin with it: {why or 'the room has none'}.", "`/who` shows them.")
        if agent not in self.roster.members:
            sessions = await self.sessions(tx)
            name = next((each for each in sessions if each.casefold() == agent.casefold()), None)
            if name is not None:
                return name, len(await tx.all(Q.open_jobs_of_agent, agent=name))
            have = ", ".join((*self.roster.names, *sessions)) or "none"
            raise Refusal(f"There is no agent {agent}.", f"The room has: {have}.")
        if agent in chosen.refused:
            able = f"`{actions.Give((1,)).word} … any` gives it to whoever is free." if chosen.names else ""
            raise Refusal(f"{agent} would not begin with it: {chosen.refused[agent]}.", able)
        return agent, chosen.load[agent]

    async def _undo(self, tx: Tx, number: int | None, order: Order) -> Result:
        """What was given is taken back, where its agent has not begun. `number`: of the message that ordered the
        change, or in which the room told of it."""
        of = list[str]()
        if number is not None:
            message = await message_of(tx, number)
            rooms = message.kind == Kind.SYSTEM
            row = await tx.one(Q.event_of_message, id=(rooms and message.in_reply_to) or message.id)
            event = await events.get(tx, row["event_id"]) if row is not None else None
            if event is not None:
                of = [event.id, *(event.parents if rooms and not message.in_reply_to else ())]
        change = await self.board.undo(tx, of, **_whose(order))
        text = f"{order.by} {change.summary()}"
        for was, now in zip(change.before, change.tasks, strict=True):
            if was is None or was.given_to is None or len(was.given) <= len(now.given):
                continue
            id, number, agent = was.given[-1]
            reason = f"{order.by} took {was.ref} back"
            taken = await RoomVoice(self.roster).withdraw(tx, id, reason, now=order.now, agents=[agent])
            if not taken and await self._is_at(tx, id, agent):
                text += f". {agent} is at {references.message(number)}: `/cancel @{agent}` ends its turn"
        return Result(text)

    async def _is_at(self, tx: Tx, message: str, agent: str) -> bool:
        jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message)]
        return any(job.agent == agent and job.state is JobState.ACTIVE for job in jobs)


def _back(order: Order) -> dict[str, str]:
    """What takes back what this orders, and no later change."""
    return {"undo": actions.Undo(order.message.number).line()}


def _whose(order: Order) -> dict[str, Any]:
    return {"by": order.by, "lane": ledger.cycle_lane(order.message.id), "cause": order.cause}


def changes_of(what: Field, value: str) -> Mapping[str, Any]:
    """What `Board.edit` is to change. Pure."""
    nothing = value == NOTHING
    match what:
        case Field.TITLE:
            return {"title": value}
        case Field.DESCRIPTION:
            return {"body": "" if nothing else value}
        case Field.PRIORITY:
            return {"priority": int(value)}
        case Field.FILES:
            return {"files": [] if nothing else shlex.split(value)}
        case Field.DEPENDS:
            return {"depends_on": [] if nothing else value.split()}


def text_of(task: BoardTask, agent: str, titled: str = "", described: str = "", why: str = "") -> str:
    """The message by which a task is given. It shows as its giver's, so relay's own words to the agent are not in it
    (`message_text` in relay/room/dispatch/turns.py adds them). `titled`, `described`: whose words these are, "" = the
    giver's own; those of others are quoted, so that the agent does not take them for the giver's. `why`: the giver's
    own words beside the task. Pure."""
    title = f"@{agent} {task.ref}: {task.title}"
    if titled:
        title = f"@{agent} {task.ref}. Its title, {titled}:\n\n{_quoted(task.title)}"
    parts = [title, f"{why[:1].upper()}{why[1:]}", task.body]
    if described:
        parts[2] = f"Its description, {described}:\n\n{_quoted(task.body)}"
    if task.files:
        parts.append(f"Files: {_paths(task.files)}")
    return "\n\n".join(part for part in parts if part)


def shown(task: BoardTask, landed: str = "") -> str:
    """A task for the room, as markdown. `landed`: the commit of its merge. Pure."""
    told = task.as_json()
    badge = f", {told['badge']}" if told["badge"] else ""
    who = f", {markdown.plain(told['assignee'])}" if told["assignee"] else ""
    facts = [
        f"- {told['status'].replace('_', ' ')}{badge}{who}; priority {told['priority']} (1 is first, 10 last)",
    ]
    if told["depends_on"]:
        needs = ", ".join(references.task(need["number"]) for need in told["depends_on"])
        facts.append(f"- depends on {needs}")
    if task.files:
        facts.append(f"- files: {_paths(task.files)}")
    if told["note"]:
        facts.append(f"- {markdown.sentence(told['note'])}")
    if task.given:
        given = ", ".join(f"{agent} ({references.message(number)})" for _, number, agent in task.given)
        facts.append(f"- given to {given}")
    if landed:
        facts.append(f"- landed as `{landed[:7]}`")
    if told["source"]:
        facts.append(f"- from {code_span(told['source'])}")
    # Quoted, so that no line of it passes for the room's own.
    body = ["", _quoted(task.body)] if task.body else []
    return "\n".join([f"**{task.ref}** {markdown.plain(task.title)}", *facts, *body])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _paths(paths: Sequence[str]) -> str:
    return ", ".join(markdown.path(path) for path in paths)
